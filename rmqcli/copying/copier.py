"""Copies queues: reads each in order, sends what it read, and counts it only when the target has confirmed.

Each queue is copied in rounds, one for each pull. A round ends when all its messages are confirmed; only then
`next` moves. After a request without a reply, and after a kill, the target is read from the beginning of the
round: messages found there are not sent again. A request can still be carried out after that; such messages
are in the target twice, and are counted at the end of the run, or after `LATE_S`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

import trio

from rmqcli.client import (
    UNREACHED,
    BrokerBusy,
    BrokerRefused,
    ClientError,
    InvalidRequest,
    PullStatus,
    SendResult,
    SendStatus,
    split_batch,
)
from rmqcli.client.outages import Outages
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.copying.errors import CopyError, QueuesDiffer
from rmqcli.copying.marks import Mark, copied, mark_of
from rmqcli.copying.progress import Progress, Source, Target
from rmqcli.copying.routes import KEEP, Route, route_of
from rmqcli.counts import gone
from rmqcli.flows.reading import BATCH, Reader
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.render.output import warn

PATIENCE_S = 30.0
"""Seconds that a queue waits for a broker, unless the copy follows its topic."""
LATE_S = 30.0
"""Seconds after which a request without a reply counts as lost."""
SAVE_S = 1.0
_POLL_S = 15.0
_RETRY_S = 1.0
_ROUTE_S = 30.0
_AHEAD = 2
_TRANSIENT = (*UNREACHED, BrokerBusy)


class Sink(Protocol):
    """The part of `Producer` that a copy needs."""

    async def message_queues(self, topic: str) -> list[MessageQueue]: ...
    async def send(self, message: Message, *, queue: MessageQueue | None = ...) -> SendResult: ...
    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = ...
    ) -> SendResult: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The way to copy. `rate`: messages per second. `idle`: the end of following, in seconds without messages."""

    wanted: OffsetRange
    expression: str = "*"
    rate: float | None = None
    follow: bool = False
    idle: float | None = None
    dry_run: bool = False


class _Piece(NamedTuple):
    """The selected messages up to the offset `next`, and how many were deleted there."""

    messages: list[MessageExt]
    next: int
    missing: int


Place = tuple[MessageQueue, int]


