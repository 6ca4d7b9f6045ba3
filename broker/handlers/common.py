"""Words and small steps that several handlers share; remarks are those of a 4.9.8 broker, which clients parse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.net.session import Session
from broker.store.values import AppendResult
from codec.bodies.base import encode_body
from codec.codes import ResponseCode
from codec.fastjson import FASTJSON
from codec.names import check_topic
from codec.remoting.frame import RemotingCommand

__all__ = [
    "FAQ",
    "NOT_SET",
    "BrokerHandler",
    "fast_body",
    "no_filtering",
    "no_topic",
    "ok",
    "put_refusal",
    "refuse_on_slave",
    "valid_topic",
]

BrokerHandler = Callable[[BrokerContext, Session, RemotingCommand], RemotingCommand | bytes | None]

FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
NOT_SET = "not set any response code"
"""The remark that several successful replies of Java keep."""


def ok(
    request: RemotingCommand, ext_fields: dict[str, str] | None = None, body: bytes | memoryview = b""
) -> RemotingCommand:
    return request.reply(ResponseCode.SUCCESS, None, ext_fields, body)


def fast_body(body: msgspec.Struct) -> bytes:
    """A body in fastjson's own form, compact: the one that Java and Go clients both read."""
    return encode_body(body, dialect=FASTJSON)


def no_filtering(expression_type: str | None) -> Refusal:
    """The answer to a subscription other than of tags while enablePropertyFilter is off."""
    remark = f"The broker does not support consumer to filter message by {expression_type}"
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)


def no_topic(topic: str, before_faq: str = "") -> Refusal:
    return Refusal(
        ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{before_faq}{FAQ}"
    )


def refuse_on_slave(broker: BrokerContext) -> None:
    """Topics and groups are changed on the master, from which slaves get them."""
    if broker.is_slave:
        remark = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


@lru_cache(maxsize=4096)
def valid_topic(topic: str) -> str | None:
    """None for a good topic name, else Java's words for what is wrong with it."""
    try:
        check_topic(topic)
    except ValueError as error:
        return str(error)
    return None


def put_refusal(
    broker: BrokerContext, result: AppendResult, ext_fields: Mapping[str, str] | None = None
) -> Refusal:
    """The answer to a put that stored nothing."""
    from broker.services.put import PUT_CODES

    code, remark = PUT_CODES.get(result.status, (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"))
    limit = broker.config.max_message_size
    text = remark.replace("{limit}", str(limit)).replace("{disk}", f"{broker.store.stats.disk_ratio:.2f}")
    return Refusal(code, text, ext_fields)
