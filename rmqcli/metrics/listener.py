"""The HTTP server under `metrics serve`, with bounds on what its peers cost.

A request has READ_SECONDS to arrive, and its answer as many to be taken. There are at most MOST
connections: of those whose request has not arrived, the one that has waited the longest makes room.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

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
        """Raise OSError for an address that is taken."""
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
        """Bind without asking for the name of the host, which may take long."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Count a connection; False if there is no room for it."""
        with self._lock:
            if len(self._open) >= self._most:
                oldest = next(iter(self._unread), None)
                if oldest is None:
                    return False
                self._end(oldest)
            self._open.add(request)
            self._unread[request] = self._now() + self._read_seconds
        return True

    def service_actions(self) -> None:
        """End the connections whose request does not arrive; called twice a second."""
        now = self._now()
        with self._lock:
            for request in [one for one, ends in self._unread.items() if ends <= now]:
                self._end(request)

    def arrived(self, request: Any) -> None:
        """Note that a request has been read."""
        with self._lock:
            self._unread.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._unread.pop(request, None)
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a peer that has left, or was made to."""

    def _end(self, request: Any) -> None:
        self._unread.pop(request, None)
        self._open.discard(request)
        try:
            request.shutdown(socket.SHUT_RDWR)  # its thread closes it
        except OSError:
            return


class Handler(WSGIRequestHandler):
    """Handles one request without logging it."""

    timeout = READ_SECONDS
    server: Listener

    def parse_request(self) -> bool:
        is_one = super().parse_request()
        self.server.arrived(self.request)
        return is_one

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
