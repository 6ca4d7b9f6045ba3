"""Serves scrapes over HTTP, in threads, with prometheus_client's application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from prometheus_client import make_wsgi_app

from rmqcli.http_server import open_http
from rmqcli.metrics.exposition import registry
from rmqcli.metrics.families import Sample

Collect = Callable[[], Awaitable[Sequence[Sample]]]


class Shared:
    """Collects once for all concurrent scrapes, so that those that gave up waiting do not delay the next
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
                # If the collection fails, there is nothing to share, so each waiting scrape collects again.
                self._last = ()
                self._last = await self._collect()
            return self._last


@asynccontextmanager
async def open_metrics(host: str, port: int, collect: Collect) -> AsyncIterator[int]:
    """Serve scrapes on a port (0: any) until the block ends. Yield the port. Raise OSError if it is in use.

    Scrapes that arrive while another one is in progress get its samples.
    """
    token, shared = trio.lowlevel.current_trio_token(), Shared(collect)

    def read() -> Sequence[Sample]:
        return trio.from_thread.run(shared.samples, trio_token=token)

    async with open_http(host, port, make_wsgi_app(registry(read))) as bound:
        yield bound
