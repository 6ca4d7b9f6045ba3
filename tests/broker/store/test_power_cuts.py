"""A hundred power cuts: a store on a simulated disk is cut off at a random call to the disk and opened again.

What was acknowledged with SYNC_FLUSH, what had been flushed with ASYNC_FLUSH and the last saved table are
there; queues and index agree with the log; the store continues and survives the next cut.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.broker.disk import load_table, save_table
from rmqcli.broker.store import MessageStore, open_store
from rmqcli.broker.store.log_walk import walk
from rmqcli.broker.testing.disk import SimulatedDisk
from tests.broker.store.support import HOST, START_MS, Clock, inline, loaded, message, numbers, small_config
from tests.seeds import times

ROOT = Path("/store")
TABLE = ROOT / "config" / "topics.json"
CUTS = times(26)
TOPICS = ("TopicA", "TopicB")
QUEUES = 3
MESSAGES = 120


class Run:
    """One workload until the power is cut. `kept` are the numbers of messages that must not be lost."""

    def __init__(self, seed: int, disk: SimulatedDisk, first: int, saved: int) -> None:
        self.rng = random.Random(seed)
        self.disk = disk
        self.sync = self.rng.random() < 0.5
        self.calls = self.rng.randrange(1, 120)
        self.after: SimulatedDisk | None = None
        self.kept: set[int] = set()
        self.table = self._saved = saved
        self._next = first
        self._acknowledged: set[int] = set()
        self._ends: dict[int, int] = {}
        self._store: MessageStore | None = None
        disk.on_call = self._count

    def _count(self, _name: str) -> None:
        self.calls -= 1
        if self.calls == 0:
            self.cut()

    def cut(self) -> None:
        """Power is lost now."""
        if self.after is not None:
            return
        flushed = 0 if self._store is None else self._store.flushed_offset
        self.kept = set(self._acknowledged)
        if not self.sync:
            self.kept = {number for number, end in self._ends.items() if end <= flushed}
        self.table = self._saved
        self.after = self.disk.power_cut()

    async def work(self) -> None:
        config = small_config(ROOT, flush_disk_type="SYNC_FLUSH" if self.sync else "ASYNC_FLUSH")
        clock = Clock(START_MS + self._next * 1000, step=3)
        async with open_store(
            config, now_ms=clock, store_host=HOST, in_thread=inline, disk=self.disk
        ) as store:
            self._store = store
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(self._send_some, store)
                nursery.start_soon(self._save_some)
            self.cut()
        assert self.disk.unreserved_pages() == {}

    async def _send_some(self, store: MessageStore) -> None:
        for _ in range(MESSAGES // 3):
            if self.after is not None:
                return
            number, self._next = self._next, self._next + 1
            topic, queue_id = self.rng.choice(TOPICS), self.rng.randrange(QUEUES)
            result = store.writer.append(
                message(number, topic=topic, queue_id=queue_id, size=self.rng.choice((20, 300, 3000)))
            )
            self._ends[number] = result.physical_offset + result.size
            if await store.wait_flushed(self._ends[number]):
                self._acknowledged.add(number)
            await trio.sleep(self.rng.choice((0, 0, 0.3, 2)))

    async def _save_some(self) -> None:
        while self.after is None and self._saved < 99:
            save_table(self.disk, TABLE, str(self._saved + 1).encode())
            self._saved += 1
            await trio.sleep(1)


def check(disk: SimulatedDisk, kept: set[int], table: int) -> int:
    """Opens what is left; returns the next number that is free."""
    assert (load_table(disk, TABLE, int) or 0) in (table, table + 1)
    with loaded(small_config(ROOT), Clock(START_MS + 10_000_000), disk) as store:
        found = consistent(store)
        assert kept <= found, f"lost: {sorted(kept - found)}"
        for number in kept:
            views = [v for t in TOPICS for v in store.query(t, f"k{number}", 9, 0, 1 << 50).views]
            assert len(views) == 1, number
        last = max(found, default=0)
        assert (
            store.writer.append(message(last + 1, topic="TopicA")).queue_offset
            == store.search.max_offset("TopicA", 0) - 1
        )
        return last + 2


def consistent(store: MessageStore) -> set[int]:
    """Compares every queue with the log; the numbers of all messages."""
    in_log: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)

    def visit(offset: int, scan: Any) -> None:
        in_log[bytes(scan.topic).decode(), scan.queue_id].append((scan.queue_offset, offset))

    end, _ = walk(store._log, store.commit_log_min_offset, visit, check_crc=True)
    assert end == store.commit_log_max_offset
    found: set[int] = set()
    for topic in TOPICS:
        for queue_id in range(QUEUES):
            entries = []
            offset = store.search.min_offset(topic, queue_id)
            while part := store.search.consume_queue_entries(topic, queue_id, offset, 1000):
                entries += [(offset + n, position) for n, (position, _, _) in enumerate(part)]
                offset += len(part)
            assert entries == in_log.get((topic, queue_id), [])
            own = numbers(store, topic, queue_id)
            assert not found & set(own)
            found.update(own)
    return found


@pytest.mark.parametrize("seed", range(0, CUTS, 2))
async def test_power_cuts(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    """Two cuts each: the second one hits a store that recovered from the first."""
    disk, first, kept, saved = SimulatedDisk(seed), 1, set[int](), 0
    for cut in range(2):
        run = Run(seed + cut, disk, first, saved)
        await run.work()
        assert run.after is not None
        kept |= run.kept
        first = check(run.after, kept, run.table)
        saved = load_table(run.after, TABLE, int) or 0
        disk = run.after.killed()
