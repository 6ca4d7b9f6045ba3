"""Diagnoses a cluster: a survey queries everything at once, checks judge the answers, a probe sends a
message.
"""
