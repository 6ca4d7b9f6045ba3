"""The HTTP server for scrapes: prometheus_client's, in threads; the cluster is asked in trio's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from prometheus_client import start_http_server

from rmqcli.metrics.exposition import registry
from rmqcli.metrics.families import Sample

Collect = Callable[[], Awaitable[Sequence[Sample]]]


@asynccontextmanager
async def open_metrics(host: str, port: int, collect: Collect) -> AsyncIterator[int]:
    """Answer scrapes on a port (0: any) until the block ends. Yield the port; OSError if it is taken.

    Scrapes that come at once are answered one after the other.
    """
    token, lock = trio.lowlevel.current_trio_token(), trio.Lock()

    async def locked() -> Sequence[Sample]:
        async with lock:
            return await collect()

    def read() -> Sequence[Sample]:
        return trio.from_thread.run(locked, trio_token=token)

    server, thread = start_http_server(port, host, registry(read))
    try:
        yield server.server_port
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.shutdown)
            server.server_close()
            await trio.to_thread.run_sync(thread.join)
