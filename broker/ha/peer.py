"""The requests of a slave to its master, and the deletions that follow from them (Java class
`SlaveSynchronize`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from rmqcli.broker.errors import BrokerError
from rmqcli.broker.net.handling import command_of
from rmqcli.broker.net.peers import Peers
from rmqcli.broker.store import MessageStore
from rmqcli.broker.tables import OffsetTable
from rmqcli.codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.offsets import GetMaxOffsetRequestHeader
from rmqcli.codec.headers.pull import ViewMessageRequestHeader
from rmqcli.codec.operations.brokers import GET_BROKER_CONFIG, GET_BROKER_RUNTIME_INFO
from rmqcli.codec.operations.groups import GET_ALL_SUBSCRIPTIONGROUP_CONFIG
from rmqcli.codec.operations.messages import VIEW_MESSAGE_BY_ID
from rmqcli.codec.operations.offsets import GET_ALL_CONSUMER_OFFSET, GET_ALL_DELAY_OFFSET, GET_MAX_OFFSET
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.operations.topics import GET_ALL_TOPIC_CONFIG
from rmqcli.codec.remoting.command import RemotingCommand

TIMEOUT_SECONDS = 3.0
REFUSED = "org.apache.rocketmq.acl"
"""Prefix of the remark of a refusal by access control of 4.9."""
ReplyT = TypeVar("ReplyT")
RequestT = TypeVar("RequestT")
BodyT = TypeVar("BodyT")


class LogRange(NamedTuple):
    """The offsets at which a commit log begins and ends."""

    start: int
    end: int


class Tables(NamedTuple):
    """The tables that a slave copies from its master, in addition to the commit log."""

    topics: TopicConfigSerializeWrapper
    offsets: ConsumerOffsetSerializeWrapper
    delays: DelayOffsetSerializeWrapper
    groups: SubscriptionGroupWrapper


class MasterPeer:
    """A master at `address` ("host:port").

    Every method raises BrokerError, or CodecError for a reply that cannot be decoded.
    """

    def __init__(self, peers: Peers, address: str) -> None:
        self.address = address
        self._peers = peers

    async def tables(self) -> Tables:
        """Return all tables, in Java's order."""
        return Tables(
            await self._ask(GET_ALL_TOPIC_CONFIG, None),
            await self._ask(GET_ALL_CONSUMER_OFFSET, None),
            await self._ask(GET_ALL_DELAY_OFFSET, None),
            await self._ask(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None),
        )

    async def log_range(self) -> LogRange:
        """Return the current begin and end of the commit log."""
        table = (await self._ask(GET_BROKER_RUNTIME_INFO, None)).table
        try:
            # An empty log of Java begins at -1.
            return LogRange(
                max(int(table["commitLogMinOffset"]), 0), max(int(table["commitLogMaxOffset"]), 0)
            )
        except (KeyError, ValueError):
            raise BrokerError(f"{self.address} does not say where its commit log begins and ends") from None

    async def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the end of a queue; 0 if it does not exist."""
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        reply = await self._request(GET_MAX_OFFSET, header)
        return GET_MAX_OFFSET.decode_reply(self._accepted(GET_MAX_OFFSET.name, reply)).header.offset

    async def properties(self) -> Mapping[str, str]:
        """Return the configuration."""
        return await self._ask(GET_BROKER_CONFIG, None)

    async def record(self, offset: int) -> bytes | None:
        """Return the record that begins at a commit-log offset; None if none does.

        A refusal by access control, which demands an administrator, does not mean that there is none, and
        raises.
        """
        header = ViewMessageRequestHeader(offset=offset)
        reply = await self._request(VIEW_MESSAGE_BY_ID, header)
        if reply.code == ResponseCode.NO_PERMISSION or (reply.remark or "").startswith(REFUSED):
            self._accepted(VIEW_MESSAGE_BY_ID.name, reply)
        return bytes(reply.body) if reply.code == ResponseCode.SUCCESS else None

    async def _ask(self, operation: Operation[RequestT, ReplyT, None, BodyT], header: RequestT) -> BodyT:
        reply = await self._request(operation, header)
        return operation.decode_reply(self._accepted(operation.name, reply)).body

    def _accepted(self, name: str, reply: RemotingCommand) -> RemotingCommand:
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerError(f"{self.address} refused {name} with {reply.code}: {reply.remark}")
        return reply

    async def _request(
        self, operation: Operation[RequestT, ReplyT, None, BodyT], header: RequestT
    ) -> RemotingCommand:
        return await self._peers.request(self.address, command_of(operation, header, None), TIMEOUT_SECONDS)


# Deletions of a master that its slave follows: consume queues of topics, offsets of topics and groups.
#
# The tables of configs are replaced as a whole, so nothing there needs this. A Java slave keeps its queues, and
# merges offsets. Here they go, but never anything that the master may still have:
#
# * The log of the slave must be that of this master, followed without trouble, before and after.
# * The tables must be whole: every master has topics and groups of its own, so an empty one says nothing.
# * A name must be missing twice in a row; the master must say that each queue of a topic is empty.
# * No record of the topic may have come since the tables were read: it would be of a new one of that name.

MOST_AT_ONCE: Final = 100
"""Maximum number of topics that are deleted after one copy; the others wait for the next."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Departures:
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

        Raises BrokerError or CodecError if the master does not answer, and OSError. Deletions made before
        that stay.
        """
        topics = set(tables.topics.topic_config_table)
        groups = set(tables.groups.subscription_group_table)
        if end is None or not (topics and groups and self.follows()):
            self._topics, self._groups = set(), set()
            return
        # Only names that two copies in a row lack are deleted.
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
