"""Sends a stream of messages, many at a time, and reports the result of each.

With one request in flight, messages are stored in the order of the input. With more, they are sent in that
order, but a message that is sent again, or over a new connection, may be overtaken. A refused message does
not stop the others; if nothing can be sent at all (no connection, no topic, no permission), or `_GIVE_UP`
messages fail in a row, reading stops and the rest of the input is reported as not sent. A request that was
sent but not answered leaves its messages in doubt: they count neither as sent nor as failed. A cancellation
waits for the requests in flight, for at most their timeout, so that it does not itself put messages in doubt.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import trio

from rmqcli.client import (
    ClientError,
    ConnectionFailed,
    NotPermitted,
    SendResult,
    TopicNotFound,
    TransactionProducer,
    TransactionState,
    split_batch,
)
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.property_names import PropertyName
from rmqcli.flows.errors import FlowError, HalfInDoubt, InvalidInput, NotAttempted, OutcomeNotDelivered

_GIVE_UP = 20
_LINGER_S = 0.05  # how long a batch waits for more messages
_FATAL = (ConnectionFailed, TopicNotFound, NotPermitted)


class Job(NamedTuple):
    """One message of the input, or the error of its piece of the input."""

    number: int
    message: Message | Exception


class Acknowledged(NamedTuple):
    """A message that the broker has stored; the recall handle is that of a timer message."""

    number: int
    msg_id: str
    queue: MessageQueue
    queue_offset: int
    offset_msg_id: str
    status: str
    recall_handle: str | None = None


class InDoubt(NamedTuple):
    """A message that a broker may have stored: its number, its id, and the reason for the missing reply."""

    number: int
    msg_id: str
    error: Exception


@dataclass(frozen=True, slots=True)
class SendPlan:
    """The settings for sending. With empty `queues`, the producer chooses. `rate` is in messages per second;
    None: unlimited.
    """

    concurrency: int = 1
    batch: int = 1
    oneway: bool = False
    rate: float | None = None
    queues: Sequence[MessageQueue] = ()


@dataclass(slots=True)
class Tally:
    """The results. `failed`: input number → reason. `read` counts the input; `last` is its last number.

    `untried` are the numbers that were read before a cancellation and not sent.
    """

    read: int = 0
    last: int = 0
    sent: int = 0
    size: int = 0
    failed: list[tuple[int, Exception]] = field(default_factory=list)
    unknown: list[InDoubt] = field(default_factory=list)
    untried: list[int] = field(default_factory=list)
    stopped: bool = False


class Target(Protocol):
    """The part of `Producer` that sending needs."""

    async def send(self, message: Message, *, queue: MessageQueue | None = ...) -> SendResult: ...
    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = ...
    ) -> SendResult: ...
    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = ...) -> object: ...


class Sender:
    """Sends jobs by a plan and calls `on_sent` for each acknowledged message."""

    def __init__(self, target: Target, plan: SendPlan, on_sent: Callable[[Acknowledged], None]) -> None:
        self._target = target
        self._plan = plan
        self._on_sent = on_sent
        self._queues: Iterator[MessageQueue | None] = itertools.cycle(plan.queues or [None])
        self._failures_in_row = 0
        self._feeding = trio.CancelScope()
        self._open: set[int] = set()
        self._first_done = trio.Event()
        self.tally = Tally()

    async def run(self, jobs: AsyncIterator[Job]) -> Tally:
        """Send all jobs, with at most `concurrency` requests in flight; input is read no faster than it is
        sent.
        """
        try:
            await self._run(jobs)
        except BaseException:  # such as Ctrl-C
            self.tally.untried = sorted(self._open)
            raise
        # Messages read before sending stopped.
        self.tally.failed += [(number, NotAttempted("not attempted")) for number in sorted(self._open)]
        return self.tally

    async def _run(self, jobs: AsyncIterator[Job]) -> None:
        async with trio.open_nursery() as nursery:
            send, receive = trio.open_memory_channel[list[Job]](0)
            nursery.start_soon(self._feed, jobs, send)
            async with receive:
                for _ in range(self._plan.concurrency):
                    nursery.start_soon(self._work, receive.clone())

    async def _feed(self, jobs: AsyncIterator[Job], channel: trio.MemorySendChannel[list[Job]]) -> None:
        async with channel:
            with self._feeding:
                if self._plan.batch == 1:
                    async for job in self._paced(jobs):
                        await self._hand_over([job], channel)
                else:
                    await self._feed_batches(jobs, channel)

    async def _feed_batches(
        self, jobs: AsyncIterator[Job], channel: trio.MemorySendChannel[list[Job]]
    ) -> None:
        async with trio.open_nursery() as nursery:
            send, receive = trio.open_memory_channel[Job](self._plan.batch)
            nursery.start_soon(self._pump, jobs, send)
            async with receive:
                while batch := await _gather(receive, self._plan.batch):
                    await self._hand_over(batch, channel)

    async def _hand_over(self, jobs: list[Job], channel: trio.MemorySendChannel[list[Job]]) -> None:
        # Until the first is sent there is no route and no connection: the others would wait together and then
        # be sent in any order.
        await channel.send(jobs)
        await self._first_done.wait()

    async def _pump(self, jobs: AsyncIterator[Job], channel: trio.MemorySendChannel[Job]) -> None:
        async with channel:
            async for job in self._paced(jobs):
                await channel.send(job)

    async def _paced(self, jobs: AsyncIterator[Job]) -> AsyncIterator[Job]:
        start = trio.current_time()
        async for job in jobs:
            if self._plan.rate:
                await trio.sleep_until(start + self.tally.read / self._plan.rate)
            self.tally.read += 1
            self.tally.last = job.number
            self._open.add(job.number)
            if isinstance(job.message, Exception):
                self._fail([job.number], job.message)
            else:
                yield job

    async def _work(self, channel: trio.MemoryReceiveChannel[list[Job]]) -> None:
        async with channel:
            async for jobs in channel:
                if not self.tally.stopped:
                    await self._send(jobs)
                self._first_done.set()

    async def _send(self, jobs: Sequence[Job]) -> None:
        # By identity: equal messages may occur more than once in the input.
        messages = {id(message): job.number for job in jobs if isinstance(message := job.message, Message)}
        parts = split_batch([job.message for job in jobs if isinstance(job.message, Message)])
        for part in [[jobs[0].message]] if len(jobs) == 1 else parts:
            numbers = [messages[id(message)] for message in part]
            await self._send_part([message for message in part if isinstance(message, Message)], numbers)

    async def _send_part(self, part: Sequence[Message], numbers: Sequence[int]) -> None:
        # After Ctrl-C no request begins, but one in flight is finished: its messages would be in doubt.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            with trio.CancelScope(shield=True):
                await self._request(part, numbers, next(self._queues))
        except (ClientError, FlowError) as error:
            self._fail(numbers, error)
            return
        self._open.difference_update(numbers)
        self._failures_in_row = 0
        self.tally.sent += len(part)
        self.tally.size += sum(len(message.body) for message in part)

    async def _request(
        self, part: Sequence[Message], numbers: Sequence[int], queue: MessageQueue | None
    ) -> None:
        if self._plan.oneway:
            for message in part:
                await self._target.send_oneway(message, queue=queue)
        elif len(part) == 1:
            self._acknowledge(await self._target.send(part[0], queue=queue), numbers)
        else:
            self._acknowledge(await self._target.send_batch(part, queue=queue), numbers)

    def _acknowledge(self, result: SendResult, numbers: Sequence[int]) -> None:
        ids = _shared_out(result.msg_id, len(numbers))
        stored = _shared_out(result.offset_msg_id, len(numbers))
        for place, number in enumerate(numbers):
            offset = result.queue_offset + place
            self._on_sent(
                Acknowledged(
                    number,
                    ids[place],
                    result.message_queue,
                    offset,
                    stored[place],
                    result.status.name,
                    result.recall_handle,
                )
            )

    def _fail(self, numbers: Sequence[int], error: Exception) -> None:
        self._open.difference_update(numbers)
        if in_doubt := getattr(error, "maybe_stored", ""):
            ids = _shared_out(in_doubt, len(numbers))
            self.tally.unknown += [InDoubt(*each, error) for each in zip(numbers, ids, strict=True)]
        else:
            self.tally.failed += [(number, error) for number in numbers]
        # Errors of the input do not count towards giving up.
        if not isinstance(error, ClientError):
            return
        self._failures_in_row += 1
        if isinstance(error, _FATAL) or self._failures_in_row >= _GIVE_UP:
            self.tally.stopped = True
            self._feeding.cancel()


def _shared_out(joined: str, count: int) -> list[str]:
    parts = joined.split(",")
    return parts if len(parts) == count else [joined] * count


async def _gather(channel: trio.MemoryReceiveChannel[Job], most: int) -> list[Job]:
    """Return the next jobs, at least one; none at the end of the input."""
    try:
        found = [await channel.receive()]
    except trio.EndOfChannel:
        return []
    with trio.move_on_after(_LINGER_S):
        while len(found) < most:
            try:
                found.append(await channel.receive())
            except trio.EndOfChannel:
                break
    return found


GROUP = "rmq_transaction"
OUTCOMES = {
    "commit": TransactionState.COMMIT_MESSAGE,
    "rollback": TransactionState.ROLLBACK_MESSAGE,
    "unknown": TransactionState.UNKNOW,
}


class Answered(NamedTuple):
    """A check of one of our half messages. If it is not `delivered`, the broker did not get the reply and
    checks again.
    """

    msg_id: str
    times: str
    delivered: bool


class Transacting:
    """A producer of transactions. Checks of our half messages are answered with `answer`, other checks with
    UNKNOWN.

    Brokers also send checks of our messages to other members of the group, which answer UNKNOWN, so a message
    may be checked several times.
    """

    def __init__(
        self, outcome: TransactionState, answer: TransactionState | None = None, **options: Any
    ) -> None:
        self._outcome = outcome
        self._answer = answer or outcome
        self._ours: set[str] = set()
        self._undecided: set[str] = set()
        self._checks: list[Answered] = []
        self._checked = trio.Event()
        self.producer = TransactionProducer(GROUP, self._check, on_answered=self._on_answered, **options)

    @property
    def undecided(self) -> int:
        """The number of messages whose outcome the broker has not received."""
        return len(self._undecided)

    async def settle(self, seconds: float | None, on_answered: Callable[[Answered], object]) -> None:
        """Wait until checks have decided every message, for at most `seconds`. Report all checks."""
        with trio.move_on_after(float("inf") if seconds is None else seconds):
            while self._undecided or self._checks:
                if not self._checks:
                    await self._checked.wait()
                # No checkpoint until the list is taken: a check that comes later sets the new event.
                self._checked = trio.Event()
                checks, self._checks = self._checks, []
                for check in checks:
                    on_answered(check)

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        try:
            result = await self.producer.send_in_transaction(message, self._local)
        except ClientError as error:
            if not error.maybe_stored:
                raise
            why = "the broker discards a half message that nobody ends"
            raise HalfInDoubt(f"{error}; {why}") from error
        if result.state is TransactionState.UNKNOW:
            return result.sent
        if not result.outcome_sent:
            raise OutcomeNotDelivered(result.sent.msg_id)
        self._undecided.discard(result.sent.msg_id)
        return result.sent

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None
    ) -> SendResult:
        raise InvalidInput("a transaction holds one message: batches are not possible")

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> object:
        raise InvalidInput("a transaction requires the reply of the broker")

    async def _local(self, message: Message) -> TransactionState:
        self._ours.add(message.uniq_key or "")
        self._undecided.add(message.uniq_key or "")
        return self._outcome

    async def _check(self, half: MessageExt) -> TransactionState:
        return self._answer if half.msg_id in self._ours else TransactionState.UNKNOW

    def _on_answered(self, half: MessageExt, state: TransactionState, delivered: bool) -> None:
        if half.msg_id not in self._ours:
            return
        times = half.properties.get(PropertyName.TRANSACTION_CHECK_TIMES, "")
        self._checks.append(Answered(half.msg_id, times, delivered))
        if delivered and state is not TransactionState.UNKNOW:
            self._undecided.discard(half.msg_id)
        self._checked.set()
