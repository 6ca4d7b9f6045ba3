"""The dead letters of a group: reads them, sends them back, or marks them as dropped, and records this in the
journal.

Letters are read up to the end that their queues have at the start, oldest first, and sent one after another
in that order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle

import trio

from rmqcli.client import Admin, ClientError, NotFound, Producer, PullConsumer
from rmqcli.client.routing.routes import publish_queues
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.dead_letters.access import Opened
from rmqcli.dead_letters.journal import Journal, State
from rmqcli.dead_letters.letter import Selection, identity, origin_topic, restored
from rmqcli.flows.reading import Span, open_range, reachable_spans

UNKNOWN_TOPIC = ""


@dataclass(slots=True)
class Found:
    """The letters of a group: their spans, the counts of selected ones by original topic and of those that
    the journal excludes by state, topics that cannot be sent to with the reason (UNKNOWN_TOPIC: no property
    names one), errors by broker, and brokers on which the topic is only temporarily readable.
    """

    spans: list[Span]
    failures: dict[str, ClientError]
    topics: Counter[str] = field(default_factory=Counter)
    excluded: Counter[State] = field(default_factory=Counter)
    gone: dict[str, str] = field(default_factory=dict)
    granted: tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        """The topics that letters can go to, sorted."""
        return sorted(topic for topic in self.topics if topic not in self.gone)

    @property
    def count(self) -> int:
        """The number of letters that can go back."""
        return sum(self.topics[topic] for topic in self.targets)


@dataclass(slots=True)
class Tally:
    """The result of a run: `unknown` letters may have been sent."""

    done: int = 0
    failed: dict[str, Exception] = field(default_factory=dict)
    unknown: dict[str, Exception] = field(default_factory=dict)


class Letters:
    """The selected letters of an opened topic. `again` includes those that the journal excludes; `to` is the
    topic to send to instead of the original one.
    """

    def __init__(
        self,
        admin: Admin,
        topic: Opened,
        chosen: Selection,
        journal: Journal,
        *,
        again: bool = False,
        to: str | None = None,
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._chosen = chosen
        self._journal = journal
        self._again = again
        self._to = to

    def target(self, letter: MessageExt) -> str:
        """Return the topic that a letter goes to; UNKNOWN_TOPIC if it is not known."""
        return self._to or origin_topic(letter) or UNKNOWN_TOPIC

    def state(self, letter: MessageExt) -> State:
        return self._journal.state(identity(letter))

    async def find(self) -> Found:
        """Return the spans and errors; counts are empty."""
        async with PullConsumer(instance=self._admin.instance) as reader:
            spans, lost = await reachable_spans(reader, self._topic.queues, self._chosen.span)
        failures = dict(self._topic.failures)
        failures |= {queue.broker_name: error for queue, error in lost.items()}
        return Found(spans, failures, granted=self._topic.granted)

    async def counted(self) -> Found:
        """Read all letters once and count them."""
        found = await self.find()
        async with self.read(found, every=True) as letters:
            async for letter in letters:
                state = self.state(letter)
                if state is State.OPEN or self._again:
                    found.topics[self.target(letter)] += 1
                else:
                    found.excluded[state] += 1
        for topic in found.topics:
            if (why := await self._refusal(topic)) is not None:
                found.gone[topic] = why
        return found

    async def _refusal(self, topic: str) -> str | None:
        """Return the reason why a topic cannot be sent to. A producer would create a missing topic."""
        if topic == UNKNOWN_TOPIC:
            return "no property names their topic"
        try:
            route = await self._admin.topics.route(topic)
        except NotFound:
            return f"topic {topic} does not exist"
        return None if publish_queues(topic, route) else f"topic {topic} has no writable queue"

    @asynccontextmanager
    async def read(self, found: Found, *, every: bool = False) -> AsyncIterator[AsyncIterator[MessageExt]]:
        """Yield the selected letters; without `every`, only those that the journal does not exclude."""
        async with (
            PullConsumer(instance=self._admin.instance) as reader,
            open_range(reader, found.spans, self._chosen.span) as letters,
        ):
            yield self._filtered(letters, every=every or self._again)

    async def _filtered(
        self, letters: AsyncIterator[MessageExt], *, every: bool
    ) -> AsyncIterator[MessageExt]:
        async for letter in letters:
            if self._chosen.accepts(letter) and (every or self.state(letter) is State.OPEN):
                yield letter

    async def redrive(
        self, found: Found, tally: Tally, *, rate: float | None, advance: Callable[[int], None]
    ) -> None:
        """Send the letters to their topics, at most `rate` per second."""
        queues: dict[str, cycle[MessageQueue]] = {}
        async with Producer("rmq-redrive", instance=self._admin.instance, allow_empty=True) as producer:
            for topic in found.targets:
                queues[topic] = cycle(await producer.message_queues(topic))

            async def send(letter: MessageExt) -> None:
                topic = self.target(letter)
                await producer.send(restored(letter, topic), queue=next(queues[topic]))

            await self._each(found, tally, send, rate, advance)

    async def _each(
        self,
        found: Found,
        tally: Tally,
        send: Callable[[MessageExt], Awaitable[None]],
        rate: float | None,
        advance: Callable[[int], None],
    ) -> None:
        start, count = trio.current_time(), 0
        async with self.read(found) as letters:
            async for letter in letters:
                if self.target(letter) not in found.targets:
                    continue
                if rate:
                    await trio.sleep_until(start + count / rate)
                count += 1
                await self._one(letter, tally, send)
                advance(1)

    async def _one(
        self, letter: MessageExt, tally: Tally, send: Callable[[MessageExt], Awaitable[None]]
    ) -> None:
        name = identity(letter)
        # Before the send: after a kill, the letter counts as perhaps sent, and is not sent twice.
        self._journal.note(name, State.SENDING)
        try:
            await send(letter)
        except ClientError as error:
            if error.maybe_stored:
                tally.unknown[letter.msg_id] = error
                return
            self._journal.note(name, State.OPEN)
            tally.failed[letter.msg_id] = error
            return
        self._journal.note(name, State.SENT)
        tally.done += 1

    async def drop(self, found: Found, tally: Tally) -> None:
        """Mark the letters as dropped, so that no command shows or sends them again."""
        async with self.read(found) as letters:
            async for letter in letters:
                self._journal.note(identity(letter), State.DROPPED)
                tally.done += 1
