"""Fills a small tmpfs under a store; run by test_full_disk.py in a process of its own, which must survive.

Usage: python -m tests.broker.store.full_tmpfs FOLDER
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

import trio

from rmqcli.broker.store import MessageStore, open_store
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.values import PutStatus
from tests.broker.store.support import HOST, message

QUEUES = 6


def fill(path: Path) -> None:
    """Takes all the space that is left."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        while os.write(file, bytes(4096)):
            pass
    except OSError:
        os.close(file)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def send(store: MessageStore, count: int, size: int) -> Counter[PutStatus]:
    results: Counter[PutStatus] = Counter()
    for number in range(count):
        sent = message(number, queue_id=number % QUEUES, size=size)
        results[(await store.when_ready(store.writer.append, sent)).status] += 1
    return results


async def read(store: MessageStore) -> int:
    count = 0
    for queue_id in store.queue_ids("TopicA"):
        offset = 0
        while (found := await store.when_ready(store.reader.get, "TopicA", queue_id, offset, 32)).count:
            assert any(b"".join(found.views))
            count, offset = count + found.count, found.next_begin_offset
    assert len((await store.when_ready(store.query, "TopicA", "k1", 1, 0, 1 << 60)).views) == 1
    return count


async def main(folder: Path) -> None:
    config = StoreConfig(root=folder / "store", max_hash_slot_num=1000, max_index_num=100_000)
    ballast = folder / "ballast"
    async with open_store(config, now_ms=now_ms, store_host=HOST) as store:
        stored = (await send(store, 100, 100))[PutStatus.PUT_OK]
        assert stored == 100
        fill(ballast)
        results = await send(store, 3000, 4000)
        stored += results[PutStatus.PUT_OK]
        assert results[PutStatus.PUT_OK] < 3000
        assert await read(store) == stored
        ballast.unlink()
        await store.retention.run_once()
        stored += (await send(store, 100, 4000))[PutStatus.PUT_OK]
        assert await read(store) == stored >= 199, "one may learn late that there is room again"
        fill(ballast)
    async with open_store(config, now_ms=now_ms, store_host=HOST) as store:
        assert await read(store) == stored
        results = await send(store, 3000, 4000)
        assert results[PutStatus.PUT_OK] < 3000
    print("survived")


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
