"""Examines a cluster: a survey asks everything at once, checks judge the answers, a probe sends a message."""
