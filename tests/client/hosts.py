"""Brokers for the tests of the clients for threads and for asyncio."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent_broker() -> Iterator[str]:
    """A server that accepts connections and requests, and never replies: its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
