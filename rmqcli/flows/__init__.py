"""Streams of messages between a command and the client library: read, followed, sent, consumed, and what is said of each."""

from __future__ import annotations

__all__: list[str] = []
