"""The table of operations: complete, every class in its place, and readable and writable at both ends."""

from __future__ import annotations

import sys
from subprocess import run
from types import GenericAlias, UnionType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.bodies.acl import UserInfo
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmqcli.codec.bodies.stats import TopicOffset, TopicStatsTable
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.errors import BodyError, HeaderError
from rmqcli.codec.fastjson import FASTJSON, STANDARD
from rmqcli.codec.headers.base import Header
from rmqcli.codec.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rmqcli.codec.headers.signed import SignedSendV2
from rmqcli.codec.headers.topics import GetTopicStatsInfoRequestHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations import name_server, routes, topics
from rmqcli.codec.operations.access import Access, ResourceKind
from rmqcli.codec.operations.acl import AUTH_GET_USER
from rmqcli.codec.operations.clients import HEART_BEAT
from rmqcli.codec.operations.messages import PULL_MESSAGE
from rmqcli.codec.operations.operation import PROPERTIES, AnyOperation
from rmqcli.codec.remoting.command import RemotingCommand
from tests.codec.values import BODIES, HEADERS, structs
from tests.operations import ENTRIES, OPERATIONS
from tests.seeds import times

BASES = {"Header", "RpcRequestHeader", "TopicRequestHeader", "GroupQueueRequestHeader"}
PARTS = 4
"""Tests that share the operations, so that several cores do."""
DIRECTIONS = {"A", "B", "C", "N", "Ctl", "FS", "slave", "controller", "container"}


def body_classes(operation: AnyOperation) -> set[Any]:
    forms: tuple[Any, ...] = (operation.request_body, operation.reply_body)
    parts = [part for form in forms for part in (form.__args__ if isinstance(form, UnionType) else (form,))]
    is_list = [isinstance(part, GenericAlias) and part.__origin__ is list for part in parts]
    classes = {part.__args__[0] if many else part for part, many in zip(parts, is_list, strict=True)}
    return classes - {None, type(None)}


def test_every_entry_has_a_code_and_a_name_of_its_own() -> None:
    assert [name for name, entry in ENTRIES] == [entry.name for name, entry in ENTRIES]
    assert len({entry.code for _, entry in ENTRIES}) == len(ENTRIES)
    assert all(code is operation.code for code, operation in OPERATIONS.items())


def test_every_header_is_used() -> None:
    used = {cls for operation in OPERATIONS.values() for cls in (operation.request, operation.reply) if cls}
    assert {cls for cls in HEADERS if cls.__name__ not in BASES} == used | {SignedSendV2}


def test_every_body_is_used_in_a_body_or_as_a_file() -> None:
    used = set().union(*map(body_classes, OPERATIONS.values()))
    parts = " ".join(str(cls.__annotations__) for cls in BODIES)
    lonely = {cls.__name__ for cls in BODIES if cls not in used and cls.__name__ not in parts}
    files = {"ConsumerFilterManager", "DeletedTopics", "KVConfigSerializeWrapper", "OffsetSerializeWrapper"}
    files |= {"ConsumerOrderInfo", "PopInFlight", "UserTable"}
    files |= {"PopAck", "PopCheckPoint"}  # in records of the revive topic
    assert lonely == files | {"OffsetMovedEvent", "RegisterBrokerBody", "ResetOffsetBodyForC"}


def test_each_entry_makes_sense() -> None:
    for name, operation in ENTRIES:
        for header in (operation.request, operation.reply):
            assert header is None or issubclass(header, Header), name
        for cls in body_classes(operation):
            assert cls in {bytes, str} or cls == PROPERTIES or cls in BODIES, name
        assert operation.request is None or "Response" not in operation.request.__name__, name
        assert operation.reply is None or "Request" not in operation.reply.__name__, name
        assert operation.answered or (operation.reply, operation.reply_body) == (None, None), name
        if operation.direction:
            assert set(operation.direction.replace("/", "→").split("→")) <= DIRECTIONS, name
        else:
            assert (operation.request, operation.reply, body_classes(operation)) == (None, None, set()), name


def test_some_entries() -> None:
    assert PULL_MESSAGE.request is PullMessageRequestHeader
    assert (PULL_MESSAGE.reply, PULL_MESSAGE.reply_body) == (PullMessageResponseHeader, bytes)
    assert OPERATIONS[RequestCode.GET_BROKER_CONFIG].reply_body == PROPERTIES
    assert OPERATIONS[RequestCode.AUTH_LIST_USER].reply_body == list[UserInfo] | None


def test_an_entry_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        PULL_MESSAGE.direction = "B→C"  # type: ignore[misc]


def test_an_area_does_not_import_the_others() -> None:
    code = "import sys, rmqcli.codec.operations.routes; print(*sys.modules)"
    loaded = run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "rmqcli.codec.headers.routes" in loaded
    assert {
        "rmqcli.codec.headers.send",
        "rmqcli.codec.bodies.stats",
        "rmqcli.codec.operations.topics",
    }.isdisjoint(loaded)


