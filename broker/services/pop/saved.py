"""The files of pop consumption: `config/popInFlight.json`, which only this broker reads, with the position of
each queue and the messages in flight, and `config/consumerOrderInfo.json`, Java's file of FIFO blocks.

Both are taken from memory before the table of offsets is saved, and written after it, so that the table on
the disk is never older than they are. An offset in the table below that of the file means that the group was
moved back. After a crash, only messages acknowledged out of order since the last save are lent again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.disk import Disk, load_table, save_table
from rmqcli.broker.services.pop.in_flight import CheckPoint, InFlight, PopQueue
from rmqcli.broker.services.pop.java_records import JavaRecords
from rmqcli.broker.services.pop.orders import Block, Orders
from rmqcli.broker.store.readiness import InThread
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.pop import (
    ConsumerOrderInfo,
    InFlightCheckPoint,
    InFlightQueue,
    OrderInfo,
    PopInFlight,
)
from rmqcli.codec.fastjson import FASTJSON, dumps_in_steps

SHORTEST_PERIOD_MS = 100
_log = logging.getLogger(__name__)


class SavedPops:
    """Loads and saves the messages in flight."""

    def __init__(
        self,
        broker: BrokerContext,
        in_flight: InFlight,
        orders: Orders,
        root: Path,
        in_thread: InThread,
        disk: Disk,
    ) -> None:
        self.java = JavaRecords(broker, in_flight)
        self._broker = broker
        self._in_flight = in_flight
        self._orders = orders
        self._in_flight_path = root / "config" / "popInFlight.json"
        self._orders_path = root / "config" / "consumerOrderInfo.json"
        self._in_thread = in_thread
        self._disk = disk
        self._is_unsaved = False
        self._saving = trio.Lock()

    # --- saving

    def settle(self) -> None:
        """Write the acknowledged prefixes of changed queues into the table of offsets."""
        for queue in list(self._in_flight.changed):
            self._settle(queue)

    def _settle(self, queue: PopQueue) -> None:
        offsets, changed = self._broker.offsets, self._in_flight.changed
        if queue not in changed:
            return
        self._is_unsaved = True
        is_known = self._in_flight.follow(queue, offsets.query(*queue.key))
        changed.pop(queue, None)
        if is_known and queue.acked_prefix != queue.committed:
            queue.committed = queue.acked_prefix
            offsets.commit(*queue.key, queue.committed)

    async def run(self, period_ms: int, save: Callable[[], Awaitable[None]]) -> None:
        """Save every `period_ms`. If the disk refuses, the next save tries again."""
        while True:
            await trio.sleep(max(period_ms, SHORTEST_PERIOD_MS) / 1000)
            try:
                await save()
            except OSError as error:
                _log.error("cannot save %s: %s", self._in_flight_path, error)

    async def save(self, steady_ms: float) -> None:
        """Save what changed. Raises OSError."""
        async with self._saving:
            self.settle()
            if not (self._is_unsaved or self._orders.is_changed):
                return
            # Cleared before the first turn: changes from now on need another save.
            self._is_unsaved, orders_changed = False, self._orders.is_changed
            saved = self._orders.is_changed = False
            # Before the table is taken: what is read meanwhile may be missing there.
            ends = self.java.ends
            try:
                wall = self._broker.now_ms() - steady_ms
                table = await self._broker.turns.run(self._table(wall))
                text = await self._broker.turns.run(dumps_in_steps(table, dialect=FASTJSON))
                blocks = dumps_in_steps(self._blocks(wall), dialect=FASTJSON, pretty=True)
                orders = await self._broker.turns.run(blocks) if orders_changed else None
                if await self._broker.files.save_offsets():
                    await self._in_thread(self._write, text, orders)
                    saved = True
                    self.java.commit(ends)
            finally:
                self._is_unsaved |= not saved
                self._orders.is_changed |= orders_changed and not saved

    def _write(self, text: bytes, orders: bytes | None) -> None:
        save_table(self._disk, self._in_flight_path, text)
        if orders is not None:
            save_table(self._disk, self._orders_path, orders)

    def _table(self, wall: float) -> Generator[None, None, PopInFlight]:
        """Return the messages in flight; one queue is a step."""
        table: dict[str, dict[int, InFlightQueue]] = {}
        for queue in list(self._in_flight):
            self._settle(queue)
            if queue.in_flight or queue.position != queue.committed:
                table.setdefault(f"{queue.topic}@{queue.group}", {})[queue.queue_id] = _saved_queue(
                    queue, wall
                )
            yield
        return PopInFlight(in_flight=table)

    def _blocks(self, wall: float) -> ConsumerOrderInfo:
        table: dict[str, dict[int, OrderInfo]] = {}
        for (group, topic, queue_id), block in self._orders.items():
            if topic in self._broker.topics and group in self._broker.groups:
                table.setdefault(f"{topic}@{group}", {})[queue_id] = _saved_block(block, wall)
        return ConsumerOrderInfo(table=table)

    # --- loading

    def load(self, steady_ms: float) -> None:
        """Read the files, once the table of offsets and the store are loaded. Blocks.

        Without the files, messages are lent again from the offsets in the table of offsets on.
        """
        read = partial(load_table, self._disk, derived=True)
        in_flight = read(self._in_flight_path, partial(decode_body, PopInFlight))
        orders = read(self._orders_path, partial(decode_body, ConsumerOrderInfo))
        for key, queues in (in_flight.in_flight if in_flight else {}).items():
            topic, _, group = key.partition("@")
            for queue_id, saved in queues.items():
                self._load_queue(group, topic, queue_id, saved, steady_ms)
        for key, blocks in (orders.table if orders else {}).items():
            topic, _, group = key.partition("@")
            for queue_id, info in blocks.items():
                self._load_block(group, topic, queue_id, info, steady_ms)
        self.java.load(steady_ms)
        self._orders.is_changed = False

    def _load_queue(
        self, group: str, topic: str, queue_id: int, saved: InFlightQueue, steady_ms: float
    ) -> None:
        broker = self._broker
        told = broker.offsets.query(group, topic, queue_id)
        if told < saved.committed or topic not in broker.topics:
            return  # deleted, or moved back
        # A power cut may have removed the end of the log.
        high = max(broker.store.search.max_offset(topic, queue_id), told)
        queue = PopQueue((group, topic, queue_id), max(told, min(saved.position, high)))
        queue.committed = told
        self._in_flight.add_queue(queue)
        now = broker.now_ms()
        for point in saved.check_points:
            offsets = [offset for offset in _offsets(point.runs, queue.position) if offset >= told]
            # The clock may have been set: a message is not lent for longer than it was.
            left = min(max(point.due - now, 0), max(point.invisible_time, 0))
            self._in_flight.insert(queue, offsets, point.pop_time, point.invisible_time, steady_ms + left)

    def _load_block(self, group: str, topic: str, queue_id: int, info: OrderInfo, steady_ms: float) -> None:
        offsets = [
            info.offset_list[0] + (part if place else 0) for place, part in enumerate(info.offset_list)
        ]
        told = self._broker.offsets.query(group, topic, queue_id)
        if not offsets or topic not in self._broker.topics or not 0 <= told <= offsets[-1]:
            return
        now, lasts = self._broker.now_ms(), max(info.invisible_time, 0)

        def due(offset: int) -> float:
            visible = info.offset_next_visible_time.get(offset, info.pop_time + lasts)
            return steady_ms + min(max(visible - now, 0), max(lasts, visible - info.pop_time))

        block = Block(offsets, info.pop_time, lasts, 0.0, info.attempt_id)
        block.visible = {offset: due(offset) for offset in offsets}
        block.counts = {offset: count for offset, count in info.offset_consumed_count.items() if count > 0}
        acked = (offset for place, offset in enumerate(offsets) if info.commit_offset_bit >> place & 1)
        block.acked = {*acked, *(offset for offset in offsets if offset < told)}
        if block.next_offset <= offsets[-1]:
            self._orders.set((group, topic, queue_id), block)


def _saved_queue(queue: PopQueue, wall: float) -> InFlightQueue:
    points: dict[CheckPoint, list[int]] = {}
    for offset, point in queue.in_flight.items():
        runs = points.setdefault(point, [])
        if runs and runs[-2] + runs[-1] == offset:
            runs[-1] += 1
        else:
            runs += offset, 1
    saved = [
        InFlightCheckPoint(
            pop_time=point.pop_time,
            invisible_time=point.invisible_ms,
            due=math.ceil(point.due + wall),
            runs=runs,
        )
        for point, runs in points.items()
    ]
    return InFlightQueue(position=queue.position, committed=queue.committed, check_points=saved)


def _saved_block(block: Block, wall: float) -> OrderInfo:
    offsets, free = [*block.offsets], []
    if later := sorted(offset for offset in block.acked if offset > offsets[-1]):
        # Left by an earlier, longer block: the next offset that is not acknowledged, and those that are.
        free = [next(offset for offset in count(offsets[-1] + 1) if offset not in block.acked)]
        offsets += sorted(free + later)
    first, *others = offsets
    over = block.pop_time + block.invisible_ms
    dues = dict.fromkeys(free, 0.0) | block.visible
    visible = {offset: math.ceil(due + wall) for offset, due in dues.items()}
    bits = sum(1 << place for place, offset in enumerate(offsets) if offset in block.acked)
    return OrderInfo(
        pop_time=block.pop_time,
        invisible_time=block.invisible_ms,
        offset_list=[first, *(offset - first for offset in others)],
        offset_next_visible_time={offset: due for offset, due in visible.items() if abs(due - over) > 1},
        offset_consumed_count=dict(block.counts),
        last_consume_timestamp=block.pop_time,
        commit_offset_bit=bits,
        attempt_id=block.attempt_id,
    )


def _offsets(runs: Sequence[int], end: int) -> list[int]:
    """Return the offsets of runs below `end`."""
    pairs = zip(runs[::2], runs[1::2], strict=False)
    return [offset for first, count in pairs for offset in range(first, min(first + count, end))]
