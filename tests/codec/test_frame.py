from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rmqcli.codec.codes import RPC_ONEWAY, RPC_RESPONSE, LanguageCode, RequestCode, SerializeType
from rmqcli.codec.errors import LocalProtocolError, RemoteProtocolError
from rmqcli.codec.remoting.command import UNKNOWN_LANGUAGE, UNKNOWN_OPAQUE, RemotingCommand
from rmqcli.codec.remoting.frame import (
    MAX_FRAME,
    decode_frame,
    encode_frame,
    encode_frame_head,
    encode_short_reply,
)
from rmqcli.codec.versions import CURRENT_VERSION
from tests.codec.wire import raw_frame, with_length

JSON, ROCKETMQ = SerializeType.JSON, SerializeType.ROCKETMQ


def reply_38(**changes: Any) -> RemotingCommand:
    values: dict[str, Any] = {
        "code": 0,
        "ext_fields": {"offset": "3"},
        "opaque": 38,
        "flag": RPC_RESPONSE,
        "remark": "FOUND",
        "language": LanguageCode.JAVA,
        "version": 409,
    }
    return RemotingCommand(**(values | changes))


# what a Java peer writes, to the byte
JAVA_HEADERS = [
    (
        b'{"code":0,"extFields":{"offset":"3"},"flag":1,"language":"JAVA","opaque":38,"remark":"FOUND",'
        b'"serializeTypeCurrentRPC":"JSON","version":409}',
        reply_38(),
    ),
    (
        b'{"code":105,"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":409}',
        RemotingCommand(105, opaque=1, language=LanguageCode.JAVA),
    ),
    (
        b'{"code":1,"extFields":{},"flag":1,"language":"JAVA","opaque":38,"remark":"no\\n\\"group\\" \xe4\xb8\xad",'
        b'"serializeTypeCurrentRPC":"JSON","version":409}',
        reply_38(code=1, ext_fields={}, remark='no\n"group" 中'),
    ),
    (
        bytes.fromhex(
            "0000 00 0199 0000004d 00000001 00000000 0000000d 0006 6f6666736574 00000001 33".replace(" ", "")
        ),
        reply_38(opaque=77, remark=None, serialize_type=ROCKETMQ),
    ),
    (
        bytes.fromhex("0069 09 013d 00000001 00000000 00000000 00000000".replace(" ", "")),
        RemotingCommand(105, opaque=1, language=LanguageCode.GO, version=317, serialize_type=ROCKETMQ),
    ),
    (
        bytes.fromhex(
            "ffff ff ffff ffffffff 00000003 00000002 c3a9 0000000a 0000 00000000 0001 6b 00000000".replace(
                " ", ""
            ).replace("0000000a", "0000000d")
        ),
        RemotingCommand(
            -1, {"": "", "k": ""}, b"", -1, RPC_RESPONSE | RPC_ONEWAY, "é", -1, -1, serialize_type=ROCKETMQ
        ),
    ),
]


@pytest.mark.parametrize("body", [b"", b"body"])
@pytest.mark.parametrize(("header", "command"), JAVA_HEADERS)
def test_java_headers_both_ways(header: bytes, command: RemotingCommand, body: bytes) -> None:
    expected = msgspec.structs.replace(command, body=body)
    raw = raw_frame(header, body, kind=command.serialize_type)
    assert decode_frame(raw) == expected
    assert encode_frame(expected) == with_length(raw)
    assert encode_frame_head(command, len(body)) + body == with_length(raw)


def member(text: str, **changes: Any) -> tuple[str, RemotingCommand]:
    return text, reply_38(**({"remark": None, "ext_fields": None} | changes))


