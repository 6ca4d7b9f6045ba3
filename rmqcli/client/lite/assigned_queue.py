"""One queue of a lite pull consumer: messages that were pulled and not yet polled, and the progress of the
application (Java `AssignedMessageQueue`).

All offsets are queue offsets. `next_offset` is the next to pull (None: not known yet); `consumed` follows the
last polled message; `done` may be committed: it follows the messages of all polls before the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import trio

from codec.message import MessageExt
from codec.message_queue import MessageQueue
from rmqcli.client.pull.next_pull import Idle
from rmqcli.client.pull.queue_life import QueueLife


class AssignedQueue:
    """One queue. Cancelling `step` restarts its pull. `dropped`: it belongs to another member."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.batches: deque[list[MessageExt]] = deque()
        self.count = 0
        self.size = 0
        self.idle = Idle()
        self.life = QueueLife()
        self.next_offset: int | None = None
        self.consumed: int | None = None
        self.done: int | None = None
        self.paused = False
        self.dropped = False
        self.step = trio.CancelScope()

    @property
    def span(self) -> int:
        return self.batches[-1][-1].queue_offset - self.batches[0][0].queue_offset if self.batches else 0

    def begin(self, offset: int) -> None:
        """Set the start offset, unless a seek has set one."""
        if self.next_offset is None:
            self.next_offset = self.consumed = self.done = offset

    def put(self, messages: list[MessageExt]) -> None:
        self.batches.append(messages)
        self.count += len(messages)
        self.size += sum(len(message.body) for message in messages)

    def take(self) -> list[MessageExt]:
        batch = self.batches.popleft()
        self.count -= len(batch)
        self.size -= sum(len(message.body) for message in batch)
        self.consumed = batch[-1].queue_offset + 1
        return batch

    def seek(self, offset: int) -> None:
        """Discard cached messages and continues at `offset`."""
        self.next_offset = self.consumed = self.done = offset
        self._discard()

    def refetch(self) -> None:
        """Discard cached messages, which are pulled again."""
        self.next_offset = self.consumed
        self._discard()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self.step.cancel()

    def drop(self) -> None:
        self.dropped = True
        self._discard()

    def _discard(self) -> None:
        self.batches.clear()
        self.count = self.size = 0
        self.step.cancel()


def consumed_offsets(queues: Mapping[MessageQueue, AssignedQueue], topic: str) -> dict[MessageQueue, int]:
    """Return the offsets behind the last polled messages of a topic."""
    found = ((queue, state.consumed) for queue, state in queues.items() if queue.topic == topic)
    return {queue: offset for queue, offset in found if offset is not None}
