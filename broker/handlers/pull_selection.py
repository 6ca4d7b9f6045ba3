"""The selection of a pull: whether it is allowed, and which messages it lets through.

SQL92 subscriptions are refused unless enablePropertyFilter is on, and so is an expression that does not
compile, wherever it came from: the request, a heartbeat or consumerFilter.json. Java lets everything pass for
one in a request.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.filters import ConsumerFilter, SqlSelection, is_tag_type
from broker.handlers.common import FAQ, no_filtering, no_group, no_topic
from broker.net.session import Session
from broker.services.creations import count_created
from codec.bodies.heartbeat import SubscriptionData
from codec.codes import Perm, PullSysFlag, ResponseCode
from codec.errors import SelectorError
from codec.headers.pull import PullMessageRequestHeader
from codec.names import RETRY_PREFIX
from codec.selector import ALL, parse_tags, tag_codes

# Plain integers, because an operation on an IntFlag costs a call.
SUBSCRIPTION = int(PullSysFlag.SUBSCRIPTION)
READ = int(Perm.READ)
_NO_FILTER = "The broker's consumer filter data is not exist!Your expression may be wrong!"
LONGEST_TAGS = 32 * 1024
"""Characters of the tags that a pull names."""
CACHED_TEXT = 1024
"""Characters: the cache keeps no longer expressions."""


class Wanted(NamedTuple):
    """The messages that a pull lets through: tag codes (None: all), and a selection by properties."""

    codes: frozenset[int] | None = None
    sql: SqlSelection | None = None


EVERYTHING = Wanted()


def selection_of(broker: BrokerContext, session: Session, header: PullMessageRequestHeader) -> Wanted:
    """Return the messages to let through; Refusal when the pull is not allowed."""
    if not broker.config.broker_permission & READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{broker.host}] pulling message is forbidden")
    group, made = broker.groups.find(header.consumer_group)
    if made:
        count_created(broker, session, partial(broker.groups.remove, header.consumer_group))
        broker.files.groups_changed()
    if group is None:
        name = header.consumer_group
        raise no_group(name, f"subscription group [{name}] does not exist, {FAQ}")
    if not group.consume_enable:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}"
        )
    topic = broker.topics.get(header.topic)
    if topic is None:
        raise no_topic(header.topic, " ")
    if not topic.perm & READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden")
    if not 0 <= header.queue_id < topic.read_queue_nums:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{session.peer_text}]",
        )
    if header.sys_flag & SUBSCRIPTION:
        return _wanted_by_header(broker, header)
    return _wanted_by_group(broker, header, group.consume_broadcast_enable)


def _wanted_by_header(broker: BrokerContext, header: PullMessageRequestHeader) -> Wanted:
    if not is_tag_type(header.expression_type):
        one = _filter_of_header(broker, header)
        return _wanted_by_sql(broker, header.topic, header.expression_type, one)
    if len(header.subscription or "") > LONGEST_TAGS:
        remark = f"the tags have more than {LONGEST_TAGS} characters"
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
    try:
        return _wanted_by_tags(broker, header.topic, _wanted_by_text(header.subscription or ALL))
    except SelectorError:
        raise _unreadable() from None


def _unreadable() -> Refusal:
    return Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")


def _filter_of_header(broker: BrokerContext, header: PullMessageRequestHeader) -> ConsumerFilter:
    text, kind = header.subscription, header.expression_type or ""
    if not text:
        raise _unreadable()
    if not broker.config.enable_property_filter:
        raise no_filtering(header.expression_type)
    try:
        return broker.filters.build(header.topic, header.consumer_group, text, kind, header.sub_version)
    except SelectorError as error:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None


def _wanted_by_tags(broker: BrokerContext, topic: str, wanted: Wanted) -> Wanted:
    """Select by tags; messages of a retry topic also by the filters of their original topics."""
    if broker.config.filter_support_retry and topic.startswith(RETRY_PREFIX):
        return Wanted(wanted.codes, SqlSelection(broker.filters, topic, None, retry_topics=True))
    return wanted


def _wanted_by_sql(broker: BrokerContext, topic: str, kind: str | None, one: ConsumerFilter) -> Wanted:
    config = broker.config
    if not config.enable_property_filter:
        raise no_filtering(kind)
    return Wanted(None, SqlSelection(broker.filters, topic, one, retry_topics=config.filter_support_retry))


def _wanted_by_group(
    broker: BrokerContext, header: PullMessageRequestHeader, broadcast_allowed: bool
) -> Wanted:
    group = broker.consumers.get(header.consumer_group)
    if group is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
    if not broadcast_allowed and group.is_broadcasting():
        remark = f"the consumer group[{header.consumer_group}] can not consume by broadcast way"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    subscription = group.subscriptions.get(header.topic)
    if subscription is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
    if subscription.sub_version < header.sub_version:
        raise Refusal(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    if is_tag_type(subscription.expression_type):
        return _wanted_by_tags(broker, header.topic, _wanted_by_subscription(subscription))
    one = _filter_of_group(broker, header)
    return _wanted_by_sql(broker, header.topic, subscription.expression_type, one)


def _filter_of_group(broker: BrokerContext, header: PullMessageRequestHeader) -> ConsumerFilter:
    one = broker.filters.get(header.topic, header.consumer_group)
    if one is None or one.predicate is None:
        raise Refusal(ResponseCode.FILTER_DATA_NOT_EXIST, _NO_FILTER)
    if one.client_version < header.sub_version:
        raise Refusal(ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
    return one


def _wanted_by_subscription(subscription: SubscriptionData) -> Wanted:
    if subscription.sub_string == ALL:
        return EVERYTHING
    return Wanted(frozenset(subscription.code_set))


def _wanted_by_text(expression: str) -> Wanted:
    return (_wanted if len(expression) <= CACHED_TEXT else _wanted.__wrapped__)(expression)


@lru_cache(maxsize=4096)
def _wanted(expression: str) -> Wanted:
    tags = parse_tags(expression)
    return Wanted(tag_codes(tags)) if tags else EVERYTHING
