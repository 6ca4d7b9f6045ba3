"""One queue of a lite pull consumer: what was pulled and not yet polled, and how far the application is.

All offsets are queue offsets. `next_offset` is the next to pull (None: nobody knows yet); `consumed` is behind the last
message that `poll` gave; `done` is what may be committed: what calls of `poll` before the last one gave.
"""

from __future__ import annotations

from collections import deque

import trio

from codec.message import MessageExt
from codec.message_queue import MessageQueue


class AssignedQueue:
    """The state of one queue. Cancel `step` and its pull is begun anew; `dropped`: it is not ours any more."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.batches: deque[list[MessageExt]] = deque()
        self.count = 0
        self.size = 0
        self.next_offset: int | None = None
        self.consumed: int | None = None
        self.done: int | None = None
        self.paused = False
        self.dropped = False
        self.step = trio.CancelScope()

    @property
    def span(self) -> int:
        """Last minus first offset of what waits."""
        return self.batches[-1][-1].queue_offset - self.batches[0][0].queue_offset if self.batches else 0

    def begin(self, offset: int) -> None:
        """Where to start, unless it was moved meanwhile."""
        if self.next_offset is None:
            self.next_offset = self.consumed = self.done = offset

    def put(self, messages: list[MessageExt]) -> None:
        self.batches.append(messages)
        self.count += len(messages)
        self.size += sum(len(message.body) for message in messages)

    def take(self) -> list[MessageExt]:
        """The oldest batch; the application has it now."""
        batch = self.batches.popleft()
        self.count -= len(batch)
        self.size -= sum(len(message.body) for message in batch)
        self.consumed = batch[-1].queue_offset + 1
        return batch

    def seek(self, offset: int) -> None:
        """Forgets what waits and goes on at `offset`."""
        self.batches.clear()
        self.count = self.size = 0
        self.next_offset = self.consumed = self.done = offset
        self.step.cancel()

    def refetch(self) -> None:
        """Forgets what waits, to pull it once more."""
        self.batches.clear()
        self.count = self.size = 0
        self.next_offset = self.consumed
        self.step.cancel()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self.step.cancel()

    def drop(self) -> None:
        self.dropped = True
        self.batches.clear()
        self.count = self.size = 0
        self.step.cancel()
