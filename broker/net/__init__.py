"""Connections: a server that dispatches requests to handlers, sessions that reply to them, requests to
other nodes.
"""
