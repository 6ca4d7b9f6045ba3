"""PULL_MESSAGE (11), LITE_PULL_MESSAGE (361) (Java class `PullMessageProcessor`).

A pull that finds nothing new and may be suspended is held (services/holds.py) and tried once more when a
message arrives or its time is over. It commits its offset at the first try only. A few records are sent
together with the head of the reply as one buffer, more as views of the mapped files.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial

import trio
from msgspec.structs import replace

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.filters import EVERYTHING, ConsumerFilter, SqlSelection, Wanted, is_tag_type
from rmqcli.broker.handlers.common import (
    FAQ,
    Soon,
    after_flush,
    is_unflushed,
    no_filtering,
    no_group,
    no_topic,
    once_flushed,
    when_compiled,
)
from rmqcli.broker.handlers.offsets import commit
from rmqcli.broker.net.dispatch import failure_reply
from rmqcli.broker.net.handling import Answered, Reply, Request, encoder
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.transport import COALESCE_BYTES
from rmqcli.broker.services.clients import count_created, watch_session
from rmqcli.broker.services.holds import Hold
from rmqcli.broker.services.put import store_offset_moved
from rmqcli.broker.store.values import GetResult, GetStatus
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.codes import MASTER_ID, Perm, PullSysFlag, ResponseCode
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rmqcli.codec.names import RETRY_PREFIX
from rmqcli.codec.operations.messages import PULL_MESSAGE
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.reply_head import reply_head
from rmqcli.codec.selector import ALL, parse_tags, tag_codes

# Plain integers, because an operation on an IntFlag is a function call.
SUBSCRIPTION = int(PullSysFlag.SUBSCRIPTION)
READ = int(Perm.READ)
_NO_FILTER = "The broker's consumer filter data is not exist!Your expression may be wrong!"
LONGEST_TAGS = 32 * 1024
"""Maximum length of the tags in a pull, in characters."""
CACHED_TEXT = 1024
"""Maximum length of a cached expression, which limits the memory of the cache."""


def selection_of(broker: BrokerContext, session: Session, header: PullMessageRequestHeader) -> Wanted:
    """Return the messages that a pull selects. Raises Refusal if the pull is not allowed."""
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
    if broker.groups.is_forbidden(header.consumer_group, header.topic):
        remark = f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
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
    """Select by tags and, for a retry topic, also by the filters of the original topics."""
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


MAX_SUSPEND_MS = 3_600_000
"""Longest wait; after that, the client pulls again."""
# Plain integers, because an operation on an IntFlag is a function call.
COMMIT_OFFSET, SUSPEND = int(PullSysFlag.COMMIT_OFFSET), int(PullSysFlag.SUSPEND)

PullRequest = Request[PullMessageRequestHeader, None]
PullReply = Reply[PullMessageResponseHeader, bytes]
_encode = encoder(PULL_MESSAGE)


_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


FOUND = GetStatus.FOUND
_OFFSETS = PullMessageResponseHeader(
    suggest_which_broker_id=0, next_begin_offset=0, min_offset=0, max_offset=0
)
_found_head = reply_head(ResponseCode.SUCCESS, {}, tuple(to_ext(_OFFSETS)), FOUND.name).frame

SHORT_BODY = COALESCE_BYTES
"""Maximum size in bytes of records that are sent as one buffer with the head of the reply."""


def pull(broker: BrokerContext, request: PullRequest) -> Answered[PullMessageResponseHeader, bytes]:
    """Reply with records, with a correction of the offset, or later."""
    if is_tag_type(request.header.expression_type):
        return _pull(broker, request)
    return when_compiled(broker, [request.header.subscription], partial(_pull, broker, request))


def _pull(broker: BrokerContext, request: PullRequest) -> Soon[PullReply | bytes]:
    result = _found(broker, request)
    return None if result is None else once_flushed(broker, _reply(broker, request, result), result.end)


def _found(broker: BrokerContext, request: PullRequest) -> GetResult | None:
    """Commit the offset of a pull, and return its result; None if it is held."""
    header = request.header
    try:
        wanted = selection_of(broker, request.session, header)
    except Refusal as refusal:
        raise Refusal(refusal.code, refusal.remark, {}) from None
    result = read(broker, header, wanted)
    if header.sys_flag & COMMIT_OFFSET and not broker.is_slave:
        with suppress(Refusal):  # logged; the records are sent even if the offset is refused
            commit(broker, request.session, header)
    broker.offsets.note_pull(header.consumer_group, header.topic, header.queue_id, header.queue_offset)
    if result.status is FOUND or not header.sys_flag & SUSPEND or request.command.is_oneway:
        return result
    is_awaited = _code(result.status, header.queue_offset) == ResponseCode.PULL_NOT_FOUND
    return None if is_awaited and _hold(broker, request, result, wanted) else result


def _hold(broker: BrokerContext, request: PullRequest, result: GetResult, wanted: Wanted) -> bool:
    """Hold the pull until a message arrives. Return False if too many pulls are held."""
    header = request.header
    wait_ms = header.suspend_timeout_millis
    if not broker.config.long_polling_enable:
        wait_ms = broker.config.short_polling_time_mills
    hold = Hold(
        request.session,
        request,
        header.topic,
        header.queue_id,
        result.next_begin_offset,
        trio.current_time() + min(max(wait_ms, 0), MAX_SUSPEND_MS) / 1000,
        wanted.codes,
        wanted.sql.accepts if wanted.sql is not None else None,
    )
    held = broker.holds.hold(hold)
    if held:
        watch_session(broker, request.session)
    return held


def answer_hold(broker: BrokerContext, hold: Hold) -> None:
    """Try a held pull for the last time, and respond whatever the result: the consumer has waited long
    enough."""
    request: PullRequest = hold.request
    slow: list[str] = []
    if not is_tag_type(request.header.expression_type):
        slow = broker.filters.compiler.slow([request.header.subscription])
    if not slow:
        with suppress(NotReady):
            broker.store.attempt(_answer, broker, request)
            return
    request.session.spawn(_answer_later, broker, request, slow)


async def _answer_later(broker: BrokerContext, request: PullRequest, slow: list[str]) -> None:
    """Answer a held pull once the disk has read the records, and expressions that were evicted from the cache
    are compiled again."""
    session, command = request.session, request.command
    try:
        if slow:
            await broker.filters.compiler.prepare(slow)
        await broker.store.when_ready(_answer, broker, request)
    except OSError as error:
        session.respond(command, failure_reply(session, command, error))


def _answer(broker: BrokerContext, request: PullRequest) -> None:
    header, session, command = request.header, request.session, request.command
    # The parts of the reply are only queued until `flush`, which sends them together.
    session.in_batch = True
    try:
        result = read(broker, header, selection_of(broker, session, header))
        reply = _reply(broker, request, result)
        if is_unflushed(broker, result.end):
            session.spawn(_answer_once_flushed, broker, request, reply, result.end)
        else:
            _respond(request, reply)
    except Refusal as refusal:
        session.respond(command, command.reply(refusal.code, refusal.remark, {}))
    except NotReady:
        raise
    except Exception as error:  # as for a pull that is not held; an error must not affect the others
        session.respond(command, failure_reply(session, command, error))
    finally:
        session.in_batch = False
        session.flush()


async def _answer_once_flushed(
    broker: BrokerContext, request: PullRequest, reply: PullReply | bytes, end: int
) -> None:
    _respond(request, await after_flush(broker, reply, end))


def _respond(request: PullRequest, reply: PullReply | bytes) -> None:
    session, command = request.session, request.command
    if isinstance(reply, bytes):
        session.respond(command, reply)
    else:
        session.respond(command, _encode(command, reply), reply.views)


_MAYBE_LATER = frozenset((GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.NO_MESSAGE_IN_QUEUE))
"""Statuses on a slave that lags behind, and of a queue that never had the offset."""


def _code(status: GetStatus, offset: int) -> ResponseCode:
    code = _CODES.get(status)
    if code is not None:
        return code
    return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED


def read(broker: BrokerContext, header: PullMessageRequestHeader, wanted: Wanted) -> GetResult:
    """Return the messages from the offset of a pull on that it selects."""
    codes, sql = wanted
    topic, queue_id = header.topic, header.queue_id
    rates, started = broker.rates, broker.timer()
    result = broker.store.reader.get(
        topic,
        queue_id,
        header.queue_offset,
        header.max_msg_nums,
        accepts_code=None if codes is None else codes.__contains__,
        accepts_record=None if sql is None else sql.accepts_record,
        accepts_extension=None if sql is None else sql.accepts_extension,
    )
    took = broker.timer() - started
    rates.longest_get_seconds = max(rates.longest_get_seconds, took)
    if result.status is FOUND:
        group, latency = header.consumer_group, int(took * 1000)
        broker.statistics.got(topic, queue_id, group, result.count, result.size, latency)
    elif result.status is GetStatus.NO_MATCHED_LOGIC_QUEUE:
        # Java creates the queue on demand and never has this status for a topic that exists.
        return replace(result, status=GetStatus.NO_MESSAGE_IN_QUEUE)
    return result


def _reply(broker: BrokerContext, request: PullRequest, result: GetResult) -> PullReply | bytes:
    """Return the reply, or its frame if the records are short: copying them is cheaper than sending views."""
    header = request.header
    suggested, next_begin = _suggested(broker, header, result), result.next_begin_offset
    if result.status is FOUND:
        broker.rates.found += 1
        broker.rates.transferred += result.count
        if result.size <= SHORT_BODY:
            return _frame(request.command, suggested, result)
    code = _code(result.status, header.queue_offset)
    if broker.is_slave and result.status in _MAYBE_LATER and not broker.config.offset_check_in_slave:
        # The master may have messages that are not copied yet: the reader keeps its offset.
        group = broker.groups.get(header.consumer_group)
        suggested, next_begin = (MASTER_ID if group is None else group.broker_id), header.queue_offset
        code = ResponseCode.PULL_RETRY_IMMEDIATELY if code == ResponseCode.PULL_OFFSET_MOVED else code
    if code == ResponseCode.PULL_OFFSET_MOVED and not broker.is_slave:
        store_offset_moved(broker, header, result.next_begin_offset)
    if code != ResponseCode.SUCCESS:
        broker.rates.missed += 1
    offsets = PullMessageResponseHeader(
        suggest_which_broker_id=suggested,
        next_begin_offset=next_begin,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
    )
    return Reply(offsets, None, code, result.status.name, result.views)


def _frame(command: RemotingCommand, suggested: int, result: GetResult) -> bytes:
    offsets = [
        b"%d" % suggested,
        b"%d" % result.next_begin_offset,
        b"%d" % result.min_offset,
        b"%d" % result.max_offset,
    ]
    head = _found_head(bool(command.serialize_type), command.opaque, offsets, result.size)
    return b"".join((head, *result.views))


def _suggested(broker: BrokerContext, header: PullMessageRequestHeader, result: GetResult) -> int:
    """Return the broker id to read from: another one if the group reads messages that are no longer in
    memory."""
    group = broker.groups.get(header.consumer_group) if broker.config.slave_read_enable else None
    if group is None:
        return MASTER_ID
    return group.which_broker_when_consume_slowly if result.slow else group.broker_id
