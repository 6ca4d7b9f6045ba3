"""Remarks and checks that several handlers share. Remarks are those of a 4.9.8 broker: clients parse them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.net.handling import Answered, Reply
from broker.store.values import AppendResult
from codec.codes import ResponseCode
from codec.names import check_topic

ReplyT = TypeVar("ReplyT")
ReplyBodyT = TypeVar("ReplyBodyT")

FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


def no_filtering(expression_type: str | None) -> Refusal:
    """The refusal of a subscription other than by tags while enablePropertyFilter is off."""
    remark = f"The broker does not support consumer to filter message by {expression_type}"
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)


def when_compiled(
    broker: BrokerContext,
    expressions: Iterable[str | None],
    handle: Callable[[], Reply[ReplyT, ReplyBodyT] | None],
) -> Answered[ReplyT, ReplyBodyT]:
    """What `handle` returns: at once, or after a worker thread has compiled the long expressions among
    these."""
    slow = broker.filters.compiler.slow(expressions)
    return _compile_first(broker, slow, handle) if slow else handle()


async def _compile_first(
    broker: BrokerContext, expressions: list[str], handle: Callable[[], Reply[ReplyT, ReplyBodyT] | None]
) -> Reply[ReplyT, ReplyBodyT] | None:
    await broker.filters.compiler.prepare(expressions)
    return await broker.store.when_ready(handle)


def no_topic(topic: str, before_faq: str = "") -> Refusal:
    return Refusal(
        ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{before_faq}{FAQ}"
    )


def refuse_on_slave(broker: BrokerContext) -> None:
    """Refuses changes on a slave: it copies topics and groups from its master."""
    if broker.is_slave:
        remark = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


@lru_cache(maxsize=4096)
def valid_topic(topic: str) -> str | None:
    """None for a valid topic name, else Java's remark."""
    try:
        check_topic(topic)
    except ValueError as error:
        return str(error)
    return None


def put_refusal(
    broker: BrokerContext, result: AppendResult, ext_fields: Mapping[str, str] | None = None
) -> Refusal:
    """The refusal of a put that stored nothing."""
    from broker.services.put import PUT_CODES

    code, remark = PUT_CODES.get(result.status, (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"))
    limit = broker.config.max_message_size
    text = remark.replace("{limit}", str(limit)).replace("{disk}", f"{broker.store.stats.disk_ratio:.2f}")
    return Refusal(code, text, ext_fields)
