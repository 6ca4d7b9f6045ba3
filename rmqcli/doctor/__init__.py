"""Diagnoses a cluster: a survey queries everything at once, checks judge the replies, a probe sends a
message.
"""
