"""Messages by key or id (Java `MQAdminImpl`).

The index contains hashes, so messages from a broker are compared with the topic and key here. Hash collisions
have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from rmqcli.client.admin.admin import Admin
from rmqcli.client.admin.area import Area, gather
from rmqcli.client.admin.values import QueryResult
from rmqcli.client.errors import BrokerRefused, ClientError, InvalidRequest, NotFound
from rmqcli.client.wire.messages import Reading, read_messages
from rmqcli.codec.bodies.heartbeat import ConsumeType, MessageModel
from rmqcli.codec.bodies.running import ConsumerConnection
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.headers.pull import QueryMessageRequestHeader, ViewMessageRequestHeader
from rmqcli.codec.ids import MAX_PORT, join_address, parse_offset_msg_id, time_of_uniq_id
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.messages import QUERY_MESSAGE, VIEW_MESSAGE_BY_ID

MAX_LONG = 2**63 - 1
BROKER_MAX = 64  # messages a broker returns for a key (maxMsgsNumBatch)
UNIQ_MAX = 32  # messages a broker returns for a unique key
UNIQ_SLACK = 1000  # ms before the time of the id from which the index is searched
_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


class MessageAdmin(Area):
    async def query_by_key(
        self, topic: str, key: str, *, max_num: int = 64, begin: int = 0, end: int | None = None
    ) -> QueryResult:
        """Return messages with `key` among their keys, oldest first.

        They were stored between `begin` and `end` (epoch ms), and are the newest `max_num` of all brokers.
        Each broker returns at most BROKER_MAX, by its configuration.
        """
        header = QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=max_num,
            begin_timestamp=begin,
            end_timestamp=MAX_LONG if end is None else end,
        )
        found = await self._query(header, lambda m: m.topic == topic and key in m.keys, unique=False)
        cut = len(found.messages) > max_num
        return found._replace(messages=found.messages[-max_num:], may_be_more=cut or found.may_be_more)

    async def query_by_uniq_key(self, topic: str, uniq_key: str) -> QueryResult:
        """Return the messages with this UNIQ_KEY, oldest first; more than one after a retried send."""
        try:
            begin = max(0, time_of_uniq_id(uniq_key, self.instance.now_ms()) - UNIQ_SLACK)
        except CodecError:
            begin = 0
        found = await self._query_uniq(topic, uniq_key, begin)
        if found.messages or found.failures or not begin:
            return found
        # The id of a client in another time zone, or with another layout, contains no usable time.
        return await self._query_uniq(topic, uniq_key, 0)

    async def query_by_id(self, topic: str, msg_id: str) -> QueryResult:
        """Return the message with this id, a UNIQ_KEY or an offset message id.

        For an inner batch, return all its messages, which share the offset message id.
        """
        address = offset_id_address(msg_id)
        known = {
            value for table in (await self.instance.route(topic)).brokers.values() for value in table.values()
        }
        if address in known:
            try:
                return QueryResult(await self.view_all(msg_id), {})
            except NotFound:
                return await self.query_by_uniq_key(topic, msg_id)
        found = await self.query_by_uniq_key(topic, msg_id)
        if found.messages or address is None:
            return found
        try:
            return QueryResult(await self.view_all(msg_id), found.failures)
        except NotFound:
            return found

    async def query_everywhere(self, uniq_key: str) -> QueryResult:
        """Return the messages with this UNIQ_KEY in any topic, oldest first.

        Queries every topic at all its brokers.
        """

        async def ask(topic: str) -> QueryResult:
            return await self.query_by_uniq_key(topic, uniq_key)

        answers, failures = await gather(await self._admin.topics.names(), ask)
        found = [message for answer in answers.values() for message in answer.messages]
        found.sort(key=lambda message: (message.store_timestamp, message.commit_log_offset))
        broken = {name: error for answer in answers.values() for name, error in answer.failures.items()}
        return QueryResult(tuple(found), broken | _worth_telling(failures))

    async def view(self, offset_msg_id: str) -> MessageExt:
        """Return the message at the position in an offset message id, like `view_all`.

        The first of an inner batch.
        """
        return (await self.view_all(offset_msg_id))[0]

    async def view_all(self, offset_msg_id: str) -> tuple[MessageExt, ...]:
        """Return the messages of the record at the position in an offset message id (code 33).

        There is one, or all those of an inner batch. Raises NotFound if there is none.
        """
        address = offset_id_address(offset_msg_id)
        if address is None:
            raise InvalidRequest(f"{offset_msg_id!r} is not an offset message id")
        header = ViewMessageRequestHeader(offset=parse_offset_msg_id(offset_msg_id)[2])
        try:
            answer = await self.instance.ask(address, VIEW_MESSAGE_BY_ID, header, None)
        except BrokerRefused as error:
            # This is the reply of 4.9.8 for a position without a message.
            if type(error) is not BrokerRefused or error.code != ResponseCode.SYSTEM_ERROR:
                raise
            name = VIEW_MESSAGE_BY_ID.name
            raise NotFound(ResponseCode.QUERY_NOT_FOUND, error.remark, address, name) from error
        broker_name = await self._broker_name(address)
        messages = (await read_messages(answer.body, broker_name)).whole(broker_name)
        if not messages:
            raise NotFound(ResponseCode.QUERY_NOT_FOUND, None, address, VIEW_MESSAGE_BY_ID.name)
        return tuple(messages)

    async def _broker_name(self, address: str) -> str:
        tables = self.instance.routes.brokers
        if not any(address in table.values() for table in tables.values()):
            await self._admin.brokers.cluster_info()
        return next((name for name, table in tables.items() if address in table.values()), "")

    async def _query_uniq(self, topic: str, uniq_key: str, begin: int) -> QueryResult:
        header = QueryMessageRequestHeader(
            topic=topic, key=uniq_key, max_num=UNIQ_MAX, begin_timestamp=begin, end_timestamp=MAX_LONG
        )
        wanted = uniq_key.upper()
        return await self._query(
            header, lambda m: m.topic == topic and m.msg_id.upper() == wanted, unique=True
        )

    async def _query(
        self, header: QueryMessageRequestHeader, matches: Callable[[MessageExt], bool], *, unique: bool
    ) -> QueryResult:
        route = await self.instance.route(header.topic)
        extra = {_UNIQUE_KEY_QUERY: "true" if unique else "false"}
        limit = min(header.max_num, BROKER_MAX)
        full: list[str] = []

        async def ask(name: str) -> list[MessageExt]:
            queue = MessageQueue(header.topic, name, 0)
            answer = await self.instance.find_in_queue(queue, QUERY_MESSAGE, header, extra)
            reading = Reading([]) if answer is None else await read_messages(answer.body, name)
            messages = reading.whole(name)
            full.extend([name] if len(messages) >= limit else [])
            return [message for message in messages if matches(message)]

        answers, failures = await gather(list(route.brokers), ask)
        if failures and not answers:
            raise next(iter(failures.values()))
        found = [message for part in answers.values() for message in part]
        found.sort(key=lambda message: (message.store_timestamp, message.commit_log_offset))
        return QueryResult(tuple(found), failures, may_be_more=bool(full))


def _worth_telling(failures: Mapping[str, ClientError]) -> dict[str, ClientError]:
    """Return the failures of topics, except of those that no longer have queues or that nobody may read."""
    return {topic: error for topic, error in failures.items() if not isinstance(error, NotFound)}


def offset_id_address(msg_id: str) -> str | None:
    """Return the broker address in an offset message id; None for any other text (a UNIQ_KEY has no valid
    port).
    """
    try:
        host, port, offset = parse_offset_msg_id(msg_id)
    except CodecError:
        return None
    return join_address(host, port) if 0 < port <= MAX_PORT and offset >= 0 else None


# Tells which groups consumed a message (Java `DefaultMQAdminExtImpl.messageTrackDetail`).
#
# A broker keeps no record of this: the offset of a group in the queue of the message shows whether the group
# is past it. Unlike Java, a group without clients that is past the message counts as having consumed it.


class TrackType(Enum):
    """The fate of a message in a group (Java `TrackType`)."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    PULL = "PULL"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    UNKNOWN = "UNKNOWN"


