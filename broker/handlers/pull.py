"""PULL_MESSAGE (11), LITE_PULL_MESSAGE (361) (Java class `PullMessageProcessor`).

A pull that finds nothing new and may be suspended is held (services/holds.py) and tried once more when a message comes or
its time is over. The offset it commits is taken over at the first try only. Records leave as views of the mapped files.
SQL92 subscriptions are refused unless enablePropertyFilter is on. A text in the request itself that does not compile lets
everything pass, as in Java; one of a heartbeat is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import trio

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.filters import ConsumerFilter, SqlSelection, is_tag_type
from broker.handlers.common import FAQ, no_filtering, no_topic
from broker.net.session import Session
from broker.services.clients import watch_session
from broker.services.holds import Hold
from broker.services.put import put
from broker.store.values import GetResult, GetStatus, StoreMessage
from codec.bodies.base import encode_body
from codec.bodies.heartbeat import SubscriptionData
from codec.bodies.offsets import OffsetMovedEvent
from codec.codes import MASTER_ID, Perm, PullSysFlag, ResponseCode
from codec.errors import HeaderError, SelectorError
from codec.hashing import tags_code
from codec.headers.base import from_ext
from codec.headers.pull import PullMessageRequestHeader
from codec.message_queue import MessageQueue
from codec.names import RETRY_PREFIX, SystemTopic
from codec.properties import PropertyName, encode_properties
from codec.remoting.frame import RemotingCommand
from codec.selector import ALL, parse_tags, tag_codes

__all__ = ["answer_hold", "pull"]

_NO_FILTER = "The broker's consumer filter data is not exist!Your expression may be wrong!"
MASTER = str(MASTER_ID)
MAX_SUSPEND_MS = 3_600_000
"""A longer wait is cut: the client asks again."""


class Wanted(NamedTuple):
    """What a pull lets through: tag codes (None: all), and what the properties say."""

    codes: frozenset[int] | None = None
    sql: SqlSelection | None = None


_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


def pull(broker: BrokerContext, session: Session, request: RemotingCommand) -> RemotingCommand | None:
    """Answers with records, with a correction of the offset, or later."""
    header = from_ext(PullMessageRequestHeader, request.ext_fields)
    try:
        wanted = _check(broker, session, header)
    except Refusal as refusal:
        raise Refusal(refusal.code, refusal.remark, {}) from None
    result = _get(broker, header, wanted)
    code = _code(result.status, header.queue_offset)
    if header.sys_flag & PullSysFlag.COMMIT_OFFSET and not broker.is_slave:
        broker.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    may_wait = header.sys_flag & PullSysFlag.SUSPEND and not request.is_oneway
    if code == ResponseCode.PULL_NOT_FOUND and may_wait:
        wait_ms = header.suspend_timeout_millis
        if not broker.config.long_polling_enable:
            wait_ms = broker.config.short_polling_time_mills
        deadline = trio.current_time() + min(max(wait_ms, 0), MAX_SUSPEND_MS) / 1000
        hold = Hold(
            session,
            request,
            header.topic,
            header.queue_id,
            result.next_begin_offset,
            deadline,
            wanted.codes,
            wanted.sql.accepts if wanted.sql is not None else None,
        )
        if broker.holds.hold(hold):
            watch_session(broker, session)
            return None
    return _reply(broker, session, request, header, result)


def answer_hold(broker: BrokerContext, hold: Hold) -> None:
    """Tries a held pull for the last time and answers it, at once: the consumer has waited long enough."""
    session: Session = hold.session  # type: ignore[assignment]
    session.in_batch = True
    try:
        _answer(broker, session, hold)
    finally:
        session.in_batch = False
        session.flush()


def _answer(broker: BrokerContext, session: Session, hold: Hold) -> None:
    try:
        header = from_ext(PullMessageRequestHeader, hold.request.ext_fields)
        result = _get(broker, header, _check(broker, session, header))
    except (Refusal, HeaderError) as error:
        code = error.code if isinstance(error, Refusal) else ResponseCode.SYSTEM_ERROR
        session.send(hold.request.reply(code, str(error), {}))
        return
    reply = _reply(broker, session, hold.request, header, result)
    if reply is not None:
        session.send(reply)


def _code(status: GetStatus, offset: int) -> ResponseCode:
    code = _CODES.get(status)
    if code is not None:
        return code
    return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED


def _get(broker: BrokerContext, header: PullMessageRequestHeader, wanted: Wanted) -> GetResult:
    codes, sql = wanted
    accepts_code: Callable[[int], bool] | None = codes.__contains__ if codes is not None else None
    started = broker.timer()
    result = broker.store.get(
        header.topic,
        header.queue_id,
        header.queue_offset,
        header.max_msg_nums,
        accepts_code=accepts_code,
        accepts_record=sql.accepts_record if sql is not None else None,
        accepts_unit=sql.accepts_unit if sql is not None else None,
    )
    took = broker.timer() - started
    broker.rates.longest_get_seconds = max(broker.rates.longest_get_seconds, took)
    if result.status is GetStatus.FOUND:
        queue, group = (header.topic, header.queue_id), header.consumer_group
        broker.statistics.got(*queue, group, result.count, result.size, int(took * 1000))
    if result.status is GetStatus.NO_MATCHED_LOGIC_QUEUE:
        # Java makes the queue when it is asked for it, and so never has to say this of a topic that exists.
        return result._replace(status=GetStatus.NO_MESSAGE_IN_QUEUE)
    return result


def _reply(
    broker: BrokerContext,
    session: Session,
    request: RemotingCommand,
    header: PullMessageRequestHeader,
    result: GetResult,
) -> RemotingCommand | None:
    code, config = _code(result.status, header.queue_offset), broker.config
    reply = request.reply(
        code,
        result.status.name,
        {
            "suggestWhichBrokerId": _suggested(broker, header, result)
            if config.slave_read_enable
            else MASTER,
            "nextBeginOffset": str(result.next_begin_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
        },
    )
    if code == ResponseCode.SUCCESS:
        broker.rates.found += 1
        broker.rates.transferred += result.count
        session.respond(request, reply, result.views)
        return None
    broker.rates.missed += 1
    if code == ResponseCode.PULL_OFFSET_MOVED and not broker.is_slave:
        _store_offset_moved(broker, header, result.next_begin_offset)
    return reply


def _suggested(broker: BrokerContext, header: PullMessageRequestHeader, result: GetResult) -> str:
    """The broker id that the group is to read from, another one when what it reads is no longer in memory."""
    group = broker.groups.get(header.consumer_group)
    if group is None:
        return MASTER
    return str(group.which_broker_when_consume_slowly if result.slow else group.broker_id)


def _check(broker: BrokerContext, session: Session, header: PullMessageRequestHeader) -> Wanted:
    """What to let through; Refusal when the pull is not allowed."""
    if not broker.config.broker_permission & Perm.READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{broker.host}] pulling message is forbidden")
    group, made = broker.groups.find(header.consumer_group)
    if made:
        broker.files.groups_later()
    if group is None:
        remark = f"subscription group [{header.consumer_group}] does not exist, {FAQ}"
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not group.consume_enable:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}"
        )
    topic = broker.topics.get(header.topic)
    if topic is None:
        raise no_topic(header.topic, " ")
    if not topic.perm & Perm.READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden")
    if not 0 <= header.queue_id < topic.read_queue_nums:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{session.peer_text}]",
        )
    if header.sys_flag & PullSysFlag.SUBSCRIPTION:
        return _wanted_by_header(broker, header)
    return _wanted_by_group(broker, header, group.consume_broadcast_enable)


def _wanted_by_header(broker: BrokerContext, header: PullMessageRequestHeader) -> Wanted:
    if not is_tag_type(header.expression_type):
        one = _filter_of_header(broker, header)
        return _wanted_by_sql(broker, header.topic, header.expression_type, one)
    try:
        return _wanted_by_tags(broker, header.topic, _codes_of_text(header.subscription or ALL))
    except SelectorError:
        raise _unreadable() from None


def _unreadable() -> Refusal:
    return Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")


def _filter_of_header(broker: BrokerContext, header: PullMessageRequestHeader) -> ConsumerFilter | None:
    text, kind = header.subscription, header.expression_type or ""
    if not text:
        raise _unreadable()
    try:
        return broker.filters.build(header.topic, header.consumer_group, text, kind, header.sub_version)
    except SelectorError:
        return None


def _wanted_by_tags(broker: BrokerContext, topic: str, codes: frozenset[int] | None) -> Wanted:
    """Messages of a retry topic can also be judged by the filters of the topics that they come from."""
    if broker.config.filter_support_retry and topic.startswith(RETRY_PREFIX):
        return Wanted(codes, SqlSelection(broker.filters, topic, None, retry_topics=True))
    return Wanted(codes)


def _wanted_by_sql(broker: BrokerContext, topic: str, kind: str | None, one: ConsumerFilter | None) -> Wanted:
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
        return _wanted_by_tags(broker, header.topic, _codes_of_subscription(subscription))
    one = _filter_of_group(broker, header)
    return _wanted_by_sql(broker, header.topic, subscription.expression_type, one)


def _filter_of_group(broker: BrokerContext, header: PullMessageRequestHeader) -> ConsumerFilter:
    one = broker.filters.get(header.topic, header.consumer_group)
    if one is None:
        raise Refusal(ResponseCode.FILTER_DATA_NOT_EXIST, _NO_FILTER)
    if one.client_version < header.sub_version:
        raise Refusal(ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
    return one


def _codes_of_subscription(subscription: SubscriptionData) -> frozenset[int] | None:
    if subscription.sub_string == ALL:
        return None
    return frozenset(subscription.code_set)


@lru_cache(maxsize=4096)
def _codes_of_text(expression: str) -> frozenset[int] | None:
    tags = parse_tags(expression)
    return tag_codes(tags) if tags else None


def _store_offset_moved(broker: BrokerContext, header: PullMessageRequestHeader, offset: int) -> None:
    """Java leaves a message about every offset that it corrected in OFFSET_MOVED_EVENT."""
    event = OffsetMovedEvent(
        consumer_group=header.consumer_group,
        message_queue=MessageQueue(header.topic, broker.name, header.queue_id),
        offset_request=header.queue_offset,
        offset_new=offset,
    )
    properties = {PropertyName.TAGS: header.consumer_group, PropertyName.KEYS: header.consumer_group}
    put(
        broker,
        StoreMessage(
            topic=SystemTopic.OFFSET_MOVED_EVENT,
            queue_id=0,
            body=encode_body(event),
            properties=properties,
            properties_text=encode_properties(properties),
            born_timestamp=broker.now_ms(),
            born_host=broker.store_host,
            sys_flag=broker.own_host_flags,
            tags_code=tags_code(header.consumer_group),
        ),
    )
