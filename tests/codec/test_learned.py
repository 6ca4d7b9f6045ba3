"""Requests read by layouts that were learned equal those read in the general way, or are left to it."""

from __future__ import annotations

import random
from binascii import b2a_base64
from collections.abc import Iterator
from hashlib import sha1
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.codes import SerializeType
from codec.errors import HeaderError, RemoteProtocolError
from codec.headers.base import Header, from_ext, to_ext
from codec.remoting import learned
from codec.remoting.connection import Connection, ReceiveError
from codec.remoting.frame import DirectReaders, RemotingCommand, decode_frame, encode_frame
from codec.remoting.varying import VARYING
from tests.codec.wire import KINDS, load_wire

SENDS = 10, 310, 320
HEADERS: dict[int, type[Header]] = {int(code): varying.header for code, varying in VARYING.items()}
OTHERS: dict[int, dict[str, Any]] = {
    11: {
        "consumer_group": "a group of consumers",
        "topic": "Topic",
        "queue_id": 3,
        "queue_offset": 1_234,
        "max_msg_nums": 32,
        "sys_flag": 3,
        "commit_offset": 987,
        "suspend_timeout_millis": 15_000,
        "subscription": "*",
        "request_type": "0",
    },
    15: {"consumer_group": "a group of consumers", "topic": "Topic", "queue_id": 3, "commit_offset": 987},
}
OTHERS[361] = OTHERS[11]
BYTES = b'"{}[],:\\ 019-+ae_\x00\x01\x02\xc3\xff'


def header(code: int = 310, **values: Any) -> Header:
    if code in OTHERS:
        return HEADERS[code](**{**OTHERS[code], **values})
    return HEADERS[code](
        **{
            "producer_group": "a group of producers",
            "topic": "Topic",
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 3,
            "sys_flag": 0,
            "born_timestamp": 1_700_000_000_000,
            "flag": 0,
            "properties": "KEYS\x01k\x02UNIQ_KEY\x01C000020218BC5FFD2B27675EEBFC002A",
            **values,
        }
    )


def frame(kind: SerializeType, code: int = 310, opaque: int = 7, ext: Any = (), **values: Any) -> bytes:
    fields = {**to_ext(header(code, **values)), **dict(ext)}
    return encode_frame(RemotingCommand(code, fields, b"body", opaque, language=0, serialize_type=kind))


def general(data: bytes) -> RemotingCommand | None:
    """The command with a typed header, where that can be made; None for bytes that end a connection."""
    try:
        command = decode_frame(data[4:])
    except RemoteProtocolError:
        return None
    varying = VARYING.get(command.code)
    if varying is not None:
        signed = varying.signed if b"Signature" in data else None
        header_class = (signed or varying).header
        try:
            command.header = from_ext(header_class, command.ext_fields)
        except HeaderError:
            return command
    return command


def compare(connection: Connection, data: bytes) -> bool:
    """Compares what a connection reads with the general reader's; True if a layout read it."""
    expected = general(data)
    try:
        (command,) = connection.receive(data)
    except ReceiveError:
        assert expected is None
        return False
    assert expected is not None
    is_learned = command.header is not None
    if is_learned and b"Signature" in data:
        assert command.header is not None and to_ext(command.header) == expected.ext_fields
    if is_learned:
        expected.ext_fields = None
    else:
        expected.header = None
    assert command == expected
    return is_learned


class Wanted:
    """A connection that has read some frames."""

    def __init__(self, *frames: bytes) -> None:
        self.direct = DirectReaders(varying=VARYING)
        for data in frames:
            compare(self.connection(), data)

    def connection(self) -> Connection:
        return Connection(direct=self.direct)

    def reads(self, data: bytes) -> bool:
        return compare(self.connection(), data)


@pytest.mark.parametrize("kind", SerializeType)
@pytest.mark.parametrize("code", SENDS)
def test_the_second_of_a_kind_is_read_by_what_the_first_taught(kind: SerializeType, code: int) -> None:
    wanted = Wanted(frame(kind, code))
    other = "KEYS\x01l\x02UNIQ_KEY\x01D000020218BC5FFD2B27675EEBFC002B"
    same = {"queue_id": 1, "born_timestamp": 1_799_999_999_999}
    assert wanted.reads(frame(kind, code, 9, properties=other, **same))
    assert not wanted.reads(frame(kind, code, 9, flag=1, **same))
    assert not wanted.reads(frame(kind, code, 9, ext={"Other": "s"}, **same))
    assert not wanted.reads(frame(kind, code, 9, ext={"Other": "s"}, **same))


