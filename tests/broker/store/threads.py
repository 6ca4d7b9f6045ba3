"""A store whose worker threads are replaced by a recorder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
import trio.testing

from rmqcli.broker.store import MessageStore, open_store
from rmqcli.broker.store.flush import sync_files
from tests.broker.store.support import HOST, Clock, small_config


class Threads:
    """Runs what is given to worker threads, `seconds` later; remembers which files were flushed when."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.flushed: list[tuple[float, list[str]]] = []
        self.failing = False
        self.opened_at = trio.current_time()

    async def __call__(self, function: Any, *arguments: Any) -> Any:
        await trio.sleep(self.seconds)
        if sync_files in arguments:
            if self.failing:
                raise OSError("no disk")
            names = [path.parent.name for path in arguments[2]]
            self.flushed.append((round(trio.current_time() - self.opened_at, 3), names))
        return function(*arguments)


@asynccontextmanager
async def opened(root: Path, threads: Threads, **settings: Any) -> AsyncIterator[MessageStore]:
    config = small_config(root, **settings)
    async with open_store(config, now_ms=Clock(step=1), store_host=HOST, in_thread=threads) as store:
        threads.flushed.clear()
        threads.opened_at = trio.current_time()
        yield store
