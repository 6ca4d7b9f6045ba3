"""An HTTP server on a thread, with limits on the cost of its peers.

A request must arrive within READ_SECONDS, and its response must be read within as many seconds. There are at
most MOST connections: of those whose request has not arrived, the one that has waited the longest makes room.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import BufferedIOBase
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import trio

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

READ_SECONDS = 10.0
MOST = 64


class Listener(ThreadingMixIn, WSGIServer):
    """Answers each request in a thread."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        *,
        read_seconds: float = READ_SECONDS,
        most: int = MOST,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raise OSError if the address is in use."""
        self.address_family, _, _, _, found = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self._lock = threading.Lock()
        self._unread: dict[Any, float] = {}
        self._open: set[Any] = set()
        self._read_seconds = read_seconds
        self._most = most
        self._now = now
        super().__init__((str(found[0]), int(found[1])), Handler)

    def server_bind(self) -> None:
        """Bind without looking up the name of the host, which may take long."""
        if os.name != "nt":  # where the option lets two servers share a port
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Count a connection; return False if there are too many."""
        with self._lock:
            if len(self._open) >= self._most:
                # Connections that send no request must not keep scrapes out, so the oldest one is closed.
                oldest = next(iter(self._unread), None)
                if oldest is None:
                    return False
                self._end(oldest)
            self._open.add(request)
            self._unread[request] = self._now() + self._read_seconds
        return True

    def service_actions(self) -> None:
        """Close the connections whose request has not arrived in time; called twice a second."""
        now = self._now()
        with self._lock:
            for request in [one for one, ends in self._unread.items() if ends <= now]:
                self._end(request)

    def arrived(self, request: Any) -> None:
        """Record that a request has been read."""
        with self._lock:
            self._unread.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._unread.pop(request, None)
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing about a peer that disconnected or was disconnected."""

    def _end(self, request: Any) -> None:
        self._unread.pop(request, None)
        self._open.discard(request)
        try:
            request.shutdown(socket.SHUT_RDWR)  # its thread closes it
        except OSError:
            return


class Answer:
    """The stream of a response. Every failed write counts as a disconnect of the peer, because wsgiref prints
    a traceback for anything else, such as a timeout.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, data: bytes) -> int:
        try:
            written: int = self._stream.write(data)
        except OSError as error:
            raise ConnectionAbortedError(*error.args) from error
        return written


class Handler(WSGIRequestHandler):
    """Handles one request without logging it."""

    # For each read. `service_actions` limits the whole request, for a peer that sends byte by byte.
    timeout = READ_SECONDS
    server: Listener

    def setup(self) -> None:
        super().setup()
        self.wfile = cast(BufferedIOBase, Answer(self.wfile))

    def parse_request(self) -> bool:
        is_one = super().parse_request()
        self.server.arrived(self.request)
        return is_one

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@asynccontextmanager
async def open_http(host: str, port: int, app: WSGIApplication) -> AsyncIterator[int]:
    """Handle requests on a port (0: any) in threads until the block ends. Yield the port. Raise OSError if it
    is in use.
    """
    server = Listener((host, port))
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.shutdown)
            server.server_close()
            await trio.to_thread.run_sync(thread.join)
