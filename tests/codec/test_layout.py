from __future__ import annotations

import struct
from typing import Any

import construct
import numpy
import pytest
from construct import (
    Bytes,
    Const,
    Default,
    Float32b,
    Float64b,
    Int8sb,
    Int8ub,
    Int16sb,
    Int16sl,
    Int16ub,
    Int16ul,
    Int32sb,
    Int32sl,
    Int32ub,
    Int32ul,
    Int64sb,
    Int64sl,
    Int64ub,
    Int64ul,
    Struct,
    VarInt,
)
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec.layout import FixedLayout, fused

BIG_ENDIAN = (Int8ub, Int8sb, Int16ub, Int16sb, Int32ub, Int32sb, Int64ub, Int64sb)
LITTLE_ENDIAN = (Int8ub, Int8sb, Int16ul, Int16sl, Int32ul, Int32sl, Int64ul, Int64sl)

EXAMPLE = Struct("offset" / Int64sb, "kind" / Int8ub, "size" / Int32sb, "tag" / Bytes(5), "code" / Int16ub)


@st.composite
def layouts(draw: st.DrawFn) -> FixedLayout:
    numbers = draw(st.sampled_from((BIG_ENDIAN, LITTLE_ENDIAN)))
    kinds = st.sampled_from(numbers) | st.integers(1, 20).map(Bytes)
    fields = draw(st.lists(kinds, min_size=1, max_size=12))
    return fused(Struct(*(f"field{number}" / field for number, field in enumerate(fields))))


def values_of(field: Any) -> st.SearchStrategy[Any]:
    if field.code.endswith("s"):
        return st.binary(min_size=field.size, max_size=field.size)
    bits = 8 * field.size
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if field.code.islower() else (0, 2**bits - 1)
    return st.integers(low, high)


def with_construct(layout: FixedLayout, data: bytes) -> tuple[Any, ...]:
    parsed = layout.declaration.parse(data)
    return tuple(parsed[name] for name in layout.names)


def with_numpy(layout: FixedLayout, data: bytes) -> list[tuple[Any, ...]]:
    rows = numpy.frombuffer(data, dtype=layout.dtype())
    return [tuple(_plain(row[name]) for name in layout.names) for row in rows]


def _plain(value: Any) -> Any:
    return value.tobytes() if isinstance(value, numpy.void) else value.item()


@given(layouts(), st.data())
def test_three_readers_agree_on_any_bytes(layout: FixedLayout, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 3))
    raw = data.draw(st.binary(min_size=count * layout.size, max_size=count * layout.size))
    pieces = [raw[at : at + layout.size] for at in range(0, len(raw), layout.size)]
    expected = [with_construct(layout, piece) for piece in pieces]
    assert [layout.unpack_from(raw, at) for at in range(0, len(raw), layout.size)] == expected
    assert list(layout.iter_unpack(raw)) == expected
    assert with_numpy(layout, raw) == expected


@given(layouts(), st.data())
def test_two_writers_agree_on_any_values(layout: FixedLayout, data: st.DataObject) -> None:
    values = data.draw(st.tuples(*(values_of(field) for field in layout.fields)))
    built = layout.declaration.build(dict(zip(layout.names, values, strict=True)))
    assert layout.pack(*values) == built
    assert layout.unpack(built) == values
    assert with_numpy(layout, built) == [values]


def test_an_example_by_hand() -> None:
    layout = fused(EXAMPLE)
    assert layout.names == ("offset", "kind", "size", "tag", "code")
    assert layout.offsets == {"offset": 0, "kind": 8, "size": 9, "tag": 13, "code": 18}
    assert layout.size == 20
    raw = layout.pack(-2, 255, 7, b"tag\0\0", 40000)
    assert raw.hex() == "fffffffffffffffe" + "ff" + "00000007" + "7461670000" + "9c40"
    assert layout.unpack_from(b"__" + raw, 2) == (-2, 255, 7, b"tag\0\0", 40000)
    assert "offset, kind, size, tag, code; 20 bytes" in repr(layout)
    assert layout.dtype() is layout.dtype()


def test_floats() -> None:
    layout = fused(Struct("short" / Float32b, "long" / Float64b))
    raw = layout.pack(0.5, -1e300)
    assert with_construct(layout, raw) == layout.unpack(raw) == with_numpy(layout, raw)[0] == (0.5, -1e300)


def test_const_and_default_are_read_as_they_stand() -> None:
    layout = fused(Struct("magic" / Const(7, Int32ub), "rest" / Default(Int16ub, 3)))
    assert layout.unpack(bytes.fromhex("00000008 0001")) == (8, 1)
    assert layout.declaration.build({}) == layout.pack(7, 3)


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (("offset",), (1,)),
        (("kind", "size"), (2, 3)),
        (("size", "tag", "code"), (3, b"12345", 4)),
        (("offset", "kind", "size", "tag", "code"), (1, 2, 3, b"12345", 4)),
    ],
)
def test_a_part_reads_neighbours(names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    layout = fused(EXAMPLE)
    raw = layout.pack(1, 2, 3, b"12345", 4)
    assert layout.part(*names).unpack_from(raw, layout.offsets[names[0]]) == values


def test_a_part_of_fields_that_are_no_neighbours() -> None:
    with pytest.raises(ValueError, match="offset, size are not neighbours"):
        fused(EXAMPLE).part("offset", "size")


@pytest.mark.parametrize(
    ("declaration", "complaint"),
    [
        (Struct("a" / Int32ub, "b" / VarInt), "field 'b' has no fixed width"),
        (Struct("a" / Bytes(construct.this.n)), "field 'a' has no fixed width"),
        (Struct("a" / Int32ub, Int32ub), "needs a name"),
        (Struct("a" / Int32ub, "b" / Int32ul), "one byte order"),
        (Struct("a" / Struct("b" / Int8ub)), "field 'a' has no fixed width"),
    ],
)
def test_what_cannot_be_fused(declaration: construct.Struct, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        fused(declaration)


def test_a_short_buffer_is_the_callers_fault() -> None:
    with pytest.raises(struct.error):
        fused(EXAMPLE).unpack_from(b"\0" * 19)
