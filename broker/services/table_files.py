"""The tables on disk: `config/*.json` in the store folder, in the text that Java reads and writes (store.md §7).

Topics and groups are written on each change before anything that depends on them is acknowledged; those that a client's
next heartbeat would make again may wait for the end of the turn. Offsets are written every flushConsumerOffsetInterval,
delivered delay levels every flushDelayOffsetInterval, SQL92 filters every 10 s, all only when they changed and at the end.
Offsets and delay levels say that messages were dealt with, often by writing others (a retry, a copy): they are written when all
of that is on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import trio

from broker.filters import FilterTable
from broker.store.flush import InThread
from broker.store.tables_file import load_table, save_table
from broker.supervisor import Services
from broker.tables import DelayOffsets, GroupTable, OffsetTable, TopicTable
from codec.bodies.base import decode_body, encode_body
from codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from codec.bodies.filters import ConsumerFilterManager
from codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from codec.fastjson import FASTJSON

__all__ = ["TableFiles", "table_text"]

TableT = TypeVar("TableT", bound=msgspec.Struct)

SHORTEST_PERIOD_MS = 100
FILTERS_MS = 10_000

_log = logging.getLogger(__name__)


def table_text(table: msgspec.Struct) -> bytes:
    """A table as Java's ConfigManager writes it."""
    return encode_body(table, dialect=FASTJSON, pretty=True)


Durable = Callable[[], Awaitable[bool]]
"""Puts the log on the disk; False when it cannot."""


class _Due(NamedTuple):
    table: OffsetTable | DelayOffsets | FilterTable
    path: Path
    text: bytes


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
        in_thread: InThread = trio.to_thread.run_sync,
    ) -> None:
        self._in_thread = in_thread
        self._folder = root / "config"
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._delays = delays
        self._filters = filters
        self._late: dict[str, Callable[[], None]] = {}
        self._wake = trio.Event()
        self._writing = trio.Lock()

    def load(self) -> None:
        """Takes over what is saved. StoreDamaged when a table and its .bak are there but cannot be read."""
        self._load("topics.json", TopicConfigSerializeWrapper, self._topics)
        self._load("subscriptionGroup.json", SubscriptionGroupWrapper, self._groups)
        self._load("consumerOffset.json", ConsumerOffsetSerializeWrapper, self._offsets)
        self._load("delayOffset.json", DelayOffsetSerializeWrapper, self._delays)
        self._load("consumerFilter.json", ConsumerFilterManager, self._filters)

    def save_topics(self) -> None:
        """Writes topics.json now. OSError if the disk refuses."""
        self._late.pop("topics", None)
        save_table(self._folder / "topics.json", table_text(self._topics.wrapper()))

    def save_groups(self) -> None:
        """Writes subscriptionGroup.json now. OSError if the disk refuses."""
        self._late.pop("groups", None)
        save_table(self._folder / "subscriptionGroup.json", table_text(self._groups.wrapper()))

    def save_offsets(self) -> None:
        """Writes consumerOffset.json if an offset changed since the last time."""
        self._write(self._offsets_due())

    def save_delays(self) -> None:
        """Writes delayOffset.json if a message was delivered since the last time."""
        self._write(self._delays_due())

    def save_filters(self) -> None:
        """Writes consumerFilter.json if a filter came, went or died since the last time."""
        self._write(self._filters_due())

    def topics_later(self) -> None:
        """Writes topics.json at the end of this turn, once for all changes of the turn."""
        self._late["topics"] = self.save_topics
        self._wake.set()

    def groups_later(self) -> None:
        """Writes subscriptionGroup.json at the end of this turn, once for all changes of the turn."""
        self._late["groups"] = self.save_groups
        self._wake.set()

    def save_all(self) -> None:
        """What has not been written yet; at the end."""
        self._save_late()
        self.save_offsets()
        self.save_delays()
        self.save_filters()

    def start(self, services: Services, durable: Durable, *, offsets_ms: int, delays_ms: int) -> None:
        """Starts the services that save."""
        services.start("save offsets", partial(self._every, offsets_ms, self._offsets_due, durable))
        services.start("save delay offsets", partial(self._every, delays_ms, self._delays_due, durable))
        services.start("save filters", partial(self._every, FILTERS_MS, self._filters_due))
        services.start("save topics and groups", self._run_late)

    async def offsets_now(self) -> None:
        """Writes consumerOffset.json without waiting for its time."""
        await self._save(self._offsets_due, None)

    async def _run_late(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            self._save_late()

    async def _every(
        self, period_ms: int, due: Callable[[], _Due | None], durable: Durable | None = None
    ) -> None:
        while True:
            await trio.sleep(max(period_ms, SHORTEST_PERIOD_MS) / 1000)
            await self._save(due, durable)

    async def _save(self, due: Callable[[], _Due | None], durable: Durable | None) -> None:
        """Writes what is due now, if anything is, behind what the log holds by then."""
        async with self._writing:
            work = due()
            if work is None:
                return
            written = False
            try:
                if durable is None or await durable():
                    await self._in_thread(self._write, work)
                    written = True
            finally:
                work.table.dirty |= not written

    def _offsets_due(self) -> _Due | None:
        return self._due(self._offsets, "consumerOffset.json")

    def _delays_due(self) -> _Due | None:
        return self._due(self._delays, "delayOffset.json")

    def _filters_due(self) -> _Due | None:
        self._filters.clean()
        return self._due(self._filters, "consumerFilter.json")

    def _due(self, table: OffsetTable | DelayOffsets | FilterTable, name: str) -> _Due | None:
        if not table.dirty:
            return None
        table.dirty = False
        return _Due(table, self._folder / name, table_text(table.wrapper()))

    def _save_late(self) -> None:
        for save in list(self._late.values()):
            try:
                save()
            except OSError as error:
                _log.error("cannot save in %s: %s", self._folder, error)

    @staticmethod
    def _write(due: _Due | None) -> None:
        if due is None:
            return
        try:
            save_table(due.path, due.text)
        except OSError as error:
            due.table.dirty = True
            _log.error("cannot save %s: %s", due.path, error)

    def _load(self, name: str, body: type[TableT], table: Any) -> None:
        loaded = load_table(self._folder / name, lambda data: decode_body(body, data))
        if loaded is not None:
            table.load(loaded)
