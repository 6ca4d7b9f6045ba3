"""Messages in flight: popped and unacknowledged messages, and the end of their time.

No I/O and no clock: times are steady milliseconds, which steps of the wall clock do not move. An offset is in
flight in at most one check point; a handle with another pop time is outdated and has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec

MOST_OF_QUEUE = 10_000
"""Maximum number of messages in flight of one group in one queue; the queue then lends no more."""
MOST = 1 << 20
"""Maximum number of messages in flight of the broker."""
FEW_DONE = 1024
"""Entries of the heap that are done, below which it is not cleaned."""

QueueKey = tuple[str, str, int]
"""Group, topic in which the messages are stored, and queue id."""


class CheckPoint(msgspec.Struct, eq=False, gc=False):
    """Messages of one queue that were popped together. Of `offsets`, `left` are in flight in this check
    point.
    """

    pop_time: int
    invisible_ms: int
    due: float
    offsets: Sequence[int]
    left: int
    is_waiting: bool = True
    """False while its messages are being stored again: it is not in the heap."""


class PopQueue:
    """One queue as one group pops it."""

    __slots__ = ("committed", "group", "in_flight", "position", "queue_id", "topic")

    def __init__(self, key: QueueKey, position: int) -> None:
        self.group, self.topic, self.queue_id = key
        self.position = position
        """The offset of the next pop."""
        self.committed = position
        """The offset that the table of offsets should have; if it has another one, the group was moved."""
        self.in_flight: dict[int, CheckPoint] = {}
        """Offsets in ascending order."""

    @property
    def key(self) -> QueueKey:
        return self.group, self.topic, self.queue_id

    @property
    def room(self) -> int:
        return MOST_OF_QUEUE - len(self.in_flight)

    @property
    def acked_prefix(self) -> int:
        """The offset below which everything is acknowledged."""
        return next(iter(self.in_flight), self.position)


class InFlight:
    """All messages in flight. `len` counts them."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], dict[int, PopQueue]] = {}
        self._count = 0
        self._heap: list[tuple[float, int, PopQueue, CheckPoint]] = []
        # Decides between equal times in the heap, because queues and check points have no order.
        self._numbers = count()
        self._done = 0  # entries of the heap without messages in flight
        self.changed: dict[PopQueue, None] = {}
        """Queues that changed since they were last saved."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PopQueue]:
        return (queue for queues in self._queues.values() for queue in queues.values())

    def find(self, group: str, topic: str, queue_id: int) -> PopQueue | None:
        queues = self._queues.get((group, topic))
        return None if queues is None else queues.get(queue_id)

    def add_queue(self, queue: PopQueue) -> None:
        self._queues.setdefault((queue.group, queue.topic), {})[queue.queue_id] = queue
        self.changed[queue] = None

    def of(self, group: str, topic: str) -> int:
        """Return the number of messages of a topic that a group has in flight."""
        return sum(len(queue.in_flight) for queue in self._queues.get((group, topic), {}).values())

    def add(
        self, queue: PopQueue, offsets: Sequence[int], pop_time: int, invisible_ms: int, due: float
    ) -> CheckPoint:
        """Add messages that follow all those in flight."""
        point = CheckPoint(pop_time, invisible_ms, due, offsets, len(offsets))
        queue.in_flight.update(dict.fromkeys(offsets, point))
        self._count += point.left
        self._push(queue, point)
        return point

    def insert(
        self, queue: PopQueue, offsets: Sequence[int], pop_time: int, invisible_ms: int, due: float
    ) -> None:
        """Add messages anywhere; a message already in flight keeps the later of its check points."""
        new: list[int] = []
        for offset in offsets:
            known = queue.in_flight.get(offset)
            if known is None:
                new.append(offset)
            elif known.pop_time < pop_time:
                self.change(queue, offset, pop_time, invisible_ms, due)
        if new:
            self.add(queue, new, pop_time, invisible_ms, due)
            queue.in_flight = dict(sorted(queue.in_flight.items()))

    def point_of(self, queue: PopQueue | None, offset: int, pop_time: int) -> CheckPoint | None:
        """Return the check point of a delivery; None if it is not in flight."""
        point = None if queue is None else queue.in_flight.get(offset)
        return point if point is not None and point.pop_time == pop_time else None

    def done(self, queue: PopQueue, offset: int) -> None:
        """Remove a message that is in flight."""
        self._leave(queue.in_flight.pop(offset))
        self.changed[queue] = None

    def change(self, queue: PopQueue, offset: int, pop_time: int, invisible_ms: int, due: float) -> None:
        """Move a message in flight to a separate check point."""
        self._leave(queue.in_flight[offset])
        point = CheckPoint(pop_time, invisible_ms, due, (offset,), 1)
        queue.in_flight[offset] = point  # which keeps its place in the order
        self._count += 1
        self._push(queue, point)

    def drop(self, queue: PopQueue, start: int = 0) -> None:
        """Forget the messages of a queue from an offset on."""
        for offset in [offset for offset in queue.in_flight if offset >= start]:
            self.done(queue, offset)

    def follow(self, queue: PopQueue, told: int) -> bool:
        """Move a queue to the offset in the table of offsets, if it was set by someone other than this group.
        Return False, and forget the queue, if the table has none.
        """
        if told < 0:
            self.remove(queue)
            return False
        if told != queue.committed:
            self.drop(queue, told)
            queue.position = queue.committed = told
            self.changed[queue] = None
        return True

    def remove(self, queue: PopQueue) -> None:
        """Forget a queue."""
        self.drop(queue)
        self.changed.pop(queue, None)
        queues = self._queues.get((queue.group, queue.topic), {})
        if queues.get(queue.queue_id) is queue:
            del queues[queue.queue_id]
            if not queues:
                del self._queues[queue.group, queue.topic]

    def next_due(self) -> float | None:
        """Return the time of the next check point with messages in flight."""
        while self._heap and not self._heap[0][3].left:
            heappop(self._heap)
            self._done -= 1
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> tuple[PopQueue, CheckPoint] | None:
        """Remove the next check point whose time is over from the heap; its messages stay in flight."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, queue, point = heappop(self._heap)
        point.is_waiting = False
        return queue, point

    def put_back(self, queue: PopQueue, point: CheckPoint, due: float) -> None:
        """Schedule a removed check point again at a later time."""
        point.due = due
        point.is_waiting = True
        self._push(queue, point)

    def _push(self, queue: PopQueue, point: CheckPoint) -> None:
        heappush(self._heap, (point.due, next(self._numbers), queue, point))
        self.changed[queue] = None

    def _leave(self, point: CheckPoint) -> None:
        self._count -= 1
        point.left -= 1
        if point.left or not point.is_waiting:
            return
        self._done += 1
        # Acknowledged check points wait for their time in the heap, up to 12 hours.
        if self._done > FEW_DONE and self._done * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[3].left]
            heapify(self._heap)
            self._done = 0
