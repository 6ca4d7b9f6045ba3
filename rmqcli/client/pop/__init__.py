"""Consumers that receive and acknowledge single messages (POP consumption of 5.x)."""