# ---- access


def path_types(cls: Any, path: list[str]) -> Any:
    """The type at the end of a path of attributes."""
    for name in path:
        hint = get_type_hints(cls)[name]
        cls = next((part for part in (hint, *get_args(hint)) if isinstance(part, type)), None)
        cls = get_args(cls)[0] if isinstance(cls, GenericAlias) else cls
    return cls


def test_each_check_names_texts_of_the_request() -> None:
    for name, operation in ENTRIES:
        for access in operation.access:
            assert access.actions, name
            if access.kind is ResourceKind.CLUSTER:
                assert access.named_by == "", name
                continue
            path = access.named_by.split(".")
            holders = [cls for cls in (operation.request, operation.request_body) if cls is not None]
            holder = next((cls for cls in holders if path[0] in getattr(cls, "__struct_fields__", ())), None)
            assert holder is not None, name
            types = (int, str) if access.kind is ResourceKind.MESSAGE else (str,)
            assert path_types(holder, path) in types, name


def test_names_of_a_header_and_of_a_body() -> None:
    (access,) = topics.GET_TOPIC_STATS_INFO.access
    assert list(access.names(GetTopicStatsInfoRequestHeader(topic="T"), None)) == ["T"]
    subscriptions = [SubscriptionData(topic="T", sub_string="*"), SubscriptionData(topic="U", sub_string="*")]
    data = HeartbeatData(
        client_id="c",
        consumer_data_set=[
            ConsumerData(group_name=name, subscription_data_set=subscriptions) for name in "GH"
        ],
    )
    named = {access.kind: list(access.names(None, data)) for access in HEART_BEAT.access}
    assert named == {ResourceKind.GROUP: ["G", "H"], ResourceKind.TOPIC: ["T", "U"]}


def test_a_missing_name_is_no_name() -> None:
    assert list(Access(ResourceKind.TOPIC, (), "topic").names(None, None)) == []


# ---- both ends


def received(operation: AnyOperation, ext: dict[str, str] | None, body: bytes) -> RemotingCommand:
    return RemotingCommand(operation.code, ext, body)


def values(form: Any) -> st.SearchStrategy[Any]:
    if form is None:
        return st.none()
    if form is bytes:
        return st.binary(max_size=8)
    if form == PROPERTIES:
        return st.dictionaries(st.text("ab", min_size=1), st.text("xy"), max_size=3)
    if isinstance(form, UnionType):
        return st.none() | values(form.__args__[0])
    if isinstance(form, GenericAlias):
        return st.lists(st.text("ab") if form.__args__[0] is str else structs(form.__args__[0]), max_size=2)
    return structs(form)


@pytest.mark.parametrize("part", range(PARTS))
def test_what_one_end_writes_the_other_reads(part: int) -> None:
    for _, operation in ENTRIES[part::PARTS]:
        check_both_ends(operation)


def check_both_ends(operation: AnyOperation) -> None:
    @settings(max_examples=times(5))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        header = data.draw(values(operation.request))
        body = data.draw(values(operation.request_body))
        request = received(operation, *operation.encode_request(header, body))
        assert operation.decode_request(request) == (header, body), operation.name
        header = data.draw(values(operation.reply))
        body = data.draw(values(operation.reply_body))
        reply = received(operation, *operation.encode_reply(header, body))
        assert operation.decode_reply(reply) == (header, body), operation.name

    check()


def test_the_dialect_is_the_operations() -> None:
    stats = TopicStatsTable(offset_table={MessageQueue("T", "b", 0): TopicOffset(0, 1, 2)})
    operation = topics.GET_TOPIC_STATS_INFO
    assert operation.reply_dialect is FASTJSON
    assert operation.encode_reply(None, stats)[1].startswith(b'{"offsetTable":{{')
    assert operation.encode_reply(None, stats, STANDARD)[1].startswith(b'{"offsetTable":{"{')


def test_a_header_that_was_read_already_is_used() -> None:
    header = GetTopicStatsInfoRequestHeader(topic="T")
    command = RemotingCommand(202, {"topic": "other"}, header=header)
    assert topics.GET_TOPIC_STATS_INFO.decode_header(command) is header


def test_a_header_or_a_body_that_is_missing() -> None:
    with pytest.raises(HeaderError, match="topic is missing"):
        topics.GET_TOPIC_STATS_INFO.decode_request(RemotingCommand(202))
    with pytest.raises(BodyError):
        routes.GET_BROKER_CLUSTER_INFO.decode_reply(RemotingCommand(ResponseCode.SUCCESS))
    assert AUTH_GET_USER.decode_reply(RemotingCommand(ResponseCode.SUCCESS)).body is None
    assert name_server.REGISTER_BROKER.decode_reply(RemotingCommand(ResponseCode.SUCCESS)).body is None


def test_an_entry_is_hashable() -> None:
    assert len(set(OPERATIONS.values())) == len(OPERATIONS)
    assert isinstance(PULL_MESSAGE, msgspec.Struct)
