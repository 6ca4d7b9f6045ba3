"""The pulls of a queue: long polls one after another, suspended while enough messages are cached.

Java: `DefaultMQPushConsumerImpl.pullMessage`.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from msgspec.structs import replace

from rmqcli.client.errors import BrokerRefused, ClientError, TopicNotFound
from rmqcli.client.group.offset_store import StartOffsets
from rmqcli.client.group.settings import Subscription
from rmqcli.client.pull.next_pull import (
    BUSY,
    FAILED,
    FLOW_CONTROL,
    FORMER,
    PAUSED,
    check_next_offset,
    place,
    why_moved,
)
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.send_back import as_original
from rmqcli.client.push.state import GroupState, log
from rmqcli.client.results import PULL_STATUSES, PullStatus
from rmqcli.client.wire.messages import read_messages
from rmqcli.client.wire.requests import read_answer
from rmqcli.codec.codes import MASTER_ID, PullSysFlag, ResponseCode
from rmqcli.codec.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rmqcli.codec.message import RETRY_PREFIX, MessageExt, PropertyName
from rmqcli.codec.operations.messages import PULL_MESSAGE
from rmqcli.codec.remoting.command import RemotingCommand

# These are plain numbers, because combining flags takes microseconds.
_COMMIT_OFFSET, _SUSPEND, _SUBSCRIPTION = map(
    int, (PullSysFlag.COMMIT_OFFSET, PullSysFlag.SUSPEND, PullSysFlag.SUBSCRIPTION)
)
ILLEGAL = 10.0  # seconds until a queue is created again after its offset was outside the broker's queue
Sink = Callable[[ProcessQueue, list[MessageExt]], None]
"""Called with newly pulled messages."""


async def _listener_first() -> None:
    """Let the listener run first, because without a backlog the next pull would find nothing yet.

    Tasks of one scheduler round run in any order, so two rounds are needed.
    """
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()


class PullLoop:
    """The pulls of one consumer; `run` is the task of one queue."""

    def __init__(self, state: GroupState, sink: Sink, starts: StartOffsets) -> None:
        self._state = state
        self._sink = sink
        self._starts = starts

    async def run(self, held: ProcessQueue) -> None:
        with held.scope:
            while not held.dropped:
                pause = self._hold_back(held)
                if not pause:
                    pause = await self._pull(held)
                if pause:
                    await trio.sleep(pause)
        if held.illegal:
            await self._retire(held)

    def _hold_back(self, held: ProcessQueue) -> float:
        """Return the seconds to wait before a pull; 0 to pull now."""
        state = self._state
        held.pulled_at = trio.current_time()
        held.last_pull_ms = state.instance.now_ms()
        if state.paused or state.stopping:
            return PAUSED
        limits = state.threshold(held.queue.topic)
        if held.count > limits.messages or held.size > limits.size:
            return FLOW_CONTROL
        if not state.orderly:
            return FLOW_CONTROL if held.span > state.settings.max_span else 0.0
        return FAILED if state.needs_locks and not held.locked else 0.0

    async def _pull(self, held: ProcessQueue) -> float:
        """Pull once. Return the seconds until the next pull."""
        subscription = self._state.subscriptions.get(held.queue.topic)
        if subscription is None:
            return FAILED
        begun = trio.current_time()
        try:
            await self._begin_locked(held)
            reply = await self._ask(held, subscription)
            header = read_answer(PULL_MESSAGE, reply, held.queue.broker_name).header
            if await self._begins_again(held, header):
                return 0.0
            header, messages = await self._messages(held, reply, header, subscription)
            if self._state.subscriptions.get(held.queue.topic) is not subscription:
                return 0.0  # selected by an earlier subscription: pull from the same offset again
        except ClientError as error:
            return self._failed(held, error)
        self._state.troubles.pop(held.queue, None)
        self._state.instance.outages.works(held.queue)
        if reply.code == ResponseCode.SUCCESS:
            self._count(held, begun, len(messages))
        step = header.next_begin_offset - held.next_offset
        pause = self._take(held, PULL_STATUSES[reply.code], header, messages)
        pause = pause or held.idle.after(begun, step, found=bool(messages))
        if 0 < len(messages) < self._state.settings.pull_batch_size:
            await _listener_first()
        return pause

    def _failed(self, held: ProcessQueue, error: ClientError) -> float:
        """Return the seconds until the next pull."""
        if isinstance(error, BrokerRefused) and error.code == ResponseCode.FLOW_CONTROL:
            return BUSY
        self._state.instance.outages.failed("pulling", held.queue, error)
        self._state.troubles[held.queue] = error
        if isinstance(error, TopicNotFound):
            held.life.vanish(self._state.instance.now_ms())
            self._starts.note_absent(held.queue.topic)
            # A broker of 4.9 would keep the offset for the next topic of this name.
            self._state.offsets.remove(held.queue)
        return FAILED

    async def _begins_again(self, held: ProcessQueue, header: PullMessageResponseHeader) -> bool:
        """Return True if the topic was deleted and created again: a new queue begins at its first message."""
        low, high, life = header.min_offset, header.max_offset, held.life
        if life.is_doubtful(held.next_offset, low, high, header.next_begin_offset) and life.is_another(
            await self._starts.earliest_store_time(held.queue)
        ):
            log.warning(FORMER, held.next_offset, held.queue, max(0, low))
            self._restart(held, max(0, low))
            return True
        if life.absent_since is not None:  # the topic was missing, and is the same one
            life.absent_since = None
            self._state.acknowledge(held, held.consumed)
        return False

    async def _begin_locked(self, held: ProcessQueue) -> None:
        """Read the offset again after the first lock: the previous owner may have stored it meanwhile."""
        if self._state.needs_locks and not held.previously_locked:
            held.next_offset = await self._starts.find(held.queue)
            held.previously_locked = True

    async def _ask(self, held: ProcessQueue, subscription: Subscription) -> RemotingCommand:
        settings, queue = self._state.settings, held.queue
        return await self._state.instance.read_queue(
            queue,
            PULL_MESSAGE.code,
            self._header(held, subscription),
            timeout=settings.pull_timeout,
            prefer=held.suggested_broker,
            ok=PULL_STATUSES,
        )

    def _header(self, held: ProcessQueue, subscription: Subscription) -> PullMessageRequestHeader:
        settings, queue = self._state.settings, held.queue
        # No long poll for a missing topic: the reply must show at once whether it exists again.
        flags = 0 if held.life.absent_since is not None else _SUSPEND
        commit = self._state.offsets.memory(queue) or 0
        # A slave does not accept offsets.
        if commit > 0 and not settings.broadcasting and held.suggested_broker == MASTER_ID:
            flags |= _COMMIT_OFFSET
        if settings.post_subscription:
            flags |= _SUBSCRIPTION
        return PullMessageRequestHeader(
            consumer_group=self._state.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=held.next_offset,
            max_msg_nums=settings.pull_batch_size,
            sys_flag=flags,
            commit_offset=commit if flags & _COMMIT_OFFSET else 0,
            suspend_timeout_millis=round(settings.long_poll * 1000),
            subscription=subscription.data.sub_string if settings.post_subscription else None,
            sub_version=subscription.announced,
            expression_type=subscription.data.expression_type,
            bname=queue.broker_name,
        )

    async def _messages(
        self,
        held: ProcessQueue,
        reply: RemotingCommand,
        header: PullMessageResponseHeader,
        subscription: Subscription,
    ) -> tuple[PullMessageResponseHeader, list[MessageExt]]:
        """Return the header and the messages of a reply.

        If messages at its end are missing, `next_begin_offset` of the header is the offset of the first one.
        """
        above = held.next_offset if reply.code == ResponseCode.SUCCESS else -1
        check_next_offset(header.next_begin_offset, held.queue.broker_name, above=above)
        held.suggested_broker = header.suggest_which_broker_id
        if reply.code != ResponseCode.SUCCESS:
            return header, []
        first, end, name = held.next_offset, header.next_begin_offset, held.queue.broker_name
        messages, cut_at = await read_messages(reply.body, name, begin=first)
        place(messages, first, end, name, header.offset_delta or 0)
        if cut_at is not None:
            header = replace(header, next_begin_offset=messages[-1].queue_offset + 1)
        held.life.see(messages)
        if subscription.tags:
            messages = [message for message in messages if message.tags in subscription.tags]
        ends = {
            PropertyName.MIN_OFFSET: str(header.min_offset),
            PropertyName.MAX_OFFSET: str(header.max_offset),
        }
        for message in messages:
            message.properties.update(ends)
        if held.queue.topic.startswith(RETRY_PREFIX):
            as_original(messages, held.queue.topic)
        self._state.instance.namespace.unwrap_messages(messages)
        return header, messages

    def _count(self, held: ProcessQueue, begun: float, pulled: int) -> None:
        counts = self._state.statistics[held.queue.topic]
        counts.pull_time.add((trio.current_time() - begun) * 1000)
        if pulled:
            counts.pulled.add(pulled)

    def _take(
        self,
        held: ProcessQueue,
        status: PullStatus,
        header: PullMessageResponseHeader,
        messages: list[MessageExt],
    ) -> float:
        if status is PullStatus.OFFSET_ILLEGAL:
            self._illegal(held, header)
            return 0.0
        held.next_offset, held.max_offset = header.next_begin_offset, header.max_offset
        if messages:
            # The filter excluded all messages after the last one, so they are consumed together with it.
            held.end = max(held.end, held.next_offset)
            self._sink(held, held.put(messages))
            return self._state.settings.pull_interval
        if not held.count:
            # All messages up to here are consumed or excluded by the filter.
            self._state.acknowledge(held, held.next_offset)
        return 0.0

    def _illegal(self, held: ProcessQueue, header: PullMessageResponseHeader) -> None:
        next_offset = header.next_begin_offset
        why = why_moved(held.next_offset, header.min_offset, header.max_offset)
        log.warning("offset %d of %s %s; continuing at %d", held.next_offset, held.queue, why, next_offset)
        self._restart(held, next_offset)

    def _restart(self, held: ProcessQueue, offset: int) -> None:
        """Stop working on a queue, so that a new one begins at `offset`."""
        self._state.offsets.update(held.queue, offset, increase_only=False)
        held.closed = held.retiring = held.illegal = True
        held.drop()

    async def _retire(self, held: ProcessQueue) -> None:
        await trio.sleep(ILLEGAL)
        state = self._state
        if state.queues.get(held.queue) is held:
            await state.persist([held.queue], sure=True)
            state.forget(held)
            state.rebalance_soon()
