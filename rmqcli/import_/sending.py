"""Sending of imported rows: each queue has a task that sends its rows in order, several per request.

A row that cannot be sent does not stop the others. A queue that fails `GIVE_UP` times in a row gets no more
rows. When no queue is left, reading stops.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import trio

from rmqcli.client import (
    BrokerRefused,
    ClientError,
    InvalidRequest,
    NotFound,
    NotPermitted,
    SendResult,
    split_batch,
)
from rmqcli.codec.core.hashing import java_string_hash
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.grammar.values import GrammarError
from rmqcli.import_.progress import Progress
from rmqcli.import_.rows import ImportFailed, ImportRow

GIVE_UP = 3
BATCH_MESSAGES = 64
READ_ROWS = 256
"""The number of rows that a thread reads at once."""


class ImportTarget(Protocol):
    """The methods of `Producer` that an import needs."""

    async def send(self, message: Message, *, queue: MessageQueue | None = ...) -> SendResult: ...
    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = ...
    ) -> SendResult: ...


class Failure(NamedTuple):
    """A row that was not sent, or is in doubt, with its number from 0 in its file."""

    file: str
    number: int
    error: Exception


@dataclass(slots=True)
class ImportTally:
    """The result of an import: `skipped` rows were sent by an earlier run, `filtered` ones are not selected;
    `queues` counts messages.

    For the `unknown` rows, a broker did not reply to the request, and may have stored them.
    """

    sent: int = 0
    skipped: int = 0
    filtered: int = 0
    size: int = 0
    failed: list[Failure] = field(default_factory=list)
    unknown: list[Failure] = field(default_factory=list)
    queues: Counter[MessageQueue] = field(default_factory=Counter)
    stopped: bool = False

    @property
    def is_begun(self) -> bool:
        """True if any row was sent or attempted."""
        return bool(self.sent or self.failed or self.unknown)


class Router:
    """Chooses the queue of each row.

    `keep` uses the queue with the same number, on the same broker if possible. `hash` uses the first key, so
    that messages with equal keys share a queue. `round-robin` takes turns, as the other two do for rows
    without a queue or key.
    """

    def __init__(self, queues: Sequence[MessageQueue], choice: str) -> None:
        self._queues = sorted(queues)
        self._turn = itertools.cycle(self._queues)
        self.queue_of = {"keep": self._keep, "hash": self._hash}.get(choice, self._next)
        """Returns the queue of a row and its message. Raises ImportFailed if the topic has no such queue."""
        self._by_place = {(queue.broker_name, queue.queue_id): queue for queue in self._queues}
        self._by_number = {queue.queue_id: queue for queue in reversed(self._queues)}

    def _next(self, row: ImportRow, message: Message) -> MessageQueue:
        return next(self._turn)

    def _hash(self, row: ImportRow, message: Message) -> MessageQueue:
        if not message.keys:
            return next(self._turn)
        return self._queues[java_string_hash(message.keys[0]) % len(self._queues)]

    def _keep(self, row: ImportRow, message: Message) -> MessageQueue:
        if row.queue_id is None:
            return next(self._turn)
        place = row.broker_name or "", row.queue_id
        found = self._by_place.get(place) or self._by_number.get(row.queue_id)
        if found is None:
            raise ImportFailed(
                f"topic {message.topic} has no queue {row.queue_id}; "
                "--queues hash or round-robin uses those it has"
            )
        return found


class _Item(NamedTuple):
    row: ImportRow
    message: Message


class Importer:
    """Sends rows; with a `target` of None, a dry run does everything but send.

    `rate` is messages per second.
    """

    def __init__(
        self,
        target: ImportTarget | None,
        router: Router,
        progress: Progress,
        *,
        rate: float | None = None,
        test: Callable[[ImportRow], bool] = lambda row: True,
        advance: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.tally = ImportTally()
        self._target = target
        self._router = router
        self._progress = progress
        self._rate = rate
        self._test = test
        self._advance = advance
        self._channels: dict[MessageQueue, trio.MemorySendChannel[_Item]] = {}
        self._dead: set[MessageQueue] = set()
        self._feeding = trio.CancelScope()

    async def run(self, rows: Iterator[ImportRow]) -> ImportTally:
        """Send all rows that were not sent before."""
        async with trio.open_nursery() as nursery:
            with self._feeding:
                await self._feed(rows, nursery)
            for channel in self._channels.values():
                channel.close()
        for failures in (self.tally.failed, self.tally.unknown):
            failures.sort(key=lambda failure: failure[:2])
        return self.tally

    async def _feed(self, rows: Iterator[ImportRow], nursery: trio.Nursery) -> None:
        start, count = trio.current_time(), 0
        while chunk := await trio.to_thread.run_sync(lambda: list(itertools.islice(rows, READ_ROWS))):
            for row in chunk:
                if self._progress.is_sent(row.file, row.number):
                    self.tally.skipped += 1
                    self._advance(1)
                    continue
                if not self._test(row):
                    self.tally.filtered += 1
                    self._advance(1)
                    continue
                if self._rate and self._target is not None:
                    await trio.sleep_until(start + count / self._rate)
                count += 1
                await self._dispatch(row, nursery)

    async def _dispatch(self, row: ImportRow, nursery: trio.Nursery) -> None:
        try:
            if isinstance(row.message, Exception):
                raise row.message
            queue = self._router.queue_of(row, row.message)
        except (GrammarError, ImportFailed) as error:
            self._fail([row], error)
            return
        item = _Item(row, row.message)
        if self._target is None:
            self._count(queue, [item])
            return
        if queue not in self._channels:
            self._channels[queue], receive = trio.open_memory_channel[_Item](BATCH_MESSAGES)
            nursery.start_soon(self._work, self._target, queue, receive)
        await self._channels[queue].send(item)

    async def _work(
        self, target: ImportTarget, queue: MessageQueue, channel: trio.MemoryReceiveChannel[_Item]
    ) -> None:
        failures = 0
        async for first in channel:
            items = [first, *_waiting(channel)]
            if queue in self._dead:
                self._fail(
                    [item.row for item in items], ImportFailed(f"not tried: queue {queue} is given up")
                )
                continue
            # `split_batch` returns the same objects, from which the rows are found again.
            by_message = {id(item.message): item for item in items}
            for part in split_batch(item.message for item in items):
                error = await self._send(target, queue, [by_message[id(message)] for message in part])
                failures = failures + 1 if error is not None and _is_of_queue(error) else 0
                if failures >= GIVE_UP or isinstance(error, (NotFound, NotPermitted)):
                    self._give_up(queue)

    def _give_up(self, queue: MessageQueue) -> None:
        self._dead.add(queue)
        if len(self._dead) == len(self._channels):
            self.tally.stopped = True
            self._feeding.cancel()

    async def _send(
        self, target: ImportTarget, queue: MessageQueue, items: list[_Item]
    ) -> ClientError | None:
        """Send one request.

        If it is refused, send each message alone, so that only the invalid ones are left out.
        """
        try:
            await _to_the_end(target, queue, [item.message for item in items])
        except ClientError as error:
            if len(items) > 1 and not _is_of_queue(error):
                return await self._send_apart(target, queue, items)
            self._fail([item.row for item in items], error)
            return error
        self._count(queue, items)
        return None

    async def _send_apart(
        self, target: ImportTarget, queue: MessageQueue, items: list[_Item]
    ) -> ClientError | None:
        error = None
        for item in items:
            error = await self._send(target, queue, [item])
        return error

    def _count(self, queue: MessageQueue, items: list[_Item]) -> None:
        for file, group in itertools.groupby(items, key=lambda item: item.row.file):
            self._progress.sent(file, [item.row.number for item in group])
        self.tally.sent += len(items)
        self.tally.size += sum(len(item.message.body) for item in items)
        self.tally.queues[queue] += len(items)
        self._advance(len(items))

    def _fail(self, rows: Sequence[ImportRow], error: Exception) -> None:
        in_doubt = isinstance(error, ClientError) and error.maybe_stored
        failures = self.tally.unknown if in_doubt else self.tally.failed
        failures += [Failure(row.file, row.number, error) for row in rows]
        self._advance(len(rows))


async def _to_the_end(target: ImportTarget, queue: MessageQueue, messages: list[Message]) -> None:
    """Make an interrupt wait for the reply, at most until the timeout, so that these rows count as sent."""
    await trio.lowlevel.checkpoint_if_cancelled()
    with trio.CancelScope(shield=True):
        if len(messages) == 1:
            await target.send(messages[0], queue=queue)
        else:
            await target.send_batch(messages, queue=queue)


def _is_of_queue(error: ClientError) -> bool:
    """Return True if the messages did not cause the error, so that others would fail as well."""
    refused = isinstance(error, (BrokerRefused, InvalidRequest))
    return not refused or isinstance(error, (NotFound, NotPermitted))


def _waiting(channel: trio.MemoryReceiveChannel[_Item]) -> Iterator[_Item]:
    for _ in range(BATCH_MESSAGES - 1):
        try:
            yield channel.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return
