"""The reader of typed ext fields agrees with the general one, or leaves the header to it."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqcli.codec.core.heads import BOOL, INT32, INT64, TEXT, read_entries, read_values
from rmqcli.codec.errors import HeaderError, RemoteProtocolError
from rmqcli.codec.headers.base import Header, defaults_of, from_ext, kinds_of, maker_of
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2

Entries = list[tuple[bytes, bytes]]
USUAL = {
    TEXT: re.compile(b"(?s:.*)"),
    INT32: re.compile(b"0|[1-9][0-9]{,8}"),
    INT64: re.compile(b"0|[1-9][0-9]{,17}"),
    BOOL: re.compile(b"true|false"),
}
"""What each kind of value is like that the reader does not leave to the general one."""
VALUES = {
    TEXT: st.text(max_size=6).map(str.encode) | st.binary(max_size=4),
    INT32: st.integers(0, 10**9 - 1).map(b"%d".__mod__),
    INT64: st.integers(0, 10**18 - 1).map(b"%d".__mod__),
    BOOL: st.sampled_from([b"true", b"false"]),
}
"""Usual values of each kind."""
CLASSES: list[type[Header]] = [
    SendMessageRequestHeaderV2,
    SendMessageRequestHeader,
    PullMessageRequestHeader,
]
NUMBERS = ["0", "00", "007", "-1", "+1", "1_0", "5.0", "1e3", "1", "٣", "/", ":"]
LONG = ["9" * 9, "1" + "0" * 9, "9" * 18, "1" + "0" * 18, "9" * 40]
WORDS = ["", "true", "false", "TRUE", " 1", "1 ", "\x00"]
ODD = st.sampled_from([*NUMBERS, *LONG, *WORDS]).map(str.encode) | st.binary(max_size=4)


def block(entries: Entries) -> bytes:
    """The block of some ext fields, after its length."""
    written = b"".join(
        len(name).to_bytes(2, "big") + name + len(value).to_bytes(4, "big") + value for name, value in entries
    )
    return len(written).to_bytes(4, "big") + written


@st.composite
def of_a_class(draw: st.DrawFn) -> tuple[type[Header], Entries]:
    """A class, and its fields in any order: some left out, repeated, with any value, or of another class."""
    cls = draw(st.sampled_from(CLASSES))
    required = defaults_of(cls)[1]
    entries = draw(
        st.permutations(
            [
                (name, draw(VALUES[kind]))
                for name, (place, kind) in kinds_of(cls).items()
                if required >> place & 1 or draw(st.booleans())
            ]
        )
    )
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(entries)))
        name = draw(st.sampled_from([*kinds_of(cls), b"AccessKey", b"", b"\xff", "ü".encode()]))
        replaced = draw(st.booleans())
        entries[place : place + replaced] = draw(st.sampled_from([[], [(name, draw(ODD))]]))
    return cls, entries


def read(cls: type[Header], data: bytes, at: int) -> list[object] | None:
    defaults, required = defaults_of(cls)
    values = read_values(data, at, kinds_of(cls), defaults, required)
    assert defaults == defaults_of(cls)[0], "the next header begins with the same ones"
    return values


@given(of_a_class(), st.binary(max_size=5), st.binary(max_size=5))
def test_any_fields(given_: tuple[type[Header], Entries], before: bytes, after: bytes) -> None:
    cls, entries = given_
    fields, names = kinds_of(cls), [name for name, _ in entries]
    required = {place for place in range(len(fields)) if defaults_of(cls)[1] >> place & 1}
    is_usual = (
        len(set(names)) == len(names)
        and set(names) <= fields.keys()
        and required <= {fields[name][0] for name in names}
        and all(USUAL[fields[name][1]].fullmatch(value) for name, value in entries)
    )
    data = before + block(entries) + after
    values = read(cls, data, len(before))
    assert (values is not None) == is_usual
    if values is not None:
        assert maker_of(cls)(*values) == from_ext(cls, read_entries(data, len(before)))


@given(st.data(), of_a_class(), st.binary(max_size=5))
@example(None, (SendMessageRequestHeaderV2, []), b"")
def test_hostile_bytes(data: Any, given_: tuple[type[Header], Entries], before: bytes) -> None:
    """A block that does not add up is refused by both, unless something before that leaves it to the other."""
    cls, entries = given_
    written = bytearray(before + block(entries))
    if data is not None:
        place = data.draw(st.integers(len(before), len(written)))
        change = data.draw(st.sampled_from([b"\xff", b"\x7f\xff\xff\xff", b"\x80\x00", b"\x00\x00"]) | ODD)
        written[place : place + len(change)] = change
        del written[len(written) - data.draw(st.integers(0, 6)) :]
    whole = bytes(written)
    try:
        found = read_entries(whole, len(before))
    except RemoteProtocolError:
        with suppress(RemoteProtocolError):
            assert read(cls, whole, len(before)) is None
        return
    values = read(cls, whole, len(before))
    if values is not None:
        assert maker_of(cls)(*values) == from_ext(cls, found)


@pytest.mark.parametrize(
    ("kind", "usual"),
    [
        (INT32, ["0", "1", "10", "9" * 9]),
        (INT64, ["0", "1", "10", "9" * 9, "1" + "0" * 9, "9" * 18]),
        (BOOL, ["true", "false"]),
    ],
)
def test_the_usual_forms_and_their_neighbours(kind: int, usual: list[str]) -> None:
    """Of all texts only those are read that have one meaning for every reader."""
    cls = SendMessageRequestHeaderV2
    name = next(name for name, (_, kind_) in kinds_of(cls).items() if kind_ == kind)
    entries = {name: b"1" for name, (_, kind_) in kinds_of(cls).items() if kind_ not in {BOOL, TEXT}}
    entries |= {name: b"x" for name, (_, kind_) in kinds_of(cls).items() if kind_ == TEXT}
    for text in (*usual, *NUMBERS, *LONG, *WORDS):
        written = block([*({**entries, name: text.encode()}).items()])
        assert (read(cls, written, 0) is not None) == (text in usual), text


def test_a_field_ends_with_the_block() -> None:
    """Not with the header, which may go on after the block."""
    cls, fields = SendMessageRequestHeaderV2, kinds_of(SendMessageRequestHeaderV2)
    written = bytearray(block([(name, b"1") for name, (_, kind) in fields.items() if kind != BOOL]))
    assert read(cls, bytes(written) + b"0", 0) is not None
    written[-2] += 1
    for reader in (read_entries, partial(read, cls)):
        with pytest.raises(RemoteProtocolError):
            reader(bytes(written) + b"0", 0)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_defaults_are_those_of_the_class(cls: type[Header]) -> None:
    """A header with its required fields only is read; without one of them it is left, and refused."""
    kinds, (_, required) = kinds_of(cls), defaults_of(cls)
    entries = [(name, b"1") for name, (place, _) in kinds.items() if required >> place & 1]
    values = read(cls, block(entries), 0)
    assert values is not None
    assert maker_of(cls)(*values) == from_ext(cls, {name.decode(): "1" for name, _ in entries})
    for missing in entries:
        rest = [entry for entry in entries if entry != missing]
        assert read(cls, block(rest), 0) is None
        with pytest.raises(HeaderError):
            from_ext(cls, {name.decode(): "1" for name, _ in rest})