# (members of the header beside the ones every case has, what they are read as)
TOLERATED = [
    member('"code":"10"', code=10),
    member('"code":" 10 "', code=10),
    member('"code":-3', code=-3),
    member('"code":null', code=0),
    member('"code":""', code=0),
    member('"code":true', code=1),
    member('"code":10.9', code=10),
    member('"code":2147483647', code=2**31 - 1),
    member('"opaque":"-2147483648"', opaque=-(2**31)),
    member('"flag":"3"', flag=3),
    member('"version":"317"', version=317),
    member('"language":"GO"', language=LanguageCode.GO),
    member('"language":"go","code":"0"', language=LanguageCode.GO),
    member('"language":9', language=LanguageCode.GO),
    member('"language":"9","code":"0"', language=LanguageCode.GO),
    member('"language":99', language=UNKNOWN_LANGUAGE),
    member('"language":-1', language=UNKNOWN_LANGUAGE),
    member('"language":1.5', language=UNKNOWN_LANGUAGE),
    member('"language":123456789', language=UNKNOWN_LANGUAGE),
    member('"language":"COBOL"', language=UNKNOWN_LANGUAGE),
    member('"language":{"name":"GO"}', language=UNKNOWN_LANGUAGE),
    member('"language":null', language=UNKNOWN_LANGUAGE),
    member('"remark":null'),
    member('"remark":""', remark=""),
    member('"remark":7', remark="7"),
    member('"remark":{"a": [1]}', remark='{"a":[1]}'),
    member('"remark":"\\u4e2d\\ud83d\\ude00"', remark="中😀"),
    member('"extFields":null'),
    member('"extFields":{}', ext_fields={}),
    member('"extFields":{"a":1,"b":"2"}', ext_fields={"a": "1", "b": "2"}),
    member('"extFields":{"a":-1.50}', ext_fields={"a": "-1.50"}),
    member('"extFields":{"a":9223372036854775807}', ext_fields={"a": "9223372036854775807"}),
    member('"extFields":{"a":true,"b":false}', ext_fields={"a": "true", "b": "false"}),
    member('"extFields":{"a":null,"b":"c"}', ext_fields={"b": "c"}),
    member('"extFields":{"a":{"k": [1, "x"]}}', ext_fields={"a": '{"k":[1,"x"]}'}),
    member('"extFields":{"a":"\\u0001\\u0002","n":1}', ext_fields={"a": "\1\2", "n": "1"}),
    member('"extFields":{"a":"x","a":"y"}', ext_fields={"a": "y"}),
    member('"suspended":false,"unknown":{"deep":[[]]}'),
    member('"serializeTypeCurrentRPC":"NONSENSE"'),
    member('"serializeTypeCurrentRPC":5'),
]


@pytest.mark.parametrize(("members", "expected"), TOLERATED)
def test_json_that_java_accepts(members: str, expected: RemotingCommand) -> None:
    given_names = json.loads("{" + members + "}")
    usual = {"code": 0, "flag": 1, "language": "JAVA", "opaque": 38, "version": 409}
    rest = {name: value for name, value in usual.items() if name not in given_names}
    text = json.dumps(rest)[:-1] + (", " if rest else "") + members + "}"
    assert decode_frame(raw_frame(text.encode())) == expected


def test_members_that_are_missing() -> None:
    assert decode_frame(raw_frame(b" {\n} ")) == RemotingCommand(
        0, None, b"", UNKNOWN_OPAQUE, 0, None, UNKNOWN_LANGUAGE, 0
    )


def test_text_that_is_not_utf8_is_read_as_java_reads_it() -> None:
    json_header = b'{"code":1,"extFields":{"i":"KEYS\xd6\xd0"},"opaque":1}'
    assert decode_frame(raw_frame(json_header)).ext_fields == {"i": "KEYS\ufffd\ufffd"}
    entry = b"\0\2\xd6i" + b"\0\0\0\4a\xff\xc3\xa9"
    binary_header = b"\0" * 13 + b"\0\0\0\1\xff" + len(entry).to_bytes(4, "big") + entry
    read = decode_frame(raw_frame(binary_header, kind=1))
    assert (read.remark, read.ext_fields) == ("\ufffd", {"\ufffdi": "a\ufffdé"})


def test_binary_header_with_bytes_after_its_ext_fields() -> None:
    header = encode_frame_head(reply_38(serialize_type=ROCKETMQ), 0)[8:]
    assert decode_frame(raw_frame(header + b"later", kind=1)) == reply_38(serialize_type=ROCKETMQ)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_gives_bytes(wrap: Any) -> None:
    raw = raw_frame(JAVA_HEADERS[0][0], b"body")
    read = decode_frame(wrap(raw))
    assert read == reply_38(body=b"body")
    assert type(read.body) is bytes


