"""The permissions that requests need (4.9.8 `PlainAccessResource.parse`).

Stricter than Java where it has gaps: a batch of messages needs what a message needs, LITE_PULL_MESSAGE what a
pull needs; a send to a retry topic needs the group of the topic beside the one that the request names; only
administrators change accounts and white addresses, or create topics and groups by the lists of 5.x.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from codec.acl.account_file import Permission
from codec.acl.decision import Need, on_group, on_topic
from codec.bodies.heartbeat import ConsumerData, HeartbeatData
from codec.codes import RequestCode as R
from codec.names import RETRY_PREFIX

ADMIN_CODES: Final = frozenset(
    {
        *(R.UPDATE_AND_CREATE_TOPIC, R.UPDATE_BROKER_CONFIG, R.DELETE_TOPIC_IN_BROKER),
        *(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, R.DELETE_SUBSCRIPTIONGROUP),
        # ours
        *(R.UPDATE_AND_CREATE_TOPIC_LIST, R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST),
        *(R.UPDATE_AND_CREATE_ACL_CONFIG, R.DELETE_ACL_CONFIG, R.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG),
    }
)
"""Requests of administrators only."""

Ext = Mapping[str, str]


class _Send(NamedTuple):
    """The fields of a send: its topic, and the group that Java checks for a retry topic."""

    topic: str
    group: str

    def of(self, ext: Ext) -> tuple[Need, ...]:
        topic = ext.get(self.topic)
        if topic is None:
            return ()
        if not topic.startswith(RETRY_PREFIX):
            return (on_topic(topic, Permission.PUB),)
        groups = ext.get(self.group), topic.removeprefix(RETRY_PREFIX)
        return tuple(on_group(group) for group in dict.fromkeys(filter(None, groups)))


class _Reads(NamedTuple):
    """The fields of a request of a group."""

    topic: str | None
    group: str | None

    def of(self, ext: Ext) -> tuple[Need, ...]:
        topic = ext.get(self.topic) if self.topic else None
        group = ext.get(self.group) if self.group else None
        of_topic = () if topic is None else (on_topic(topic, Permission.SUB),)
        return of_topic if group is None else (*of_topic, on_group(group))


_BY_CODE: Final[Mapping[int, _Send | _Reads]] = {
    R.SEND_MESSAGE: _Send("topic", "group"),
    R.SEND_MESSAGE_V2: _Send("b", "a"),
    R.SEND_BATCH_MESSAGE: _Send("b", "a"),
    R.CONSUMER_SEND_MSG_BACK: _Reads(None, "group"),
    R.PULL_MESSAGE: _Reads("topic", "consumerGroup"),
    R.LITE_PULL_MESSAGE: _Reads("topic", "consumerGroup"),
    R.QUERY_MESSAGE: _Reads("topic", None),
    R.UNREGISTER_CLIENT: _Reads(None, "consumerGroup"),
    R.GET_CONSUMER_LIST_BY_GROUP: _Reads(None, "consumerGroup"),
    R.UPDATE_CONSUMER_OFFSET: _Reads("topic", "consumerGroup"),
}


def needs_of(code: int, ext_fields: Ext) -> tuple[Need, ...]:
    """The needs of a request by its ext fields; none for a code that only asks who it is from."""
    found = _BY_CODE.get(code)
    return () if found is None else found.of(ext_fields)


def needs_of_heartbeat(body: HeartbeatData) -> Iterator[Need]:
    """The needs of HEART_BEAT, of which there may be thousands: to consume as each group, and each topic that it
    subscribes to."""
    seen: set[Need] = set()
    for consumer in body.consumer_data_set or ():
        for need in _needs_of_consumer(consumer):
            if need not in seen:
                seen.add(need)
                yield need


def _needs_of_consumer(consumer: ConsumerData) -> Iterator[Need]:
    yield on_group(consumer.group_name)
    for subscription in consumer.subscription_data_set or ():
        yield on_topic(subscription.topic, Permission.SUB)
