"""Clusters of two brokers in a thread, for commands that ask several servers."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import trio

from rmqcli.broker.config import NamesrvConfig
from rmqcli.broker.namesrv import open_name_server
from rmqcli.broker.testing.embedded import open_member

T = TypeVar("T")
UNREACHABLE = {"broker_ip1": "127.0.0.2", "bind_address": "127.0.0.1"}
"""A broker that registers an address at which nothing listens."""


class Pair(NamedTuple):
    """Two name servers, and the brokers broker-a and broker-b."""

    namesrv: str
    names: tuple[str, str]
    brokers: dict[str, str]


@asynccontextmanager
async def open_pair(root: Path, b: dict[str, Any]) -> AsyncIterator[Pair]:
    """Runs a pair inside the block; `b` has further settings of broker-b."""
    config = NamesrvConfig(kv_config_path=None, config_store_path=None)
    async with AsyncExitStack() as stack:
        names = [await stack.enter_async_context(open_name_server(config, port=0)) for _ in range(2)]
        namesrv = ";".join(server.address for server in names)
        address = {"broker_ip1": "127.0.0.1", "bind_address": "127.0.0.1", "listen_port": 0}
        brokers = {}
        for name, more in (("broker-a", {}), ("broker-b", b)):
            (root / name).mkdir()
            settings = {"broker_name": name, **address, **more}
            member = await stack.enter_async_context(open_member(namesrv, root / name, settings))
            brokers[name] = member.broker_address
        yield Pair(namesrv, (names[0].address, names[1].address), brokers)


@contextmanager
def in_thread(opened: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Enters a context in a thread of its own until the block ends."""
    started: Future[tuple[T, trio.lowlevel.TrioToken, trio.Event]] = Future()

    async def main() -> None:
        stop = trio.Event()
        async with opened() as value:
            started.set_result((value, trio.lowlevel.current_trio_token(), stop))
            await stop.wait()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run, name="pair", daemon=True)
    thread.start()
    value, token, stop = started.result()
    try:
        yield value
    finally:
        token.run_sync_soon(stop.set)
        thread.join()
