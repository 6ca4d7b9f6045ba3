"""Streams of messages between a command and the client library: reading, following, sending, consuming."""
