"""Streams of messages between a command and the client library: reading, following, sending, consuming."""

from __future__ import annotations

__all__: list[str] = []
