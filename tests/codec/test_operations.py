"""The table of operations: complete, and every class in its place."""

from __future__ import annotations

from types import GenericAlias

import pytest

from codec.bodies.acl import UserInfo
from codec.codes import RequestCode
from codec.headers.base import Header
from codec.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from codec.operations import OPERATIONS, Operation
from tests.codec.values import BODIES, HEADERS

BASES = {"Header", "RpcRequestHeader", "TopicRequestHeader", "TopicQueueRequestHeader"}
DIRECTIONS = {"A", "B", "C", "N", "Ctl", "FS", "slave", "controller", "container"}


def test_every_code_has_one_entry() -> None:
    assert set(OPERATIONS) == set(RequestCode)
    assert all(code is operation.code for code, operation in OPERATIONS.items())


def test_every_header_is_used() -> None:
    used = {cls for operation in OPERATIONS.values() for cls in (operation.request, operation.reply) if cls}
    assert {cls for cls in HEADERS if cls.__name__ not in BASES} == used


def test_every_body_is_used_in_a_body_or_as_a_file() -> None:
    used = {
        cls for operation in OPERATIONS.values() for cls in (operation.request_body, operation.reply_body)
    }
    used |= {cls.__args__[0] for cls in used if isinstance(cls, GenericAlias)}
    parts = " ".join(str(cls.__annotations__) for cls in BODIES)
    lonely = {cls.__name__ for cls in BODIES if cls not in used and cls.__name__ not in parts}
    files = {"ConsumerFilterManager", "KVConfigSerializeWrapper", "OffsetSerializeWrapper"}
    messages = {"AckMsg", "BatchAckMsg", "PopCheckPoint", "OffsetMovedEvent"}
    others = {"AclConfig", "ClusterAclVersionInfo", "ResetOffsetBodyForC"}
    assert lonely == files | messages | others


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.code.name)
def test_each_entry_makes_sense(operation: Operation) -> None:
    for header in (operation.request, operation.reply):
        assert header is None or issubclass(header, Header)
    for body in (operation.request_body, operation.reply_body):
        cls = body.__args__[0] if isinstance(body, GenericAlias) else body
        assert cls in {None, bytes, dict, str} or cls in BODIES
    assert operation.request is None or "Response" not in operation.request.__name__
    assert operation.reply is None or "Request" not in operation.reply.__name__
    if operation.direction:
        assert set(operation.direction.replace("/", "→").split("→")) <= DIRECTIONS
    else:
        assert operation[1:5] == (None, None, None, None)


def test_some_entries() -> None:
    assert OPERATIONS[RequestCode.PULL_MESSAGE] == Operation(
        RequestCode.PULL_MESSAGE, PullMessageRequestHeader, PullMessageResponseHeader, None, bytes, "C→B"
    )
    assert OPERATIONS[RequestCode.GET_BROKER_CONFIG].reply_body is dict
    assert OPERATIONS[RequestCode.AUTH_LIST_USER].reply_body == list[UserInfo]
    assert OPERATIONS[RequestCode.SUSPEND_CONSUMER].direction == ""


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        OPERATIONS[RequestCode.HEART_BEAT] = OPERATIONS[RequestCode.PULL_MESSAGE]  # type: ignore[index]