BINARY_FIXED = "0000 00 0199 0000004d 00000001"

# (frame in hex or bytes, what the error says)
BROKEN: list[tuple[bytes, str]] = [
    (b"", "0 bytes has no room"),
    (b"\0\0\0", "3 bytes has no room"),
    (b"\0\0\0\3{}", "header of 3 bytes in a frame of 6"),
    (b"\0\xff\xff\xff{}", "header of 16777215 bytes"),
    (b"\2\0\0\2{}", "unknown serialize type 2"),
    (b"\xff\0\0\2{}", "unknown serialize type 255"),
    (raw_frame(b""), "unreadable JSON"),
    (raw_frame(b"{"), "unreadable JSON"),
    (raw_frame(b"[]"), "unreadable JSON"),
    (raw_frame(b"null"), "unreadable JSON"),
    (raw_frame(b'{"code":1}x'), "unreadable JSON"),
    (raw_frame(b"{'code':1}"), "unreadable JSON"),
    (raw_frame(b'{"code":"ten"}'), "'ten' is not an int"),
    (raw_frame(b'{"code":"1_0"}'), "'1_0' is not an int"),
    (raw_frame('{"code":"１"}'.encode()), "is not an int"),
    (raw_frame(b'{"code":2147483648}'), "does not fit"),
    (raw_frame(b'{"code":"-2147483649"}'), "does not fit"),
    (raw_frame(b'{"code":1e300}'), "does not fit"),
    (raw_frame(b'{"version":' + b"4" * 400 + b"}"), "does not fit"),
    (raw_frame(b'{"flag":-' + b"4" * 400 + b"}"), "does not fit"),
    (raw_frame(b'{"code":1e999}'), "unreadable JSON"),
    (raw_frame(b'{"code":' + b"9" * 5000 + b"}"), "unreadable JSON"),
    (raw_frame(b'{"code":[1]}'), "unreadable JSON"),
    (raw_frame(b'{"extFields":[1]}'), "unreadable JSON"),
    (raw_frame(b'{"extFields":"a"}'), "unreadable JSON"),
    (raw_frame(b'{"extFields":{"a":' + b"[" * 100_000 + b"}}"), "unreadable JSON"),
    (raw_frame(b'{"x":' + b'{"x":' * 100_000 + b"1"), "unreadable JSON"),
    (raw_frame(b'{"remark":"\\ud800"}'), "unreadable JSON"),
    *(
        (raw_frame(bytes.fromhex((BINARY_FIXED + rest).replace(" ", "")), kind=1), complaint)
        for rest, complaint in [
            ("", "17 bytes|13 bytes"),
            ("00000000", "ends too early"),
            ("00000005 41424344 00000000", "ends too early"),
            ("ffffffff 00000000", "ends too early"),
            ("00000000 00000001", "ext fields end at 22 in a binary header of 21"),
            ("00000000 ffffffff", "ext fields end at"),
            ("00000000 00000001 00", "ends too early"),
            ("00000000 00000006 0001 41 00 00 00", "ends too early"),
            ("00000000 00000007 0001 41 00000001", "an ext field ends at 29, their block at 28"),
            ("00000000 00000007 0001 41 ffffffff", "an ext field ends at"),
            ("00000000 00000007 ffff 41 00000000", "the name of an ext field has -1 bytes"),
            ("00000000 00000006 0001 41 00000000", "ends too early"),
        ]
    ),
    (b"\1\0\0\0", "0 bytes ends too early"),
]


@pytest.mark.parametrize(("frame", "complaint"), BROKEN, ids=range(len(BROKEN)))
def test_broken_frames(frame: bytes, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint):
        decode_frame(frame)


