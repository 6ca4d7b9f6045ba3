"""Requests read straight into their typed header equal those read in the general way, or are left to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from rmqcli.codec.codes import SerializeType
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.headers.base import Header, from_ext, to_ext
from rmqcli.codec.headers.pop import AckMessageRequestHeader, PopMessageRequestHeader
from rmqcli.codec.headers.pull import PullMessageRequestHeader, QueryMessageRequestHeader
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import DirectReader, DirectReaders, decode_frame, encode_frame
from tests.codec.values import structs

CODE = 310
PULL_CODE, POP_CODE, ACK_CODE = 11, 200050, 200051
OTHERS: dict[int, type[Header]] = {
    PULL_CODE: PullMessageRequestHeader,
    POP_CODE: PopMessageRequestHeader,
    ACK_CODE: AckMessageRequestHeader,
}
DIRECT = DirectReaders({CODE: SendMessageRequestHeaderV2, **OTHERS})
EXT = {
    "a": "group",
    "b": "Topic",
    "c": "TBW102",
    "d": "4",
    "e": "3",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "KEYS\x01k",
    "j": "0",
    "k": "false",
    "m": "false",
}


def _frame(ext: Any, code: int = CODE, **members: Any) -> bytes:
    """A frame whose header has these members, in the order in which Java writes them."""
    header = {"code": code, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": 7, **members}
    data = json.dumps(header, separators=(",", ":")).encode()
    return (4 + len(data) + 2).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + b"hi"


def _received(frame: bytes) -> RemotingCommand:
    (command,) = Connection(direct=DIRECT).receive(frame)
    return command


def test_the_header_comes_instead_of_the_ext_fields() -> None:
    command = _received(_frame(EXT))
    plain = decode_frame(_frame(EXT)[4:])
    assert command.header == from_ext(SendMessageRequestHeaderV2, plain.ext_fields)
    assert command.ext_fields is None
    command.header, command.ext_fields = None, plain.ext_fields
    assert command == plain


@given(structs(SendMessageRequestHeaderV2))
def test_any_header_that_can_be_written(header: SendMessageRequestHeaderV2) -> None:
    frame = encode_frame(RemotingCommand(CODE, to_ext(header), b"hi", opaque=7))
    assert _received(frame).header == header


@pytest.mark.parametrize("code", OTHERS)
@given(data=st.data())
def test_any_header_of_a_pull_or_pop_that_can_be_written(code: int, data: st.DataObject) -> None:
    header = data.draw(structs(OTHERS[code]))
    ext = to_ext(header)
    plain, direct = decode_frame(_frame(ext, code)[4:]), _received(_frame(ext, code))
    assert from_ext(OTHERS[code], plain.ext_fields) == header
    assert (direct.header or from_ext(OTHERS[code], direct.ext_fields)) == header


@pytest.mark.parametrize("code", OTHERS)
def test_a_usual_pull_or_pop_is_read_directly(code: int) -> None:
    needed = {field.encode_name: "7" for field in fields(OTHERS[code]) if field.required}
    assert type(_received(_frame(needed, code)).header) is OTHERS[code]


@pytest.mark.parametrize("code", OTHERS)
@given(
    st.data(),
    st.sampled_from(["AccessKey", "lo", "order", "queueOffset", "subVersion", "invisibleTime", "offset"]),
    st.sampled_from(["1", "true", "x", "", "-5", "007", "1e3", "9" * 19]),
)
def test_a_pull_or_pop_with_any_text_in_a_field(code: int, data: st.DataObject, name: str, text: str) -> None:
    frame = _frame({**to_ext(data.draw(structs(OTHERS[code]))), name: text}, code)
    plain, direct = decode_frame(frame[4:]), _received(frame)
    if direct.header is None:
        assert direct == plain
    else:
        assert direct.header == from_ext(OTHERS[code], plain.ext_fields)
        assert name != "AccessKey"


@pytest.mark.parametrize(
    "ext",
    [
        None,
        {},
        {**EXT, "e": "no number"},
        {**EXT, "e": 3, "b": 5},
        {**EXT, "m": "1"},
        {**EXT, "k": "1"},
        {**EXT, "d": None},
        {name: text for name, text in EXT.items() if name != "b"},
        {**EXT, "i": {"nested": 1}},
        {**EXT, "AccessKey": "RocketMQ", "Signature": "abc="},
    ],
)
def test_what_only_the_tolerant_way_can_read_is_left_to_it(ext: Any) -> None:
    command = _received(_frame(ext))
    assert command.header is None
    assert command == decode_frame(_frame(ext)[4:])


def test_damaged_headers_are_read_the_same_either_way() -> None:
    """Each byte of a header is replaced by each of those that have a meaning in JSON."""
    whole = _frame(EXT)
    direct = 0
    for position in range(8, len(whole) - 2):
        for byte in b'"{}[],:\\ 019a-etn\x00\xff':
            frame = whole[:position] + bytes((byte,)) + whole[position + 1 :]
            try:
                command = _received(frame)
            except RemoteProtocolError:
                with pytest.raises(RemoteProtocolError):
                    decode_frame(frame[4:])
                continue
            if command.header is not None:
                direct += 1
                assert command.header == from_ext(
                    SendMessageRequestHeaderV2, decode_frame(frame[4:]).ext_fields
                )
    assert direct > 500


@given(structs(SendMessageRequestHeaderV2))
def test_any_binary_header_that_can_be_written(header: SendMessageRequestHeaderV2) -> None:
    command = _received(_binary(to_ext(header)))
    assert (command.header or from_ext(SendMessageRequestHeaderV2, command.ext_fields)) == header


def test_a_usual_binary_header_is_read_into_its_typed_header() -> None:
    command, plain = _received(_binary(EXT)), decode_frame(_binary(EXT)[4:])
    assert command.header == from_ext(SendMessageRequestHeaderV2, EXT)
    assert command.ext_fields is None
    command.header, command.ext_fields = None, plain.ext_fields
    assert command == plain


@pytest.mark.parametrize(
    "changes",
    [
        {"e": "007"},
        {"e": "-1"},
        {"e": "+1"},
        {"e": ""},
        {"e": "1" * 10},
        {"g": "1" * 19},
        {"e": "٣"},
        {"k": "TRUE"},
        {"m": "1"},
        {"AccessKey": "RocketMQ"},
    ],
)
def test_what_only_the_general_binary_reader_can_tell_is_left_to_it(changes: dict[str, str]) -> None:
    frame = _binary({**EXT, **changes})
    assert _received(frame).header is None
    assert _received(frame) == decode_frame(frame[4:])


def test_damaged_binary_headers_are_read_the_same_either_way() -> None:
    whole, direct = _binary(EXT), 0
    for position in range(8, len(whole) - 2):
        for byte in b"\x00\x01\x02\x7f\x80\xffa019-":
            frame = whole[:position] + bytes((byte,)) + whole[position + 1 :]
            try:
                command = _received(frame)
            except RemoteProtocolError:
                with pytest.raises(RemoteProtocolError):
                    decode_frame(frame[4:])
                continue
            if command.header is not None:
                direct += 1
                ext = decode_frame(frame[4:]).ext_fields
                assert command.header == from_ext(SendMessageRequestHeaderV2, ext)
    assert direct > 400


def _binary(ext: dict[str, str]) -> bytes:
    return encode_frame(RemotingCommand(CODE, ext, b"hi", 7, serialize_type=SerializeType.ROCKETMQ))


def test_other_codes_are_not_read_that_way() -> None:
    assert _received(_frame(EXT, code=311)).header is None
    assert _received(_frame(EXT, code=31)).header is None


def test_a_broken_header_breaks_the_connection() -> None:
    data = b'{"code":310,"extFields":{'
    frame = (4 + len(data)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data
    with pytest.raises(RemoteProtocolError):
        _received(frame)


def test_a_header_that_would_lose_ext_fields_is_refused() -> None:
    with pytest.raises(TypeError, match="forbid unknown fields"):
        DirectReader(12, QueryMessageRequestHeader)
