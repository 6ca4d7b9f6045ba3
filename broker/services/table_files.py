"""The tables on disk: `config/*.json` in the store folder, in the text that Java reads and writes (store.md
§7).

Topics and groups are saved on each change, before a request that depends on them is acknowledged; those that
a client's next heartbeat would create again may be saved a little later. Offsets are saved every
flushConsumerOffsetInterval, delay offsets every flushDelayOffsetInterval, SQL92 filters every 10 s, all only
after a change, and at the stop. The intervals are between the starts of two saves: an offset committed just
after a save started is on the disk when the next one has ended, which is an interval and one save later, or
two saves later if they take longer than the interval. Offsets and delay offsets state that messages were
processed, often by writing others (a retry, a copy): before they are saved, the log is flushed.

Text is formatted in turns of the event loop, because a thread would hold the interpreter lock; a worker
thread writes it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
import trio

from rmqcli.broker.config import read_properties, write_properties
from rmqcli.broker.disk import REAL, Disk, load_table, save_table
from rmqcli.broker.filters import FilterTable
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.supervisor import Services
from rmqcli.broker.tables import DelayOffsets, GroupTable, OffsetTable, RequestModes, TopicTable
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.filters import ConsumerFilterManager
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.bodies.pop import MessageRequestModeSerializeWrapper
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.fastjson import FASTJSON, dumps_in_steps

SHORTEST_PERIOD_MS = 100
SLOW_SAVE_SECONDS = 1.0
"""Minimum duration of a save that is logged: a kill loses that much more."""
SLOW_AGAIN_SECONDS = 60.0
"""Minimum time between two such log lines about one table."""
FILTERS_MS = 10_000

Durable = Callable[[], Awaitable[bool]]
"""Flushes the log; returns False if the disk refuses."""

_log = logging.getLogger(__name__)


def table_text(table: msgspec.Struct) -> bytes:
    """Return a table in the format of Java's ConfigManager."""
    return encode_body(table, dialect=FASTJSON, pretty=True)


class _Table(Protocol):
    """A table that can be saved. `dirty` is True if it differs from its file."""

    dirty: bool

    def wrapper(self) -> msgspec.Struct: ...

    def load(self, wrapper: Any) -> None: ...


class _TableFile:
    """One table and its file."""

    def __init__(
        self,
        disk: Disk,
        in_thread: InThread,
        turns: Turns,
        path: Path,
        table: _Table,
        body: type[msgspec.Struct],
        is_derived: bool,
    ) -> None:
        self.path = path
        self._is_derived = is_derived
        self.table = table
        self._disk = disk
        self._in_thread = in_thread
        self._turns = turns
        self._body = body
        self._writing = trio.Lock()
        self.durable: Durable | None = None
        """Called before each save; if it returns False, the table is not saved."""

    def load(self, needed: str) -> bool:
        """Load the file. Return False if there is none. Raises StoreDamaged. Blocks."""
        decode = partial(decode_table, self._body)
        loaded = load_table(self._disk, self.path, decode, needed=needed, derived=self._is_derived)
        if loaded is None:
            return False
        self.table.load(loaded)
        return True

    async def save(self) -> bool:
        """Save changes, unless `durable` returns False: then return False, too. Raises OSError."""
        async with self._writing:
            if not self.table.dirty:
                return True
            # Cleared before the text is formatted: changes from now on need another save.
            saved = self.table.dirty = False
            try:
                steps = dumps_in_steps(self.table.wrapper(), dialect=FASTJSON, pretty=True)
                text = await self._turns.run(steps)
                if self.durable is None or await self.durable():
                    await self._in_thread(self._write, text)
                    saved = True
            finally:
                self.table.dirty |= not saved
            return saved

    def _write(self, text: bytes) -> None:
        save_table(self._disk, self.path, text)


