"""Headers: both directions for every class, every recorded frame, and the tolerance of Java's reader."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.codes import Perm
from rmqcli.codec.errors import HeaderError
from rmqcli.codec.headers.base import Header, from_ext, to_ext
from rmqcli.codec.headers.brokers import RegisterMessageFilterClassRequestHeader
from rmqcli.codec.headers.clients import UnregisterClientRequestHeader
from rmqcli.codec.headers.offsets import GetMaxOffsetRequestHeader
from rmqcli.codec.headers.pop import NotificationResponseHeader
from rmqcli.codec.headers.pull import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rmqcli.codec.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rmqcli.codec.headers.signed import SignedSendV2
from rmqcli.codec.headers.topics import CreateTopicRequestHeader
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame
from tests.codec.values import HEADERS, structs
from tests.codec.wire import Wire
from tests.operations import OPERATIONS
from tests.seeds import times

# Ext entries that no header class has: ACL, region and trace of a send reply, the kind of a query, 5.x's request kind.
EXTRA = {"ReqT", "MSG_REGION", "TRACE_ON", "_UNIQUE_KEY_QUERY", "AccessKey", "Signature"}

BY_NUMBER = {int(code): operation for code, operation in OPERATIONS.items()}
# The recorded run asked once for a code that nobody knows.
UNKNOWN_CODE = 29999

V2_EXT = {
    "a": "producers",
    "b": "TopicA",
    "c": "TBW102",
    "d": "4",
    "e": "2",
    "f": "1",
    "g": "1795225474044",
    "h": "7",
    "i": "KEYS\x01k0\x02WAIT\x01true",
    "j": "3",
    "k": "true",
    "l": "16",
    "m": "false",
    "n": "broker-a",
}
PULL_EXT = {
    "consumerGroup": "readers",
    "topic": "TopicA",
    "queueId": "0",
    "queueOffset": "-1",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "20000",
}


def test_every_header_comes_back_from_its_ext_fields() -> None:
    for cls in HEADERS:
        check_header(cls)


def check_header(cls: type[Header]) -> None:
    @settings(max_examples=times(7), deadline=None)
    @given(structs(cls))
    def check(header: Header) -> None:
        ext = to_ext(header)
        assert all(type(name) is str and type(text) is str for name, text in ext.items()), cls
        assert from_ext(cls, ext) == header, cls

    check()


def test_every_recorded_header_is_read_and_written_to_the_same_values(wire: Wire) -> None:
    seen = 0
    for row, frame in zip(wire.index, wire.frames, strict=True):
        cls, command = _class_of(row, frame)
        if cls is None or not command.ext_fields:
            continue
        header = from_ext(cls, command.ext_fields)
        written = to_ext(header)
        known = {name: text for name, text in command.ext_fields.items() if name not in EXTRA}
        assert known.items() <= written.items(), (row, written)
        assert from_ext(cls, written) == header
        seen += 1
    assert seen > 300


def _class_of(row: dict[str, Any], frame: bytes) -> tuple[type[Header] | None, RemotingCommand]:
    command = decode_frame(frame[4:])
    answers = row["type"] == "response"
    operation = BY_NUMBER.get(row["reqcode"] if answers else command.code)
    if operation is None:
        assert row.get("reqcode", command.code) == UNKNOWN_CODE
        return None, command
    if not answers:
        return operation.request, command
    complete = command.code == 0 or operation.reply is PullMessageResponseHeader
    return operation.reply if complete else None, command


def test_wire_names_follow_one_rule() -> None:
    names = {
        field.encode_name: field.name
        for cls in HEADERS
        if cls not in {SendMessageRequestHeaderV2, SignedSendV2}
        for field in msgspec.structs.fields(cls)
    }
    odd = {wire for wire, name in names.items() if wire != _camel(name)}
    assert odd == {"clientID", "classCRC", "READ_AHEAD_MODE", "ReqT", "MSG_REGION", "TRACE_ON"}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_compact_send_names() -> None:
    header = from_ext(SendMessageRequestHeaderV2, V2_EXT)
    assert header == SendMessageRequestHeaderV2(
        producer_group="producers",
        topic="TopicA",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=2,
        sys_flag=1,
        born_timestamp=1795225474044,
        flag=7,
        properties="KEYS\x01k0\x02WAIT\x01true",
        reconsume_times=3,
        unit_mode=True,
        max_reconsume_times=16,
        batch=False,
        bname="broker-a",
    )
    assert to_ext(header) == V2_EXT
    long = to_ext(SendMessageRequestHeader(**msgspec.structs.asdict(header)))
    assert long["producerGroup"] == "producers"
    assert long["maxReconsumeTimes"] == "16"
    assert long["bname"] == "broker-a"
    assert sorted(long.values()) == sorted(V2_EXT.values())


@pytest.mark.parametrize("missing", ["i", "j", "k", "l", "m", "n"])
def test_the_optional_letters_of_a_send_have_defaults(missing: str) -> None:
    header = from_ext(
        SendMessageRequestHeaderV2, {name: text for name, text in V2_EXT.items() if name != missing}
    )
    expected = {"i": None, "j": 0, "k": False, "l": None, "m": False, "n": None}[missing]
    assert (
        getattr(header, SendMessageRequestHeaderV2.__struct_fields__["abcdefghijklmn".index(missing)])
        == expected
    )


@pytest.mark.parametrize("missing", list("abcdefgh"))
def test_a_missing_mandatory_field_is_named(missing: str) -> None:
    with pytest.raises(HeaderError, match=rf"SendMessageRequestHeaderV2: {missing} is missing") as caught:
        from_ext(SendMessageRequestHeaderV2, {name: text for name, text in V2_EXT.items() if name != missing})
    assert caught.value.field == missing


def test_no_ext_fields_at_all_names_the_first_mandatory_field() -> None:
    with pytest.raises(HeaderError) as caught:
        from_ext(PullMessageRequestHeader, None)
    assert caught.value.field == "consumerGroup"


@pytest.mark.parametrize(
    "text", ["", "x", "0x1", "2147483648", "-2147483649", "1_0", "٣", "9" * 5000, "null"]
)
def test_an_integer_that_cannot_be_parsed_is_missing(text: str) -> None:
    with pytest.raises(HeaderError, match="queueId cannot be") as caught:
        from_ext(GetMaxOffsetRequestHeader, {"topic": "t", "queueId": text})
    assert caught.value.field == "queueId"
    assert from_ext(SendMessageRequestHeaderV2, V2_EXT | {"j": text, "l": text}).max_reconsume_times is None
    assert from_ext(PullMessageRequestHeader, PULL_EXT | {"maxMsgBytes": text}).max_msg_bytes is None


@pytest.mark.parametrize(("text", "value"), [("007", 7), ("+5", 5), ("-0", 0), ("2147483647", 2147483647)])
def test_integers_as_java_parses_them(text: str, value: int) -> None:
    assert from_ext(GetMaxOffsetRequestHeader, {"topic": "t", "queueId": text}).queue_id == value


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809"])
def test_a_long_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(HeaderError):
        from_ext(ViewMessageRequestHeader, {"offset": text})
    assert from_ext(ViewMessageRequestHeader, {"offset": "9223372036854775807"}).offset == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("TRUE", True),
        ("True", True),
        ("false", False),
        ("1", False),
        ("yes", False),
        ("", False),
    ],
)
def test_only_true_is_true(text: str, value: bool) -> None:
    assert from_ext(NotificationResponseHeader, {"hasMsg": text}).has_msg is value
    assert from_ext(SendMessageRequestHeaderV2, V2_EXT | {"m": text}).batch is value


def test_text_is_kept_as_it_is() -> None:
    header = from_ext(
        CreateTopicRequestHeader, {"topic": "null", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    )
    assert header.topic == "null"
    assert header.default_topic == "TBW102"
    assert header.topic_filter_type == "SINGLE_TAG"


def test_odd_wire_names() -> None:
    assert to_ext(UnregisterClientRequestHeader(client_id="c")) == {"clientID": "c"}
    header = RegisterMessageFilterClassRequestHeader(
        consumer_group="g", topic="t", class_name="C", class_crc=9
    )
    assert to_ext(header)["classCRC"] == "9"


def test_base_fields_and_what_is_left_out() -> None:
    header = from_ext(
        PullMessageRequestHeader,
        PULL_EXT | {"bname": "b", "ns": "x", "nsd": "true", "oway": "false", "lo": "TRUE"},
    )
    assert (header.bname, header.ns, header.nsd, header.oway, header.lo) == ("b", "x", True, False, True)
    assert to_ext(from_ext(PullMessageRequestHeader, PULL_EXT)) == PULL_EXT | {"subVersion": "0"}


def test_members_of_enums_go_by_value() -> None:
    header = CreateTopicRequestHeader(
        topic="t", read_queue_nums=1, write_queue_nums=1, perm=Perm.READ | Perm.WRITE
    )
    assert to_ext(header)["perm"] == "6"


@settings(max_examples=times(50), deadline=None)
@given(st.sampled_from(HEADERS), st.data())
def test_the_slow_and_the_fast_reader_agree(cls: type[Header], data: st.DataObject) -> None:
    ext = to_ext(data.draw(structs(cls)))
    # An optional field that msgspec refuses sends the whole header down the slow way.
    poisoned = from_ext(cls, dict(ext) | {"nsd": "maybe"})
    expected = from_ext(cls, ext)
    if "nsd" in cls.__struct_encode_fields__:
        expected = msgspec.structs.replace(expected, nsd=False)
    assert json.dumps(to_ext(poisoned)) == json.dumps(to_ext(expected))