# (command, length of its body, what the error says)
UNSENDABLE = [
    (RemotingCommand(RequestCode.POP_MESSAGE, serialize_type=ROCKETMQ), 0, "cannot be sent as ROCKETMQ"),
    (RemotingCommand(-32769, serialize_type=ROCKETMQ), 0, "cannot be sent as ROCKETMQ"),
    (RemotingCommand(1, version=32768, serialize_type=ROCKETMQ), 0, "cannot be sent as ROCKETMQ"),
    (RemotingCommand(1, opaque=2**31, serialize_type=ROCKETMQ), 0, "cannot be sent as ROCKETMQ"),
    (RemotingCommand(1, {"k" * 32768: ""}, serialize_type=ROCKETMQ), 0, "cannot be sent as ROCKETMQ"),
    (RemotingCommand(1, {"k": "\ud800"}, serialize_type=ROCKETMQ), 0, "cannot be sent as ROCKETMQ"),
    (RemotingCommand(1, remark="\ud800"), 0, "cannot be sent as JSON"),
    (RemotingCommand(1), MAX_FRAME, "over the limit of 16777216"),
    (RemotingCommand(1, {"k": "x" * MAX_FRAME}), 0, "over the limit of 16777216"),
]


@pytest.mark.parametrize(("command", "body_length", "complaint"), UNSENDABLE)
def test_what_the_protocol_cannot_carry(command: RemotingCommand, body_length: int, complaint: str) -> None:
    with pytest.raises(LocalProtocolError, match=complaint):
        encode_frame_head(command, body_length)


def test_the_longest_frame() -> None:
    header_size = len(encode_frame_head(RemotingCommand(1), 0))
    room = MAX_FRAME - header_size
    assert len(encode_frame_head(RemotingCommand(1), room)) + room == MAX_FRAME
    with pytest.raises(LocalProtocolError):
        encode_frame_head(RemotingCommand(1), room + 1)


@pytest.mark.parametrize("ext_fields", [{}, {"offset": "-1"}, {"ключ": 'a"\\\n', "%d": "%s"}])
@pytest.mark.parametrize("code", [0, 2, 206, -1])
@pytest.mark.parametrize("opaque", [0, 7, -1, 2**31 - 1])
def test_a_short_reply_is_what_the_general_encoder_writes(
    ext_fields: dict[str, str], code: int, opaque: int
) -> None:
    reply = RemotingCommand(code, ext_fields, opaque=opaque, flag=RPC_RESPONSE)
    assert encode_short_reply(code, ext_fields, opaque) == encode_frame(reply)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [("\ud800", "cannot be sent as JSON"), ("x" * MAX_FRAME, "over the limit of 16777216")],
)
def test_a_short_reply_that_the_protocol_cannot_carry(value: str, complaint: str) -> None:
    with pytest.raises(LocalProtocolError, match=complaint):
        encode_short_reply(0, {"k": value}, 1)


def test_pop_codes_go_as_json() -> None:
    sent = encode_frame(RemotingCommand(RequestCode.POP_MESSAGE))
    assert decode_frame(sent[4:]).code == 200050


@pytest.mark.parametrize("number", [UNKNOWN_LANGUAGE, 14, 100])
def test_a_language_without_a_name_is_left_out_of_json(number: int) -> None:
    sent = encode_frame(RemotingCommand(1, language=number))
    assert b"language" not in sent
    assert decode_frame(sent[4:]).language == UNKNOWN_LANGUAGE


@pytest.mark.parametrize("empty", [{"remark": ""}, {"ext_fields": {}}, {}])
def test_empty_is_none_in_a_binary_header(empty: dict[str, Any]) -> None:
    read = decode_frame(encode_frame(RemotingCommand(1, serialize_type=ROCKETMQ, **empty))[4:])
    assert (read.remark, read.ext_fields) == (None, None)


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_a_reply(serialize_type: SerializeType) -> None:
    request = RemotingCommand(310, opaque=7, flag=0, language=LanguageCode.CPP, serialize_type=serialize_type)
    reply = request.reply(10, "late", {"msgId": "x"}, b"body")
    assert reply == RemotingCommand(
        10,
        {"msgId": "x"},
        b"body",
        7,
        RPC_RESPONSE,
        "late",
        LanguageCode.PYTHON,
        CURRENT_VERSION,
        serialize_type,
    )
    assert (reply.is_response, reply.is_oneway) == (True, False)
    assert (request.is_response, request.is_oneway) == (False, False)
    assert RemotingCommand(40, flag=RPC_ONEWAY).is_oneway


def test_a_body_may_be_a_view() -> None:
    view = memoryview(b"__body")[2:]
    assert encode_frame(reply_38(body=view)) == encode_frame(reply_38(body=b"body"))
