"""Serves scrapes over HTTP, answered in threads by prometheus_client's application."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import trio
from prometheus_client import make_wsgi_app

from rmqcli.metrics.exposition import registry
from rmqcli.metrics.families import Sample

# The HTTP server under `metrics serve`, with bounds on what its peers cost.
#
# A request has READ_SECONDS to arrive, and its answer as many to be taken. There are at most MOST
# connections: of those whose request has not arrived, the one that has waited the longest makes room.

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
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Count a connection; return False if there are too many."""
        with self._lock:
            if len(self._open) >= self._most:
                # Connections that send no request must not keep scrapes out: the oldest one gives way.
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
        """Note that a request has been read."""
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


class Handler(WSGIRequestHandler):
    """Handles one request without logging it."""

    # For each read. `service_actions` limits the whole request, for a peer that sends byte by byte.
    timeout = READ_SECONDS
    server: Listener

    def parse_request(self) -> bool:
        is_one = super().parse_request()
        self.server.arrived(self.request)
        return is_one

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


Collect = Callable[[], Awaitable[Sequence[Sample]]]


class Shared:
    """Collects once for all scrapes that arrive meanwhile: those that gave up waiting must not delay the next
    ones.
    """

    def __init__(self, collect: Collect) -> None:
        self._collect = collect
        self._lock = trio.Lock()
        self._last: Sequence[Sample] = ()

    async def samples(self) -> Sequence[Sample]:
        waits = self._lock.locked()
        async with self._lock:
            if not waits or not self._last:
                # If the collection fails, there is nothing to share: each that waits collects again.
                self._last = ()
                self._last = await self._collect()
            return self._last


@asynccontextmanager
async def open_metrics(host: str, port: int, collect: Collect) -> AsyncIterator[int]:
    """Answer scrapes on a port (0: any) until the block ends. Yield the port. Raise OSError if it is in use.

    Scrapes that arrive while another one is in progress are answered with its samples.
    """
    token, shared = trio.lowlevel.current_trio_token(), Shared(collect)

    def read() -> Sequence[Sample]:
        return trio.from_thread.run(shared.samples, trio_token=token)

    server = Listener((host, port))
    server.set_app(make_wsgi_app(registry(read)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.shutdown)
            server.server_close()
            await trio.to_thread.run_sync(thread.join)