class Copier:
    """One run of a copy. `stopped` holds the errors of queues that were not copied to their end."""

    def __init__(
        self,
        source: Reader,
        sink: Sink,
        tail: Reader,
        progress: Progress,
        plan: Plan,
        *,
        tell: Callable[[str], None] = warn,
    ) -> None:
        """`tail` reads the topic that `sink` writes."""
        self.stopped: dict[MessageQueue, Exception] = {}
        self.found = 0
        self.sent = 0
        self.missing = 0
        self.advance: Callable[[int], None] = lambda count: None
        self.statuses: Counter[str] = Counter()
        self._source, self._sink, self._tail = source, sink, tail
        self._progress, self._state, self._job = progress, progress.state, progress.job
        self._plan = plan
        self._tell = tell
        self._outages = Outages(tell)
        self._route: Route | None = None
        self._ends: dict[MessageQueue, int] = {}
        self._open: dict[MessageQueue, dict[MessageQueue, int]] = {}
        self._there: dict[MessageQueue, dict[int, Place]] = {}
        self._doubts: dict[MessageQueue, float] = {}
        self._slot = 0.0
        self._workers = trio.CancelScope()

    async def prepare(self, sources: Sequence[MessageQueue]) -> None:
        """Choose the queues of the target, and find the messages that a killed run has sent. Raises
        QueuesDiffer.
        """
        targets = await self._sink.message_queues(self._job.to_topic)
        self._route = self._routed(sources, targets)
        for queue in targets:
            await self._find_end(queue)
        if self._plan.dry_run:
            return
        if not self._state.clean:
            for queue in targets:
                if (known := self._state.targets.get(queue)) is not None:
                    await self._find_sent(queue, known)
        self._save()

    def _routed(self, sources: Sequence[MessageQueue], targets: Sequence[MessageQueue]) -> Route:
        known = {
            queue: MessageQueue(self._job.to_topic, one.targets[0].broker_name, one.targets[0].queue_id)
            for queue, one in self._state.sources.items()
            if one.targets and self._job.queues == KEEP
        }
        return route_of(self._job.queues, sources, targets, known)

    async def _find_end(self, queue: MessageQueue) -> None:
        self._ends[queue] = await self._tail.max_offset(queue)

    async def _find_sent(self, queue: MessageQueue, known: Target) -> None:
        low = await self._tail.min_offset(queue)
        if known.floor < low:
            self._tell(f"{queue}: {gone(known.floor, low)}: copies among them will be sent again")
        async for mark, offset in self._marks(queue, known.floor, self._ends[queue]):
            source = self._state.sources.get(mark.queue)
            if source is not None and mark.offset >= source.next:
                there = self._there.setdefault(mark.queue, {})
                self.found += mark.offset not in there
                there.setdefault(mark.offset, (queue, offset))
        self._doubt(queue, known.floor if known.doubt is None else min(known.doubt, known.floor))

    async def _marks(self, queue: MessageQueue, begin: int, end: int) -> AsyncIterator[tuple[Mark, int]]:
        """Yield the marks of this copy in a queue of the target, with their offsets there."""
        offset = max(begin, await self._tail.min_offset(queue))
        while offset < end:
            result = await self._tail.pull(queue, offset, min(BATCH, end - offset))
            for message in result.messages:
                mark = mark_of(message)
                if mark is not None and mark.copy == self._state.copy:
                    yield mark, message.queue_offset
            if result.next_begin_offset <= offset:  # a slave that is behind
                await trio.sleep(_RETRY_S)
            offset = max(offset, result.next_begin_offset)

    def _doubt(self, queue: MessageQueue, offset: int) -> None:
        self._doubts[queue] = trio.current_time()
        target = self._state.targets.setdefault(
            queue, Target(queue.broker_name, queue.queue_id, self._ends[queue])
        )
        target.doubt = offset if target.doubt is None else min(target.doubt, offset)

    async def run(self, ends: Mapping[MessageQueue, int | None]) -> None:
        """Copy the queues up to these offsets; None: follow the queue."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_books)
                async with trio.open_nursery() as workers:
                    self._workers = workers.cancel_scope
                    self._end_when_idle()
                    for queue, end in ends.items():
                        workers.start_soon(self._copy_queue, queue, end)
                    if self._plan.follow:
                        workers.start_soon(self._find_queues, workers, set(ends))
                nursery.cancel_scope.cancel()
        finally:
            if not self._plan.dry_run:
                # Even after an interrupt: the next run continues from what is saved here.
                with trio.CancelScope(shield=True):
                    await self._finish()

    async def _finish(self) -> None:
        with suppress(ClientError), trio.move_on_after(PATIENCE_S):
            for queue in list(self._doubts):
                await self._count_twice(queue, await self._tail.max_offset(queue))
        self._save(clean=not self._open and not any(self._there.values()) and not self._doubts)

    async def _keep_books(self) -> None:
        while True:
            await trio.sleep(SAVE_S)
            with suppress(ClientError):
                for queue, since in list(self._doubts.items()):
                    if trio.current_time() - since > LATE_S:
                        await self._count_twice(queue, self._floor(queue))
            if not self._plan.dry_run:
                self._save()

    async def _count_twice(self, queue: MessageQueue, end: int) -> None:
        """Count the messages that a queue of the target has more than once, and settle its doubt."""
        target, since = self._state.targets[queue], self._doubts[queue]
        counts: Counter[tuple[MessageQueue, int]] = Counter()
        async for mark, _ in self._marks(queue, target.doubt or 0, end):
            counts[mark.queue, mark.offset] += 1
        for (source, _), count in counts.items():
            self._state.sources[source].twice += count - 1
        if self._doubts[queue] == since:
            target.doubt = None
            del self._doubts[queue]
        else:  # a new doubt, after `end`
            target.doubt = end

    def _floor(self, queue: MessageQueue) -> int:
        """Return an offset of the target: the copies that `next` does not cover are there or later."""
        begun = [opened[queue] for opened in self._open.values() if queue in opened]
        there = [at for found in self._there.values() for target, at in found.values() if target == queue]
        return min([self._ends[queue], *begun, *there])

    def _save(self, *, clean: bool = False) -> None:
        for queue in self._ends:
            place = queue.broker_name, queue.queue_id
            target = self._state.targets.setdefault(queue, Target(*place, 0))
            target.floor = self._floor(queue)
        self._progress.save(clean=clean)

    def _end_when_idle(self) -> None:
        """Let the run end `idle` seconds from now, or later if messages are on their way."""
        if self._plan.idle is not None:
            waits = any(self._open.values())
            self._workers.deadline = inf if waits else trio.current_time() + self._plan.idle

    async def _find_queues(self, nursery: trio.Nursery, known: set[MessageQueue]) -> None:
        told = ""
        while True:
            await trio.sleep(_ROUTE_S)
            try:
                queues = await self._source.message_queues(self._job.topic)
                fresh = [queue for queue in queues if queue not in known]
                if fresh:
                    targets = await self._sink.message_queues(self._job.to_topic)
                    route = self._routed([*known, *fresh], targets)
                    for queue in targets:
                        if queue not in self._ends:
                            await self._find_end(queue)
                    self._route = route
                for queue in fresh:
                    begin = await self._source.min_offset(queue)
                    self._state.sources[queue] = Source(queue.broker_name, queue.queue_id, begin, begin)
                    known.add(queue)
                    nursery.start_soon(self._copy_queue, queue, None)
            except QueuesDiffer as error:
                if str(error) != told:
                    self._tell(f"new queues wait: {error}")
                told = str(error)
            except UNREACHED:
                continue

    async def _copy_queue(self, queue: MessageQueue, end: int | None) -> None:
        async with trio.open_nursery() as nursery:
            send, receive = trio.open_memory_channel[_Piece | Exception](_AHEAD)
            nursery.start_soon(self._read, queue, end, send)
            with receive:
                async for piece in receive:
                    try:
                        if isinstance(piece, Exception):
                            raise piece
                        await self._round(queue, piece)
                    except (ClientError, CopyError) as error:
                        self.stopped[queue] = error
                        nursery.cancel_scope.cancel()
                        return

    async def _read(
        self, queue: MessageQueue, end: int | None, channel: trio.MemorySendChannel[_Piece | Exception]
    ) -> None:
        offset = self._state.sources[queue].next
        failing: float | None = None
        with channel:
            if end is not None and end < offset:
                await channel.send(_created_again(end, offset))
            while end is None or offset < end:
                try:
                    piece = await self._pulled(queue, offset, end)
                except _TRANSIENT as error:
                    failing = trio.current_time() if failing is None else failing
                    if self._is_over(queue, "pulling", error, failing):
                        await channel.send(error)
                        return
                    await trio.sleep(_RETRY_S)
                    continue
                except (ClientError, CopyError) as error:
                    await channel.send(error)
                    return
                failing = None
                self._outages.works(queue)
                if piece.next > offset:
                    await channel.send(piece)
                    offset = piece.next
                elif end is not None:
                    await channel.send(CopyError(f"no message at offset {offset}, before the end at {end}"))
                    return

    async def _pulled(self, queue: MessageQueue, offset: int, end: int | None) -> _Piece:
        count = BATCH if end is None else min(BATCH, end - offset)
        suspend = _POLL_S if end is None else 0.0
        result = await self._source.pull(queue, offset, count, self._plan.expression, suspend=suspend)
        following, missing = result.next_begin_offset, 0
        if result.status is PullStatus.OFFSET_ILLEGAL:
            if result.max_offset < offset:
                raise _created_again(result.max_offset, offset)
            missing = max(0, following - offset)
            if missing:
                self._tell(f"{queue}: {gone(offset, following)}")
        # With a filter, a pull of N messages covers more than N offsets.
        kept = [
            message
            for message in result.messages
            if end is None or message.queue_offset < end
            if self._plan.wanted.holds_time(message.store_timestamp)
        ]
        return _Piece(kept, following if end is None else min(following, end), missing)

    def _is_over(self, queue: MessageQueue, what: str, error: ClientError, since: float) -> bool:
        """Report a problem, and return True if the queue has waited long enough to end."""
        if not self._plan.follow and trio.current_time() - since >= PATIENCE_S:
            return True
        self._outages.failed(what, queue, error)
        return False

    async def _round(self, queue: MessageQueue, piece: _Piece) -> None:
        """Copy one piece, and move `next` to the first message that is not confirmed. Raises the error that
        prevents the rest.
        """
        there = self._there.setdefault(queue, {})
        placed: dict[int, Place] = {}
        waiting: dict[MessageQueue, list[MessageExt]] = {}
        for message in piece.messages:
            if message.queue_offset in there:
                placed[message.queue_offset] = there[message.queue_offset]
            else:
                assert self._route is not None
                waiting.setdefault(self._route(queue, message), []).append(message)
        try:
            if self._plan.dry_run:
                placed |= {one.queue_offset: (to, 0) for to, messages in waiting.items() for one in messages}
            elif waiting:
                await self._send_all(queue, waiting, placed)
        except ClientError:
            # Messages confirmed after an unconfirmed one will be found when the copy is continued.
            left = min((one.queue_offset for messages in waiting.values() for one in messages), default=0)
            self._settle(queue, piece._replace(next=max(left, self._state.sources[queue].next)), placed)
            raise
        self._settle(queue, piece, placed)
        self._open.pop(queue, None)
        if piece.messages:
            self._end_when_idle()

    def _settle(self, queue: MessageQueue, piece: _Piece, placed: Mapping[int, Place]) -> None:
        source, there = self._state.sources[queue], self._there[queue]
        done = [place for offset, place in placed.items() if offset < piece.next]
        source.copied += len(done)
        source.missing += piece.missing
        self.missing += piece.missing
        source.filtered += piece.next - source.next - len(done) - piece.missing
        for place in done:
            source.landed(*place)
        for offset in [offset for offset in there if offset < piece.next]:
            del there[offset]
        self.advance(piece.next - source.next)
        source.next = piece.next

    async def _send_all(
        self, queue: MessageQueue, waiting: dict[MessageQueue, list[MessageExt]], placed: dict[int, Place]
    ) -> None:
        """Send messages until all are confirmed; move them from `waiting` to `placed`."""
        opened = self._open[queue] = {target: self._ends[target] for target in waiting}
        self._end_when_idle()
        doubtful: set[MessageQueue] = set()
        begun: float | None = None
        while True:
            errors: dict[MessageQueue, ClientError] = {}
            for target in list(doubtful):
                try:
                    await self._find_stored(queue, target, opened[target], waiting[target], placed)
                    doubtful.discard(target)
                except _TRANSIENT as error:
                    errors[target] = error
            if not errors:
                await self._deliver_all(queue, waiting, placed, errors)
            if not errors:
                return
            doubtful |= {target for target, error in errors.items() if error.maybe_stored}
            final = [error for error in errors.values() if not isinstance(error, _TRANSIENT)]
            begun = trio.current_time() if begun is None else begun
            target, first = next(iter(errors.items()))
            if final or self._is_over(target, "copying to", first, begun):
                raise final[0] if final else first
            await trio.sleep(_RETRY_S)

    async def _find_stored(
        self,
        queue: MessageQueue,
        target: MessageQueue,
        begin: int,
        messages: list[MessageExt],
        placed: dict[int, Place],
    ) -> None:
        """Remove from `messages` those that the broker has stored without a reply."""
        found: dict[int, Place] = {}
        async for mark, offset in self._marks(target, begin, await self._tail.max_offset(target)):
            if mark.queue == queue:
                found.setdefault(mark.offset, (target, offset))
        self._doubt(target, begin)
        stored = [one.queue_offset for one in messages if one.queue_offset in found]
        self.found += len(stored)
        placed |= {offset: found[offset] for offset in stored}
        # In place, because `_round` looks in the same list for what is left.
        messages[:] = [one for one in messages if one.queue_offset not in found]

    async def _deliver_all(
        self,
        queue: MessageQueue,
        waiting: dict[MessageQueue, list[MessageExt]],
        placed: dict[int, Place],
        errors: dict[MessageQueue, ClientError],
    ) -> None:
        async def deliver(target: MessageQueue) -> None:
            try:
                await self._deliver(queue, target, waiting[target], placed)
                self._outages.works(target)
            except ClientError as error:
                errors[target] = error

        if len(waiting) == 1:  # without the checkpoint of a nursery, which an interrupt would use
            await deliver(next(iter(waiting)))
            return
        async with trio.open_nursery() as nursery:
            for target in waiting:
                nursery.start_soon(deliver, target)

    async def _deliver(
        self,
        queue: MessageQueue,
        target: MessageQueue,
        messages: list[MessageExt],
        placed: dict[int, Place],
    ) -> None:
        """Send messages to one queue in order; move confirmed ones from `messages` to `placed`."""
        copy, how, topic = self._state.copy, self._job.queues, self._job.to_topic
        ready = [copied(one, topic, Mark(copy, how, queue, one.queue_offset)) for one in messages]
        most = 0 if self._plan.rate is None else max(1, int(self._plan.rate))

        async def send(part: Sequence[Message]) -> None:
            try:
                result = await self._request(target, part)
            except (BrokerRefused, InvalidRequest) as error:
                if len(part) == 1 or isinstance(error, BrokerBusy):
                    raise
                for one in part:  # only refused messages must stay
                    await send([one])
                return
            for place, done in enumerate(messages[: len(part)]):
                placed[done.queue_offset] = target, result.queue_offset + place
            del messages[: len(part)]

        for part in split_batch(ready, max_count=most):
            await self._pace(len(part))
            await send(part)

    async def _pace(self, count: int) -> None:
        if self._plan.rate is not None:
            begin = max(self._slot, trio.current_time())
            self._slot = begin + count / self._plan.rate
            await trio.sleep_until(begin)

    async def _request(self, target: MessageQueue, part: Sequence[Message]) -> SendResult:
        """Send one request. An interrupt waits for its reply, so that the messages are not in doubt."""
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=True):
            if len(part) == 1:
                result = await self._sink.send(part[0], queue=target)
            else:
                result = await self._sink.send_batch(part, queue=target)
        self._ends[target] = max(self._ends[target], result.queue_offset + len(part))
        self.sent += len(part)
        if result.status is not SendStatus.SEND_OK:
            self.statuses[result.status.name] += len(part)
        return result


def _created_again(end: int, offset: int) -> CopyError:
    return CopyError(
        f"the queue ends at {end}, before offset {offset}: the topic was created again; "
        "copy it with another --progress file"
    )
