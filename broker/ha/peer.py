"""The requests of a slave to its master (Java class `SlaveSynchronize`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from rmqcli.broker.errors import BrokerError
from rmqcli.broker.net.handling import command_of
from rmqcli.broker.net.peers import Peers
from rmqcli.codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.offsets import GetMaxOffsetRequestHeader
from rmqcli.codec.headers.pull import ViewMessageRequestHeader
from rmqcli.codec.operations.brokers import (
    GET_BROKER_CONFIG,
    GET_BROKER_RUNTIME_INFO,
    GET_TIMER_CHECK_POINT,
)
from rmqcli.codec.operations.groups import GET_ALL_SUBSCRIPTIONGROUP_CONFIG
from rmqcli.codec.operations.messages import VIEW_MESSAGE_BY_ID
from rmqcli.codec.operations.offsets import GET_ALL_CONSUMER_OFFSET, GET_ALL_DELAY_OFFSET, GET_MAX_OFFSET
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.operations.topics import GET_ALL_TOPIC_CONFIG
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.store.timer_files import TimerCheckPoint, decode_check_point

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

    async def timers(self) -> TimerCheckPoint | None:
        """Return what the master has delivered of its timer messages; None if it does not know such messages."""
        reply = await self._request(GET_TIMER_CHECK_POINT, None)
        if reply.code != ResponseCode.SUCCESS:
            return None
        return decode_check_point(GET_TIMER_CHECK_POINT.decode_reply(reply).body)

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
