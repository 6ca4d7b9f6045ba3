"""Copying of a master's tables to a slave, every 10 s (Java class `SlaveSynchronize`).

Topics and groups are replaced if their version differs. Committed offsets are merged: the master's take
precedence, and offsets that only the slave has are kept unless their group was deleted (`Deletions`). Nothing
is copied while no master replies. Beyond Java's slave, tables are also copied when a connection to a master
is opened, and when a record of an unknown topic arrives: messages that a master acknowledged can then be read
if it dies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from rmqcli.broker.errors import BrokerError
from rmqcli.broker.ha.deletions import Deletions
from rmqcli.broker.ha.peer import MasterPeer, Tables
from rmqcli.broker.services.table_files import TableFiles
from rmqcli.broker.services.timers import Timers
from rmqcli.broker.tables import DelayOffsets, GroupTable, OffsetTable, TopicTable
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.errors import CodecError

FIRST_SECONDS = 3.0
PERIOD_SECONDS = 10.0
SHORTEST_SECONDS = 1.0
"""Minimum time between two copies, whatever requests them."""
MOST_UNKNOWN = 1024
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TableCopies:
    """Copies the tables of a master. `master` returns it, None while none is known. `deletions` deletes the
    topics and groups that the master has deleted.
    """

    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    delays: DelayOffsets
    files: TableFiles
    master: Callable[[], MasterPeer | None]
    deletions: Deletions | None = None
    timers: Timers | None = None
    trouble: str = ""
    _wanted: trio.Event = field(default_factory=trio.Event)
    _unknown: set[str] = field(default_factory=set)
    """Unknown topics for which a copy was requested since the last regular one."""

    async def run(self, first: float = FIRST_SECONDS) -> None:
        """Copy every 10 s, and on request. A failure is logged once until a copy succeeds again."""
        pause = first
        while True:
            with trio.move_on_after(pause) as waiting:
                await self._wanted.wait()
            if waiting.cancelled_caught:
                self._unknown.clear()
            # Replaced before the copy, which may miss what is wanted during it.
            self._wanted = trio.Event()
            await self.copy()
            await trio.sleep(SHORTEST_SECONDS)
            pause = PERIOD_SECONDS - SHORTEST_SECONDS

    def want(self) -> None:
        """Request a copy of the tables."""
        self._wanted.set()

    def arrived(self, stored: QueueRun) -> None:
        """Request a copy of the tables if the topic of the records is unknown here."""
        topic = stored.topic
        if topic not in self.topics and topic not in self._unknown and len(self._unknown) < MOST_UNKNOWN:
            self._unknown.add(topic)
            self.want()

    async def copy(self) -> bool:
        """Copy once. Return False, and change nothing, if the master does not reply."""
        master = self.master()
        if master is None:
            return False
        try:
            # Before the tables are read: a record that comes later may be of a new topic of that name.
            end = None if self.deletions is None else self.deletions.begin()
            tables = await master.tables()
            self._take(tables)
            known = None if self.timers is None else await master.timers()
            if known is not None and self.timers is not None:
                await self.timers.adopt(known)
            if self.deletions is not None:
                await self.deletions.follow(master, tables, end)
        except (BrokerError, CodecError) as error:
            if str(error) != self.trouble:
                _log.warning("topics, groups and offsets are not copied: %s", error)
            self.trouble = str(error)
            return False
        self.trouble = ""
        return True

    def _take(self, tables: Tables) -> None:
        topics, groups = tables.topics, tables.groups
        if self.topics.replace_all(topics.topic_config_table, topics.data_version):
            self.files.topics_changed()
        if self.groups.replace_all(groups.subscription_group_table, groups.data_version):
            self.files.groups_changed()
        for key, queues in tables.offsets.offset_table.items():
            topic, _, group = key.partition("@")
            for queue_id, offset in queues.items():
                self.offsets.commit(group, topic, queue_id, offset)
        for level, offset in tables.delays.offset_table.items():
            self.delays.set(level, offset)
