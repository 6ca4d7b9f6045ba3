"""Deletion on a slave of the topics and groups that its master has deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rmqcli.broker.ha.peer import MasterPeer, Tables
from rmqcli.broker.store import MessageStore
from rmqcli.broker.tables import OffsetTable

MOST_AT_ONCE: Final = 100
"""Maximum number of topics that are deleted after one copy; the others wait for the next."""
_log = logging.getLogger(__name__)

# What is followed: consume queues of topics, offsets of topics and groups.
#
# The tables of configs are replaced as a whole, so nothing there needs this. A Java slave keeps its queues,
# and merges offsets. Here they go, but never anything that the master may still have:
#
# * The log of the slave must be that of this master, followed without trouble, before and after.
# * The tables must be whole: every master has topics and groups of its own, so an empty one says nothing.
# * A name must be missing twice in a row; the master must say that each queue of a topic is empty.
# * No record of the topic may have come since the tables were read: it would be of a new one of that name.


@dataclass(slots=True)
class Deletions:
    """Deletes on a slave the topics and groups that its master has deleted, while `follows` returns True:
    while the log of the master is followed."""

    store: MessageStore
    offsets: OffsetTable
    follows: Callable[[], bool]
    _topics: set[str] = field(default_factory=set)
    _groups: set[str] = field(default_factory=set)
    """Names that were missing in the last copy."""

    def begin(self) -> int | None:
        """Return the end of the log, before tables are read; None while the log of the master is not
        followed."""
        return self.store.commit_log_max_offset if self.follows() else None

    async def follow(self, master: MasterPeer, tables: Tables, end: int | None) -> None:
        """Delete the topics and groups that are no longer in `tables`; `end` is the result of `begin` before
        they were read.

        Raises BrokerError or CodecError if the master does not reply, and OSError. Earlier deletions are
        kept.
        """
        topics = set(tables.topics.topic_config_table)
        groups = set(tables.groups.subscription_group_table)
        if end is None or not (topics and groups and self.follows()):
            self._topics, self._groups = set(), set()
            return
        # Only names that are missing from two copies in a row are deleted.
        before = self._topics, self._groups
        self._topics = self.store.queued_topics() - topics
        known = {key.partition("@")[2] for key in tables.offsets.offset_table}
        self._groups = self.offsets.groups() - groups - known
        for group in sorted(self._groups & before[1]):
            self.offsets.remove_group(group)
            _log.info("the offsets of the group %s went with it, as at the master", group)
        for topic in sorted(self._topics & before[0])[:MOST_AT_ONCE]:
            if await self._is_empty(master, topic) and self.follows():
                await self._delete(topic, end)

    async def _is_empty(self, master: MasterPeer, topic: str) -> bool:
        for queue_id in self.store.queue_ids(topic):
            if await master.max_offset(topic, queue_id):
                return False
        return True

    async def _delete(self, topic: str, end: int) -> None:
        if await self.store.retention.delete_topic(topic, end):
            self.offsets.remove_topic(topic)
            _log.info("the queues of the topic %s went with it, as at the master", topic)
