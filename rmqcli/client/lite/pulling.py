"""The pulls of a lite consumer, suspended while enough messages are cached.

Java: `DefaultLitePullConsumerImpl.PullTaskImpl`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping

import trio

from rmqcli.client.errors import BrokerRefused, ClientError, NotSupported, TopicNotFound
from rmqcli.client.group.offset_store import StartOffsets
from rmqcli.client.group.queue_life import QueueLife
from rmqcli.client.group.settings import LiteSettings, MessageSelector
from rmqcli.client.pull.consumer import PullConsumer
from rmqcli.client.pull.next_pull import (
    BUSY,
    FAILED,
    FLOW_CONTROL,
    FORMER,
    PAUSED,
    Idle,
    check_next_offset,
    why_moved,
)
from rmqcli.client.results import PullResult, PullStatus
from rmqcli.codec.codes import PullSysFlag, ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.messages import LITE_PULL_MESSAGE, PULL_MESSAGE

# One queue of a lite pull consumer: messages that were pulled and not yet polled, and the progress of the
# application (Java `AssignedMessageQueue`).
#
# All offsets are queue offsets. `next_offset` is the next to pull (None: not known yet); `consumed` follows the
# last polled message; `done` may be committed: it follows the messages of all polls before the last one.


class AssignedQueue:
    """One queue.

    Cancelling `step` restarts its pull. `dropped`: it is no longer assigned to this consumer.
    """

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.batches: deque[list[MessageExt]] = deque()
        self.count = 0
        self.size = 0
        self.idle = Idle()
        self.life = QueueLife()
        self.next_offset: int | None = None
        self.max_offset = 0  # of the last pull
        self.consumed: int | None = None
        self.done: int | None = None
        self.paused = False
        self.dropped = False
        self.step = trio.CancelScope()

    @property
    def span(self) -> int:
        return self.batches[-1][-1].queue_offset - self.batches[0][0].queue_offset if self.batches else 0

    def begin(self, offset: int) -> None:
        """Set the start offset, unless a seek has already set one."""
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
        """Discard cached messages and continue at `offset`."""
        self.next_offset = self.consumed = self.done = offset
        self._discard()

    def refetch(self) -> None:
        """Discard cached messages, so that they are pulled again."""
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
    """Return the offsets after the last polled messages of a topic."""
    found = ((queue, state.consumed) for queue, state in queues.items() if queue.topic == topic)
    return {queue: offset for queue, offset in found if offset is not None}


log = logging.getLogger("rmqcli.client.lite")


class Pulling:
    """The pull tasks; `arrived` is called when a queue has received messages."""

    def __init__(
        self,
        consumer: PullConsumer,
        settings: LiteSettings,
        starts: StartOffsets,
        held: Mapping[MessageQueue, AssignedQueue],
        selectors: Mapping[str, MessageSelector],
        arrived: Callable[[], None],
    ) -> None:
        self._consumer = consumer
        self._settings = settings
        self._starts = starts
        self._held = held
        self._selectors = selectors
        self._arrived = arrived
        self._operation = LITE_PULL_MESSAGE

    async def run(self, held: AssignedQueue) -> None:
        while not held.dropped:
            # A new scope for each pull: a seek or resume cancels only the pull or pause in progress.
            with trio.CancelScope() as held.step:
                pause = self._hold_back(held) or await self._step(held)
                await trio.sleep(pause)

    def _hold_back(self, held: AssignedQueue) -> float:
        """Return the seconds to wait before a pull; 0 to pull now."""
        limits = self._settings
        if held.paused:
            return PAUSED
        full = (
            held.count >= limits.queue_messages
            or held.size >= limits.queue_bytes
            or held.span > limits.max_span
            or sum(each.count for each in self._held.values()) >= limits.all_messages
        )
        return FLOW_CONTROL if full else 0.0

    async def _step(self, held: AssignedQueue) -> float:
        """Pull once. Return the seconds until the next pull."""
        try:
            if held.next_offset is None:
                held.begin(await self._starts.find(held.queue))
                return 0.0
            begun, offset = trio.current_time(), held.next_offset
            result = await self._pull(held, offset)
            if await self._begins_again(held, offset, result):
                return 0.0
            if result.status is PullStatus.FOUND:
                check_next_offset(result.next_begin_offset, held.queue.broker_name, above=offset)
        except ClientError as error:
            return self._after_failure(held, error)
        self._consumer.instance.outages.works(held.queue)
        if not held.step.cancel_called:  # otherwise a seek has moved it meanwhile
            self._take(held, result)
            return held.idle.after(begun, result.next_begin_offset - offset, found=bool(result.messages))
        return 0.0

    def _after_failure(self, held: AssignedQueue, error: ClientError) -> float:
        if isinstance(error, NotSupported) and self._operation is LITE_PULL_MESSAGE:
            # Older brokers know only PULL_MESSAGE.
            self._operation = PULL_MESSAGE
            return 0.0
        if isinstance(error, BrokerRefused) and error.code == ResponseCode.FLOW_CONTROL:
            return BUSY
        self._consumer.instance.outages.failed("pulling", held.queue, error)
        if isinstance(error, TopicNotFound):
            held.life.vanish(self._consumer.instance.now_ms())
            self._starts.note_absent(held.queue.topic)
        return FAILED

    async def _begins_again(self, held: AssignedQueue, offset: int, result: PullResult) -> bool:
        """Return True if the topic was deleted and created again: the queue continues at its first
        message.
        """
        low, life = max(0, result.min_offset), held.life
        if (
            life.is_doubtful(offset, result.min_offset, result.max_offset, result.next_begin_offset)
            and life.is_another(await self._starts.earliest_store_time(held.queue))
            and not held.step.cancel_called
        ):
            log.warning(FORMER, offset, held.queue, low)
            held.life = QueueLife()
            held.seek(low)
            return True
        life.absent_since = None
        return False

    async def _pull(self, held: AssignedQueue, offset: int) -> PullResult:
        queue, size, suspend = held.queue, self._settings.pull_batch_size, self._settings.suspend
        selector = self._selectors.get(queue.topic, _EVERYTHING)
        timeout = self._settings.pull_timeout - suspend
        if held.life.absent_since is not None:
            suspend = 0.0  # to learn at once whether the topic exists again
        return await self._consumer.pull_as(
            self._operation, queue, offset, size, selector, suspend, timeout, _LITE_PULL
        )

    def _take(self, held: AssignedQueue, result: PullResult) -> None:
        if result.status is PullStatus.OFFSET_ILLEGAL:
            at, next_offset = held.next_offset, result.next_begin_offset
            why = why_moved(at, result.min_offset, result.max_offset)
            log.warning("offset %s of %s %s; continuing at %d", at, held.queue, why, next_offset)
        held.next_offset, held.max_offset = result.next_begin_offset, result.max_offset
        if result.messages:
            held.life.see(result.messages)
            held.put(result.messages)
            self._arrived()
        elif not held.batches and held.consumed == held.done:
            # All messages up to here are consumed or excluded by the filter.
            held.consumed = held.done = result.next_begin_offset


_EVERYTHING = MessageSelector("*")
_LITE_PULL = int(PullSysFlag.LITE_PULL)
