"""Scrapes, answered in threads by prometheus_client's application; the cluster is asked in trio's."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from prometheus_client import make_wsgi_app

from rmqcli.metrics.exposition import registry
from rmqcli.metrics.families import Sample
from rmqcli.metrics.listener import Listener

Collect = Callable[[], Awaitable[Sequence[Sample]]]


class Shared:
    """Collects once for all that ask meanwhile: those that gave up waiting must not delay the next ones."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect
        self._lock = trio.Lock()
        self._last: Sequence[Sample] = ()

    async def samples(self) -> Sequence[Sample]:
        waits = self._lock.locked()
        async with self._lock:
            if not waits or not self._last:
                self._last = ()
                self._last = await self._collect()
            return self._last


@asynccontextmanager
async def open_metrics(host: str, port: int, collect: Collect) -> AsyncIterator[int]:
    """Answer scrapes on a port (0: any) until the block ends. Yield the port; OSError if it is taken.

    Scrapes that come while another one is under way are answered with its samples.
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