class Track(NamedTuple):
    """A group and the fate of a message in it.

    `consumer_offset` is None if nothing is committed; `error` explains UNKNOWN.
    """

    group: str
    state: TrackType
    consumer_offset: int | None = None
    error: ClientError | None = None


async def tracks(admin: Admin, message: MessageExt) -> list[Track]:
    """Return the fate of the message in each group that has offsets on its topic or subscribes to it."""
    failures: dict[str, ClientError] = {}
    groups = await admin.topics.groups(message.topic, failures=failures)
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)

    async def ask(group: str) -> Track:
        connection = await admin.clients.connected(group, None)
        stats = await admin.offsets.stats(group, message.topic)
        wrapper = stats.offset_table.get(queue)
        offset = None if wrapper is None or wrapper.consumer_offset < 0 else wrapper.consumer_offset
        return Track(group, state_of(message, connection, offset), offset)

    found, broken = await gather(groups, ask)
    return [found.get(group) or Track(group, TrackType.UNKNOWN, None, broken[group]) for group in groups]


def state_of(message: MessageExt, connection: ConsumerConnection | None, offset: int | None) -> TrackType:
    """Return the state, derived from the offset and the clients of a group (None: no client is connected)."""
    is_past = offset is not None and offset > message.queue_offset
    if connection is None:
        return TrackType.CONSUMED if is_past else TrackType.NOT_ONLINE
    if connection.message_model is MessageModel.BROADCASTING:
        return TrackType.CONSUME_BROADCASTING
    if is_past:
        taken = _takes(connection, message)
        return TrackType.CONSUMED if taken else TrackType.CONSUMED_BUT_FILTERED
    if connection.consume_type is ConsumeType.CONSUME_ACTIVELY:
        return TrackType.PULL
    return TrackType.NOT_CONSUME_YET


def _takes(connection: ConsumerConnection, message: MessageExt) -> bool:
    """Return True if the group subscribes to the tag of the message. SQL92 is not evaluated."""
    subscription = connection.subscription_table.get(message.topic)
    return subscription is None or not subscription.tags_set or message.tags in subscription.tags_set
