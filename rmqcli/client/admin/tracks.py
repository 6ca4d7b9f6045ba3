"""Tells which groups consumed a message (Java `DefaultMQAdminExtImpl.messageTrackDetail`).

A broker keeps no record of it: the offset of a group in the queue of the message says whether the group is
past it. Unlike Java, a group without clients that is past the message counts as having consumed it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from codec.bodies.connections import ConsumerConnection
from codec.bodies.heartbeat import ConsumeType, MessageModel
from codec.message import MessageExt
from codec.message_queue import MessageQueue
from rmqcli.client.admin.admin import Admin
from rmqcli.client.admin.area import gather
from rmqcli.client.errors import ClientError


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
    """A group and a message. `consumer_offset`: None without a committed one; `error` explains UNKNOWN."""

    group: str
    state: TrackType
    consumer_offset: int | None = None
    error: ClientError | None = None


async def tracks(admin: Admin, message: MessageExt) -> list[Track]:
    """Return the fate of the message in each group that has offsets of its topic or subscribes to it."""
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
    """Return the state by the offset and the clients of a group (None: no client is connected)."""
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
    """Return True if the tags that the group subscribes to include that of the message; SQL92 is not
    evaluated.
    """
    subscription = connection.subscription_table.get(message.topic)
    return subscription is None or not subscription.tags_set or message.tags in subscription.tags_set
