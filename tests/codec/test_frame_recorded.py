from __future__ import annotations

import json
from typing import Any

import construct
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec.codes import LanguageCode, SerializeType
from rmqcli.codec.remoting.binary_header import BINARY_HEADER
from rmqcli.codec.remoting.command import UNKNOWN_LANGUAGE, RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame, encode_frame, encode_frame_head
from rmqcli.codec.remoting.json_header import decode_json_header, decode_json_header_loosely
from tests.codec.samples import INT32
from tests.codec.wire import Wire, raw_frame

ROCKETMQ = SerializeType.ROCKETMQ


# ------------------------------------------------------------------------------------------------------ recorded frames


def test_every_recorded_frame_is_read_and_written_again(wire: Wire) -> None:
    for row, frame in zip(wire.index, wire.frames, strict=True):
        read = decode_frame(frame[4:])
        assert read.code == row["code"]
        assert read.opaque == row["opaque"]
        assert read.flag == row["flag"]
        assert read.version == row["version"]
        assert read.serialize_type.name == row["serialize"]
        assert len(read.body) == row["bodyLen"]
        assert read.is_response == (row["type"] == "response")
        assert read.is_oneway == bool(row["flag"] & 2)
        assert encode_frame(read) == frame


def test_recorded_json_headers_against_the_standard_library(wire: Wire) -> None:
    for row, frame in zip(wire.index, wire.frames, strict=True):
        if row["serialize"] != "JSON":
            continue
        expected = json.loads(wire.header_of(row))
        read = decode_frame(frame[4:])
        assert read.ext_fields == expected.get("extFields")
        assert read.remark == expected.get("remark")
        assert LanguageCode(read.language).name == expected["language"]


def test_recorded_binary_headers_against_the_declaration(wire: Wire) -> None:
    rows = [row for row in wire.index if row["serialize"] == "ROCKETMQ"][::50]
    for row in rows:
        header = wire.header_of(row)
        expected = BINARY_HEADER.parse(header)
        read = decode_frame(raw_frame(header, kind=1))
        assert (read.code, read.language, read.version) == (
            expected.head.code,
            expected.head.language,
            expected.head.version,
        )
        assert (read.remark or "").encode() == expected.remark
        assert list((read.ext_fields or {}).items()) == [
            (entry.name.decode(), entry.value.decode()) for entry in expected.ext_fields
        ]


def test_the_tolerant_reader_agrees_with_the_fast_one(wire: Wire) -> None:
    for row in wire.index:
        if row["serialize"] == "JSON":
            header = wire.header_of(row)
            assert decode_json_header_loosely(header, b"") == decode_json_header(header, b"")


# ---------------------------------------------------------------------------------------------------------- any command

int16 = st.integers(-(2**15), 2**15 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@st.composite
def commands(draw: st.DrawFn) -> RemotingCommand:
    serialize_type = draw(st.sampled_from(SerializeType))
    binary = serialize_type is ROCKETMQ
    nothing: list[Any] = [None] if binary else [None, "", {}]
    return RemotingCommand(
        draw(int16 if binary else INT32),
        draw(st.dictionaries(texts, texts, min_size=1, max_size=6) | st.sampled_from(nothing[::2])),
        draw(st.binary(max_size=60)),
        draw(INT32),
        draw(INT32),
        draw(texts.filter(bool) | st.sampled_from(nothing[:2])),
        draw(st.sampled_from([UNKNOWN_LANGUAGE, *map(int, LanguageCode)])),
        draw(int16 if binary else INT32),
        serialize_type,
    )


@given(commands())
def test_any_command_comes_back(command: RemotingCommand) -> None:
    frame = encode_frame(command)
    assert decode_frame(frame[4:]) == command
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


@given(commands())
def test_binary_headers_are_built_as_declared(command: RemotingCommand) -> None:
    command = msgspec.structs.replace(
        command, serialize_type=ROCKETMQ, code=command.code % 2**15, version=command.version % 2**15
    )
    remark = (command.remark or "").encode()
    built = BINARY_HEADER.build(
        construct.Container(
            head=construct.Container(
                code=command.code,
                language=command.language,
                version=command.version,
                opaque=command.opaque,
                flag=command.flag,
                remark_length=len(remark),
            ),
            remark=remark,
            ext_fields=[
                construct.Container(name=name.encode(), value=value.encode())
                for name, value in (command.ext_fields or {}).items()
            ],
        )
    )
    assert encode_frame_head(command, 0)[8:] == built
