"""Remarks and checks shared by several handlers. Remarks are those of a 4.9.8 broker, because clients parse
them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias, TypeVar

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.handling import Reply
from rmqcli.broker.net.session import Session
from rmqcli.broker.services.clients import count_created
from rmqcli.broker.services.put import PUT_CODES
from rmqcli.broker.store.values import PutStatus
from rmqcli.broker.tables.groups import name_problem
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import check_topic
from rmqcli.codec.records.reading import decode_record

SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2

CACHED_NAME = 255
"""Maximum length of a cached name, which limits the memory of the cache."""
FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


def no_filtering(expression_type: str | None) -> Refusal:
    """Return the refusal of a subscription by other means than tags while enablePropertyFilter is off."""
    remark = f"The broker does not support consumer to filter message by {expression_type}"
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)


AnswerT = TypeVar("AnswerT", bound=Reply[Any, Any] | bytes)
Soon: TypeAlias = AnswerT | Coroutine[Any, Any, AnswerT] | None
"""A reply or its frame, or a coroutine that returns one; None for no reply, or a later one."""


def when_compiled(
    broker: BrokerContext, expressions: Iterable[str | None], handle: Callable[[], Soon[AnswerT]]
) -> Soon[AnswerT] | Coroutine[Any, Any, AnswerT | None]:
    """Return the result of `handle`, called now or after a thread has compiled the long expressions among
    these.
    """
    slow = broker.filters.compiler.slow(expressions)
    return _compile_first(broker, slow, handle) if slow else handle()


async def _compile_first(
    broker: BrokerContext, expressions: list[str], handle: Callable[[], Soon[AnswerT]]
) -> AnswerT | None:
    await broker.filters.compiler.prepare(expressions)
    reply = await broker.store.when_ready(handle)
    # No dispatcher takes it, because the request is handled in a task of its own.
    barrier, broker.store.barrier = broker.store.barrier, None
    if barrier is not None:
        await barrier()
    return await reply if isinstance(reply, Coroutine) else reply


def is_unflushed(broker: BrokerContext, end: int) -> bool:
    """Return True if a power cut may still remove records before `end`. With SYNC_FLUSH, no reader may see
    such records.
    """
    return broker.sync_flush and end > broker.store.flushed_offset


def once_flushed(broker: BrokerContext, reply: AnswerT, end: int) -> AnswerT | Coroutine[Any, Any, AnswerT]:
    """Return a reply with records that end at or before `end` in the log; with SYNC_FLUSH, after their flush.

    A flush that fails or takes longer than `syncFlushTimeout` does not hold the reply back.
    """
    return after_flush(broker, reply, end) if is_unflushed(broker, end) else reply


async def after_flush(broker: BrokerContext, reply: AnswerT, end: int) -> AnswerT:
    await broker.store.wait_flushed(end)
    return reply


def no_topic(topic: str, before_faq: str = "") -> Refusal:
    return Refusal(
        ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{before_faq}{FAQ}"
    )


def no_group(name: str, remark: str) -> Refusal:
    """Return the refusal of an unknown group, with the problem of its name or, if there is none, `remark`."""
    problem = name_problem(name)
    if problem is not None:
        return Refusal(ResponseCode.SYSTEM_ERROR, problem)
    return Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)


def refuse_on_slave(broker: BrokerContext) -> None:
    """Refuse changes on a slave, because it copies topics and groups from its master."""
    if broker.is_slave:
        remark = (
            "Can't modify topic or subscription group from slave broker, please execute it from master "
            "broker."
        )
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


def valid_topic(topic: str) -> str | None:
    """Return None for a valid topic name, otherwise Java's remark."""
    return _checked(topic) if len(topic) <= CACHED_NAME else _checked.__wrapped__(topic)


@lru_cache(maxsize=4096)
def _checked(topic: str) -> str | None:
    try:
        check_topic(topic)
    except ValueError as error:
        return str(error)
    return None


def put_refusal(
    broker: BrokerContext,
    status: PutStatus,
    remarks: Mapping[PutStatus, tuple[ResponseCode, str]] = PUT_CODES,
) -> Refusal:
    """Return the refusal of a put that stored nothing."""
    code, remark = remarks.get(status, (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"))
    limit = broker.config.max_message_size
    text = remark.replace("{limit}", str(limit)).replace("{disk}", f"{broker.store.stats.disk_ratio:.2f}")
    text = text.replace("{delay}", str(broker.config.timer_max_delay_sec * 1000))
    return Refusal(code, text.replace("{congestion}", str(broker.config.timer_congest_num_each_slot)))


def retry_group(broker: BrokerContext, session: Session, name: str) -> SubscriptionGroupConfig:
    """Return the settings of a group that sends a message back."""
    config, made = broker.groups.find(name)
    if config is None:
        raise no_group(name, f"subscription group not exist, {name} {FAQ}")
    if made:
        count_created(broker, session, partial(broker.groups.remove, name))
        broker.files.groups_changed()
    return config


def message_at(broker: BrokerContext, offset: int) -> MessageExt | None:
    """Return the message that begins at an offset of the commit log; None if no record begins there."""
    record = broker.store.search.record_at(offset)
    try:
        return decode_record(record) if record is not None else None
    except CodecError:  # an offset that a client invented may lie inside a record
        return None
