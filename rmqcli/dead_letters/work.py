"""The dead letters of a group: reads them, sends them back, or marks them as dropped, and records this in a
journal.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import trio

from rmqcli.client import Admin, ClientError, NotFound, Producer, PullConsumer
from rmqcli.client.routing.routes import publish_queues
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.dead_letters.access import Opened
from rmqcli.dead_letters.letter import JournalError, Selection, identity, origin_topic, restored
from rmqcli.flows.reading import Span, open_range, reachable_spans
from rmqcli.state import state_folder

# Records what was done with the dead letters of a group, so that none is sent twice: a file that only grows.
#
# Each line is `{"letter": IDENTITY, "state": STATE}`; the last one of a letter counts. A line `sending` comes
# before a send and `sent` after its acknowledgement: after a kill, a time-out or a lost connection a letter is
# left as `sending`, and may have been sent.


class State(StrEnum):
    """The state of a letter. OPEN is never written, except to take back SENDING after a refusal."""

    OPEN = "open"
    SENDING = "sending"
    SENT = "sent"
    DROPPED = "dropped"


class _Line(msgspec.Struct, frozen=True):
    letter: str
    state: State


def journal_path(group: str) -> Path:
    """Return the file of a group in the user's state folder, or in the one that RMQ_STATE_DIR names."""
    return state_folder() / "dlq" / f"{group}.jsonl"


class Journal:
    """The states of letters by identity. Entered as a context manager, it can be written to."""

    def __init__(self, path: Path) -> None:
        """Read the file, if it exists. Raise JournalError for another file, and OSError."""
        self.path = path
        self._states: dict[str, State] = {}
        self._descriptor = -1
        self._read()

    def _read(self) -> None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        # A kill may cut the last line short.
        for line in data.splitlines(keepends=True):
            if line.endswith(b"\n"):
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            found = msgspec.json.decode(line, type=_Line)
        except msgspec.MsgspecError as error:
            raise JournalError(f"{self.path}: not a progress file of rmq dlq: {error}") from error
        self._states[found.letter] = found.state

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise JournalError(f"{self.path} is in use: another rmq works on these dead letters") from None
        # Again, under the lock, because another process may have written to the file in the meantime.
        self._read()
        self._end_torn_line()
        return self

    def _end_torn_line(self) -> None:
        """Remove the partial line that a kill left: the next one would become unreadable."""
        data = self.path.read_bytes()
        os.ftruncate(self._descriptor, data.rfind(b"\n") + 1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        self._descriptor = -1

    def state(self, letter: str) -> State:
        return self._states.get(letter, State.OPEN)

    def note(self, letter: str, state: State) -> None:
        """Write the state of a letter. Raise OSError if the disk is full: then nothing may be sent."""
        self._append(msgspec.json.encode(_Line(letter, state)) + b"\n")
        self._states[letter] = state

    def _append(self, data: bytes) -> None:
        if os.write(self._descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


# Reads the dead letters of a group, sends them back, or marks them as dropped.
#
# Letters are read up to the end that their queues have at the start, oldest first, and sent one after another
# in that order.

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