@pytest.mark.parametrize("kind", SerializeType)
@pytest.mark.parametrize("code", OTHERS)
def test_offsets_vary_and_nothing_else(kind: SerializeType, code: int) -> None:
    wanted = Wanted(frame(kind, code))
    assert wanted.reads(frame(kind, code, 9, commit_offset=123))
    assert not wanted.reads(frame(kind, code, 9, commit_offset=-1))
    assert not wanted.reads(frame(kind, code, 9, queue_id=2))
    assert not wanted.reads(frame(kind, code, 9, ext={"Other": "s"}))
    assert not wanted.reads(frame(kind, code, 9, ext={"Other": "s"}))


def signature(signed: bytes) -> dict[str, str]:
    return {
        "AccessKey": "the key of an account",
        "Signature": b2a_base64(sha1(signed).digest(), newline=False).decode(),
    }


@pytest.mark.parametrize("kind", SerializeType)
@pytest.mark.parametrize("code", HEADERS)
@pytest.mark.parametrize("in_front", [False, True])
def test_a_signed_request_is_read_with_its_signature(kind: SerializeType, code: int, in_front: bool) -> None:
    """`in_front`: with the fields of the signature in front of the others."""

    def signed(name: str = "the key of an account", /, **values: Any) -> bytes:
        fields = to_ext(header(code, **values))
        more = {**signature(repr(values).encode()), "AccessKey": name}
        fields = {**more, **fields} if in_front else {**fields, **more}
        return encode_frame(RemotingCommand(code, fields, b"body", 7, language=0, serialize_type=kind))

    varying = {"queue_id": 4} if code in SENDS else {"commit_offset": 123}
    wanted = Wanted(frame(kind, code), signed())
    assert wanted.reads(signed(**varying))
    assert not wanted.reads(signed("the key of another...", **varying))
    assert wanted.reads(frame(kind, code, **varying))


@pytest.mark.parametrize("kind", SerializeType)
def test_a_header_that_cannot_tell_what_was_signed_is_left_to_the_general_reader(kind: SerializeType) -> None:
    """Its texts are not those that are usual for its values, or it has no text for a default."""
    usual = to_ext(header(310))
    for other in ({"k": "FALSE"}, {"e": "03"}, {"j": ""}, {"m": "no"}):
        data = encode_frame(
            RemotingCommand(310, {**usual, **signature(b"1"), **other}, b"", 7, serialize_type=kind)
        )
        wanted = Wanted(data)
        assert not wanted.reads(data)
    wanted = Wanted(frame(kind, ext=signature(b"1"), queue_id=31))
    assert wanted.reads(frame(kind, ext=signature(b"2"), queue_id=45))
    assert not wanted.reads(frame(kind, ext={**signature(b"2"), "e": "05"}, queue_id=45))


@pytest.mark.parametrize("kind", SerializeType)
def test_fields_in_another_order_keep_their_values(kind: SerializeType) -> None:
    """Java writes the fields of a JSON header in the order of its hash table."""

    def turned(opaque: int, **values: Any) -> bytes:
        fields = dict(reversed(to_ext(header(11, **values)).items()))
        return encode_frame(RemotingCommand(11, fields, b"", opaque, serialize_type=kind))

    wanted = Wanted(turned(7, queue_offset=55_555, commit_offset=44))
    assert wanted.reads(turned(8, queue_offset=12_345, commit_offset=67))


@pytest.mark.parametrize("kind", SerializeType)
@pytest.mark.parametrize("code", [310, 11])
def test_every_byte_of_a_learned_header_counts(kind: SerializeType, code: int) -> None:
    """Each byte is replaced by those that have a meaning somewhere."""
    whole = frame(kind, code, opaque=71)
    wanted = Wanted(whole)
    read = 0
    for position in range(4, len(whole) - 4):
        for byte in BYTES:
            changed = whole[:position] + bytes((byte,)) + whole[position + 1 :]
            wanted.direct.layouts._credit = -1000  # the variants are not to be learned
            read += wanted.reads(changed)
    assert read > (900 if code in SENDS else 80)


def test_a_value_that_another_one_overrules_is_not_learned() -> None:
    """The last of two members with one name counts; the writers know only one of these two forms."""

    def twice(queue_id: int) -> bytes:
        head = frame(SerializeType.JSON, queue_id=queue_id)[8:-4].replace(b'"f":"0"', b'"f":"0","e": "3"')
        return (8 + len(head)).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head + b"body"

    assert general(twice(5)) == general(twice(6))
    wanted = Wanted(twice(3))
    assert not wanted.reads(twice(3))
    assert not wanted.reads(twice(4))


