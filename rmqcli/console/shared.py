"""The state that all viewers share: the poll of the cluster, and readings of topics, messages and groups.

Regardless of the number of viewers, the cluster is queried once per interval for each viewed object, and not
at all without viewers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import trio

from rmqcli.client import Admin, ClientError
from rmqcli.client.admin.area import gather
from rmqcli.codec.names import DLQ_PREFIX
from rmqcli.report.cluster.topics import DeadLetters, read_topics
from rmqcli.top.board import Board
from rmqcli.top.loads import KINDS

T = TypeVar("T")

READ_SECONDS = 20.0
"""The maximum duration of a reading; a poll of a large cluster may take three times as long."""
MAX_KEPT = 64  # readings
AT_ONCE = 4  # readings, besides the poll
MAX_VIEWERS = 32
"""Viewers whose page is kept up to date. Each one holds a thread."""
WAIT_SECONDS = 15.0  # until a viewer is notified that nothing is new, to see whether it is still connected
RECOVERED_SECONDS = 60.0  # for which the end of an outage is shown


class TooSlow(Exception):
    """A reading took too long."""


class _Entry:
    def __init__(self) -> None:
        self.lock = trio.Lock()
        self.at: float | None = None
        self.value: Any = None
        self.error: Exception | None = None


class Readings:
    """The latest readings by key. Concurrent requests wait for the same reading, and share its errors."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._limit = trio.CapacityLimiter(AT_ONCE)

    async def get(
        self, key: Hashable, read: Callable[[], Awaitable[T]], *, seconds: float | None = None
    ) -> T:
        """Return a reading that is at most `seconds` old. Raise ClientError, or TooSlow."""
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        while len(self._entries) > MAX_KEPT:
            self._entries.popitem(last=False)
        longest = self._seconds if seconds is None else seconds
        async with entry.lock:
            if entry.at is None or trio.current_time() - entry.at >= longest:
                async with self._limit:
                    await self._read(entry, read)
                entry.at = trio.current_time()
        if entry.error is not None:
            raise entry.error
        found: T = entry.value
        return found

    async def _read(self, entry: _Entry, read: Callable[[], Awaitable[Any]]) -> None:
        entry.value = entry.error = None
        try:
            with trio.fail_after(READ_SECONDS):
                entry.value = await read()
        except trio.TooSlowError:
            entry.error = TooSlow(f"the cluster took longer than {READ_SECONDS:.0f} s to answer")
        except Exception as error:
            entry.error = error


class Outage(NamedTuple):
    """The time (epoch ms) since which the cluster cannot be read, and the reason."""

    since_ms: int
    why: str


class Live:
    """The load of the whole cluster, polled while there are viewers. `number` counts the polls."""

    def __init__(self, admin: Admin, interval: float) -> None:
        self._admin = admin
        self.interval = interval
        self.boards = {what: Board() for what in KINDS}
        self.letters: Sequence[DeadLetters] = ()
        self.number = 0
        self.read_ms: int | None = None  # of the last successful poll
        self.outage: Outage | None = None
        self.recovered_ms: int | None = None
        self._viewers = 0
        self._is_closed = False
        self._polling = trio.Lock()
        self._began: float | None = None
        self._changed, self._wanted = trio.Event(), trio.Event()

    @property
    def is_recovered(self) -> bool:
        """True for a minute after an outage, as of the last poll, because requests are handled in threads,
        without a clock.
        """
        at, recovered = self.read_ms, self.recovered_ms
        return at is not None and recovered is not None and at - recovered < RECOVERED_SECONDS * 1000

    async def run(self) -> None:
        """Poll as long as there are viewers, for at most half of the time."""
        while True:
            await self._wanted.wait()
            began = trio.current_time()
            await self.poll()
            took = trio.current_time() - began
            await trio.sleep_until(began + max(self.interval, 2 * took))

    async def poll(self) -> None:
        """Poll unless the last poll is more recent than the interval. While a poll runs, the figures of the
        last one are used.
        """
        if self._polling.locked() and self.number:
            return
        async with self._polling:
            now = trio.current_time()
            if self._began is None or now - self._began >= self.interval:
                self._began = now
                await self._poll()

    async def _poll(self) -> None:
        why = None
        try:
            with trio.fail_after(3 * READ_SECONDS):
                readings, errors = await gather(KINDS, lambda what: KINDS[what](self._admin))
                letters = [] if errors else await self._letters()
        except trio.TooSlowError:
            why = f"the cluster took longer than {3 * READ_SECONDS:.0f} s to answer"
        except ClientError as error:
            why = str(error)
        else:
            why = str(next(iter(errors.values()))) if errors else None
            for what, reading in readings.items():
                self.boards[what].update(reading, trio.current_time())
            if not errors:
                self.letters = letters
        self._note(why)

    async def _letters(self) -> list[DeadLetters]:
        names = [name for name in await self._admin.topics.names() if name.startswith(DLQ_PREFIX)]
        found = await read_topics(self._admin, names, {}, with_rates=False)
        letters = (
            DeadLetters(one.name.removeprefix(DLQ_PREFIX), one.messages, one.last_stored) for one in found
        )
        return [one for one in letters if one.messages]

    def _note(self, why: str | None) -> None:
        now_ms = self._admin.instance.now_ms()
        if why is None:
            self.recovered_ms = now_ms if self.outage is not None else self.recovered_ms
            self.outage, self.read_ms = None, now_ms
        else:
            self.outage = Outage(now_ms if self.outage is None else self.outage.since_ms, why)
        self.number += 1
        self._changed.set()
        self._changed = trio.Event()

    async def join(self) -> bool:
        """Count a viewer; return False if there are too many."""
        if self._viewers >= MAX_VIEWERS or self._is_closed:
            return False
        self._viewers += 1
        self._wanted.set()
        return True

    def leave(self) -> None:
        self._viewers -= 1
        if not self._viewers:
            self._wanted = trio.Event()

    async def after(self, number: int) -> int | None:
        """Wait for a poll after `number`, and return the number of the last one, which is unchanged after
        WAIT_SECONDS. None: the console ends.
        """
        if number == self.number and not self._is_closed:
            with trio.move_on_after(WAIT_SECONDS), suppress(trio.BrokenResourceError):
                await self._changed.wait()
        return None if self._is_closed else self.number

    def close(self) -> None:
        """Release all viewers."""
        self._is_closed = True
        self._changed.set()
