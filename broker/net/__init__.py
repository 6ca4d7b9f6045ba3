"""Connections: a server that dispatches requests to handlers, its sessions, requests to other nodes."""