values = {
    "queue_id": st.integers(0, 1100) | st.integers(-(2**31), 2**31 - 1),
    "born_timestamp": st.integers(10**12, 10**13) | st.integers(-(2**63), 2**63 - 1),
    "properties": st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.none(),
    "topic": st.sampled_from(["Topic", "Other", "Ü", 'quo"ted']),
    "queue_offset": st.integers(0, 1100) | st.integers(-(2**63), 2**63 - 1),
    "commit_offset": st.integers(0, 1100) | st.integers(-(2**63), 2**63 - 1),
    "flag": st.integers(0, 2),
    "batch": st.booleans(),
    "max_reconsume_times": st.none() | st.integers(0, 20),
}


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(SerializeType),
            st.sampled_from([*HEADERS]),
            st.integers(0, 200) | st.integers(-(2**31), 2**31 - 1),
            st.fixed_dictionaries({}, optional=values),
            st.none() | st.binary(max_size=1),
        ),
        min_size=2,
        max_size=12,
    )
)
def test_any_mix_is_read_as_in_the_general_way(
    mix: list[tuple[SerializeType, int, int, dict[str, Any], bytes | None]],
) -> None:
    wanted = Wanted()
    for kind, code, opaque, fields, signed in mix * 2:
        known = {name: value for name, value in fields.items() if name in HEADERS[code].__struct_fields__}
        wanted.reads(frame(kind, code, opaque, () if signed is None else signature(signed), **known))


@settings(max_examples=40)
@given(st.binary(min_size=13, max_size=13), st.binary(min_size=3, max_size=3), st.binary(max_size=3))
def test_any_bytes_in_the_slots_are_read_as_in_the_general_way(
    born: bytes, queue: bytes, text: bytes
) -> None:
    for kind in SerializeType:
        known = "xyz"[: len(text)]
        whole = frame(kind, queue_id=987, born_timestamp=1_234_512_345_123, properties=known)
        wanted = Wanted(whole)
        for old, new in ((b"1234512345123", born), (b"987", queue), (known.encode(), text)):
            wanted.reads(whole.replace(old, new) if old else whole)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("codes", "share"), [(SENDS, 1.4), ((11,), 1.2)])
def test_recorded_frames_are_read_as_in_the_general_way(
    name: str, codes: tuple[int, ...], share: float
) -> None:
    wire = load_wire(name)
    wanted = Wanted()
    rows = zip(wire.index, wire.frames, strict=True)
    frames = [one for row, one in rows if row["code"] in codes and row["type"] != "response"]
    wanted.direct.layouts._credit = 1 << 20
    learned_ones = sum([wanted.reads(one) for one in frames * 2])
    assert learned_ones > len(frames) * share


@pytest.mark.parametrize("kind", SerializeType)
def test_any_chunking_gives_the_same(kind: SerializeType) -> None:
    frames = [frame(kind, opaque=n, queue_id=n % 13) for n in range(40)]
    data, rng = b"".join(frames), random.Random(1)
    whole = [general(one) for one in frames]
    wanted = Wanted(*frames)
    for _ in range(20):
        connection, commands = wanted.connection(), []
        for chunk in pieces(data, rng):
            commands += connection.receive(chunk)
        assert [(c.opaque, c.header or from_ext(HEADERS[310], c.ext_fields), c.body) for c in commands] == [
            (c.opaque, c.header, c.body) for c in whole if c is not None
        ]


def pieces(data: bytes, rng: random.Random) -> Iterator[bytes]:
    while data:
        size = rng.choice((1, 3, 50, 500, 5000))
        yield data[:size]
        data = data[size:]


def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "MOST", 16)
    wanted = Wanted()
    for n in range(100):
        wanted.direct.layouts._credit = learned.COST
        wanted.reads(frame(SerializeType.JSON, topic=f"Topic{n}", flag=n))
        kept = wanted.direct.layouts.alike.values()
        assert sum(len(one._known) for alike in kept for one in alike) <= 16
    assert wanted.reads(frame(SerializeType.JSON, topic="Topic99", flag=99))


def test_learning_is_paid_from_what_is_read_in_the_general_way() -> None:
    wanted = Wanted()
    wanted.direct.layouts._credit = 0
    for n in range(learned.COST):
        assert not wanted.reads(frame(SerializeType.ROCKETMQ, topic=f"Topic{n}"))
    assert wanted.reads(frame(SerializeType.ROCKETMQ, topic=f"Topic{learned.COST - 1}"))
    assert not wanted.reads(frame(SerializeType.ROCKETMQ, topic="Topic1"))


def test_a_header_is_a_copy() -> None:
    wanted = Wanted(frame(SerializeType.JSON))
    (first,) = wanted.connection().receive(frame(SerializeType.JSON, queue_id=1))
    (second,) = wanted.connection().receive(frame(SerializeType.JSON, queue_id=2))
    assert first.header is not None and second.header is not None
    assert first.header == msgspec.structs.replace(second.header, queue_id=1)