class TableFiles:
    """Loads and saves the tables of one broker; `root` is the store folder."""

    def __init__(
        self,
        root: Path,
        *,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        delays: DelayOffsets,
        filters: FilterTable,
        request_modes: RequestModes | None = None,
        in_thread: InThread = trio.to_thread.run_sync,
        disk: Disk = REAL,
        turns: Turns | None = None,
    ) -> None:
        def file(
            name: str, table: _Table, body: type[msgspec.Struct], is_derived: bool = False
        ) -> _TableFile:
            path = root / "config" / name
            return _TableFile(disk, in_thread, turns or Turns(), path, table, body, is_derived)

        self._topics = file("topics.json", topics, TopicConfigSerializeWrapper)
        self._groups = file("subscriptionGroup.json", groups, SubscriptionGroupWrapper)
        self._offsets = file("consumerOffset.json", offsets, ConsumerOffsetSerializeWrapper)
        self._delays = file("delayOffset.json", delays, DelayOffsetSerializeWrapper)
        # Derived data: the next heartbeat of a group restores its filter.
        self._filters = file("consumerFilter.json", filters, ConsumerFilterManager, is_derived=True)
        self._modes = file(
            "messageRequestMode.json", request_modes or RequestModes(), MessageRequestModeSerializeWrapper
        )
        self._all = self._topics, self._groups, self._offsets, self._delays, self._filters, self._modes
        self._filter_table = filters
        self._disk = disk
        self._in_thread = in_thread
        self._wake = trio.Event()
        self._updating = trio.Lock()

    def load(self, *, has_messages: bool) -> None:
        """Load the saved tables. Raises StoreDamaged if a table and its .bak exist but cannot be read.
        Blocks.

        An empty table also counts as damage if the log `has_messages`: without topics, nobody can read them,
        and without offsets, groups start over.
        """
        needed = "beside a log with messages" if has_messages else ""
        loaded = [file for file in self._all if file.load(needed)]
        if has_messages and self._topics not in loaded:
            text = (
                "%s does not exist: nobody can read the messages of its topics until they are created again"
            )
            _log.error(text, self._topics.path)

    def topics_changed(self) -> None:
        """Save topics.json soon, once for several changes."""
        self._topics.table.dirty = True
        self._wake.set()

    def groups_changed(self) -> None:
        """Save subscriptionGroup.json soon, once for several changes."""
        self._groups.table.dirty = True
        self._wake.set()

    async def save_changed(self) -> None:
        """Save the current topics, groups and their modes. Raises OSError if the disk refuses."""
        await self._topics.save()
        await self._groups.save()
        await self._modes.save()

    async def save_offsets(self) -> bool:
        """Save consumerOffset.json now, not only at the next interval. Return False if the log cannot be flushed
        before it. Raises OSError."""
        return await self._offsets.save()

    async def save_all(self) -> None:
        """Save all unsaved tables, for a stop."""
        self._filter_table.clean()
        for file in self._all:
            await self._try(file)

    async def update_properties(self, path: Path, changed: Mapping[str, str]) -> None:
        """Change entries of a properties file, after earlier changes. Raises OSError or ConfigError."""

        def update() -> None:
            known = read_properties(path, self._disk) if self._disk.state(path) is not None else {}
            write_properties(path, {**known, **changed}, self._disk)

        async with self._updating:
            await self._in_thread(update)

    def start(self, services: Services, durable: Durable, *, offsets_ms: int, delays_ms: int) -> None:
        """Start the services that save tables; offsets and delay offsets are saved after `durable` has
        flushed the log."""
        self._offsets.durable = self._delays.durable = durable
        services.start("save offsets", partial(self._every, offsets_ms, self._offsets))
        services.start("save delay offsets", partial(self._every, delays_ms, self._delays))
        services.start("save filters", partial(self._every, FILTERS_MS, self._filters))
        services.start("save topics and groups", self._save_changed)

    async def _save_changed(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            await self._try(self._topics)
            await self._try(self._groups)

    async def _every(self, period_ms: int, file: _TableFile) -> None:
        period, ended, told = max(period_ms, SHORTEST_PERIOD_MS) / 1000, trio.current_time(), -math.inf
        begun = ended
        while True:
            # The pause after a slow save leaves the disk to others.
            await trio.sleep_until(max(begun + period, ended + SHORTEST_PERIOD_MS / 1000))
            if file is self._filters:
                self._filter_table.clean()
            begun = trio.current_time()
            await self._try(file)
            ended = trio.current_time()
            if ended - begun > SLOW_SAVE_SECONDS and ended - told >= SLOW_AGAIN_SECONDS:
                told = ended
                _log.warning("%s: the disk took %.1f s to save it", file.path, ended - begun)

    async def _try(self, file: _TableFile) -> None:
        """Save a table. If the disk refuses, log that; the next save tries again."""
        try:
            await file.save()
        except OSError as error:
            _log.error("cannot save %s: %s", file.path, error)
