"""The tables of a slave follow those of its master (Java class `SlaveSynchronize`).

Topics and groups are replaced when their version differs. Committed offsets are merged: the master's win,
and what only the slave has stays unless its group was deleted (departures.py). Nothing is copied while no
master answers. Beyond Java's slave, they are copied at once when the log of a master is followed from now
on, and when a record of an unknown topic came: what a master acknowledged can then be read should it die.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from broker.errors import BrokerError
from broker.ha.peer import Departures, MasterPeer, Tables
from broker.services.table_files import TableFiles
from broker.tables import DelayOffsets, GroupTable, OffsetTable, TopicTable
from codec.core.run import QueueRun
from codec.errors import CodecError

FIRST_SECONDS = 3.0
PERIOD_SECONDS = 10.0
SHORTEST_SECONDS = 1.0
"""The time between two copies, whoever wants them."""
MOST_UNKNOWN = 1024
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TableCopies:
    """Copies of the tables of the master that `master` returns, None while none is known. With
    `departures` what the master deleted is deleted.

    `copied` is the time (trio's) when they were last equal, None before.
    """

    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    delays: DelayOffsets
    files: TableFiles
    master: Callable[[], MasterPeer | None]
    departures: Departures | None = None
    trouble: str = ""
    copied: float | None = None
    _wanted: trio.Event = field(default_factory=trio.Event)
    _unknown: set[str] = field(default_factory=set)
    """Topics for which the tables were copied since the last regular time."""

    async def run(self, first: float = FIRST_SECONDS) -> None:
        """Copy every 10 s, and when it is wanted; a failure is logged once, until it works again."""
        pause = first
        while True:
            with trio.move_on_after(pause) as waiting:
                await self._wanted.wait()
            if waiting.cancelled_caught:
                self._unknown.clear()
            self._wanted = trio.Event()
            await self.copy()
            await trio.sleep(SHORTEST_SECONDS)
            pause = PERIOD_SECONDS - SHORTEST_SECONDS

    def want(self) -> None:
        """Have the tables copied soon."""
        self._wanted.set()

    def arrived(self, stored: QueueRun) -> None:
        """Have the tables copied soon if the topic of records is new here."""
        topic = stored.topic
        if topic not in self.topics and topic not in self._unknown and len(self._unknown) < MOST_UNKNOWN:
            self._unknown.add(topic)
            self.want()

    async def copy(self) -> bool:
        """Copy once; False, and nothing is changed, if the master does not answer."""
        master = self.master()
        if master is None:
            return False
        try:
            end = None if self.departures is None else self.departures.begin()
            tables = await master.tables()
            self._take(tables)
            if self.departures is not None:
                await self.departures.follow(master, tables, end)
        except (BrokerError, CodecError) as error:
            if str(error) != self.trouble:
                _log.warning("topics, groups and offsets are not copied: %s", error)
            self.trouble = str(error)
            return False
        self.trouble = ""
        self.copied = trio.current_time()
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
