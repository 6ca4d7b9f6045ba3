"""Connections to brokers and name servers: streams, frames, requests in flight."""
