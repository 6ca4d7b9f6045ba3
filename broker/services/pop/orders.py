"""The blocks of FIFO queues (Java class `ConsumerOrderInfoManager`).

A queue that has lent messages to a group lends no more to it until all of them are acknowledged, or the time
of the others is over; then it lends those again, before the next ones. Unlike in Java, messages acknowledged
out of order are not lent again. No I/O: times are steady milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from rmqcli.broker.services.pop.in_flight import QueueKey


class Block:
    """The messages that a FIFO queue has lent to a group."""

    __slots__ = (
        "acked",
        "attempt_id",
        "counts",
        "invisible_ms",
        "offsets",
        "pop_time",
        "undelivered",
        "visible",
    )

    def __init__(
        self, offsets: Sequence[int], pop_time: int, invisible_ms: int, due: float, attempt_id: str | None
    ) -> None:
        self.offsets = offsets
        self.pop_time = pop_time
        self.invisible_ms = invisible_ms
        self.attempt_id = attempt_id
        self.acked: set[int] = set()
        self.visible = dict.fromkeys(offsets, due)
        """The end of the time of each message."""
        self.counts: dict[int, int] = {}
        """The number of earlier deliveries of each message that had any."""
        self.undelivered: set[int] = set()
        """Messages that never reached their consumer."""

    @property
    def free_at(self) -> float:
        """The time from which on the queue lends again."""
        return max((due for offset, due in self.visible.items() if offset not in self.acked), default=0.0)

    @property
    def next_offset(self) -> int:
        """The first offset that is not acknowledged. Acknowledged offsets of an earlier, longer block may
        follow this one.
        """
        following = next(
            (offset for offset in self.offsets if offset not in self.acked), self.offsets[-1] + 1
        )
        while following in self.acked:
            following += 1
        return following

    def is_blocked(self, attempt_id: str | None, now: float) -> bool:
        """Return True if a pop gets nothing. A repeated attempt gets the same messages again."""
        if attempt_id is not None and attempt_id == self.attempt_id:
            return False
        return now < self.free_at

    def is_lent(self, offset: int, pop_time: int) -> bool:
        """Return True if a handle belongs to this block."""
        return pop_time == self.pop_time and offset in self.visible and offset not in self.acked


class Orders:
    """The blocks of all FIFO queues."""

    def __init__(self) -> None:
        self._blocks: dict[QueueKey, Block] = {}
        self._heap: list[tuple[float, QueueKey]] = []
        self._looked_at: dict[QueueKey, float] = {}
        """The time at which each block is checked next; other entries of the heap are void."""
        self.is_changed = False

    def __len__(self) -> int:
        return len(self._blocks)

    def items(self) -> Iterator[tuple[QueueKey, Block]]:
        return iter(self._blocks.items())

    def get(self, key: QueueKey) -> Block | None:
        return self._blocks.get(key)

    def set(self, key: QueueKey, block: Block) -> None:
        self._blocks[key] = block
        self._look_at(key, block.free_at)
        self.is_changed = True

    def next_due(self) -> float | None:
        """Return the time at which the next block may become free; None if there is none."""
        while self._heap and self._looked_at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def freed(self, now: float) -> Iterator[QueueKey]:
        """Return the queues whose blocks have become free."""
        while (due := self.next_due()) is not None and due <= now:
            _, key = heappop(self._heap)
            del self._looked_at[key]
            block = self._blocks.get(key)
            if block is None:
                continue
            if block.free_at > now:
                self._look_at(key, block.free_at)
            else:
                yield key

    def _look_at(self, key: QueueKey, due: float) -> None:
        if due < self._looked_at.get(key, float("inf")):
            self._looked_at[key] = due
            heappush(self._heap, (due, key))

    def lend(
        self,
        key: QueueKey,
        offsets: Sequence[int],
        pop_time: int,
        invisible_ms: int,
        due: float,
        attempt_id: str | None,
    ) -> Block:
        """Begin the next block of a queue, with the offsets that were read, and keep what the last one knows
        about them.
        """
        block, old = Block(offsets, pop_time, invisible_ms, due, attempt_id), self._blocks.get(key)
        if old is not None:
            block.acked = {offset for offset in old.acked if offset >= offsets[0]}
            is_repeated = attempt_id is not None and attempt_id == old.attempt_id
            for offset in offsets:
                if offset in old.visible and offset not in old.acked:
                    again = 0 if is_repeated or offset in old.undelivered else 1
                    if count := old.counts.get(offset, 0) + again:
                        block.counts[offset] = count
        self.set(key, block)
        return block

    def ack(self, key: QueueKey, offset: int, pop_time: int) -> int | None:
        """Acknowledge a message. Return the offset at which the queue continues; None for a handle that does
        not belong to the block.
        """
        block = self._blocks.get(key)
        if block is None or not block.is_lent(offset, pop_time):
            return None
        block.acked.add(offset)
        self.is_changed = True
        following = block.next_offset
        if following > block.offsets[-1]:
            self.remove_before(key, following)
        return following

    def change(
        self, key: QueueKey, offset: int, pop_time: int, due: float, *, delivered: bool = True
    ) -> bool:
        """Set the end of the time of a message. Return False for a handle that does not belong to the
        block.
        """
        block = self._blocks.get(key)
        if block is None or not block.is_lent(offset, pop_time):
            return False
        block.visible[offset] = due
        self._look_at(key, block.free_at)
        if not delivered:
            block.undelivered.add(offset)
        self.is_changed = True
        return True

    def remove_before(self, key: QueueKey, offset: int) -> None:
        """Remove a block, unless it has acknowledged messages from an offset on."""
        if not any(one >= offset for one in self._blocks[key].acked):
            self.remove(key)

    def remove(self, key: QueueKey) -> None:
        if self._blocks.pop(key, None) is not None:
            self.is_changed = True
