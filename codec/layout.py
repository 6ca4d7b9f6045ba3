"""One declaration, three readers.

A layout of fixed width is declared once, as a construct `Struct` of named fields. `fused` derives the fast
readers from it, so that no width or offset is written twice:

* construct itself is the specification, and the oracle of the tests;
* `FixedLayout.unpack_from`, `pack` and `iter_unpack` are those of one fused `struct.Struct`, for the hot
  path;
* `FixedLayout.dtype` is a NumPy structured dtype, for files of fixed entries; only its call imports NumPy.

Fields are integers and floats (`Int8ub`, `Int16sb`, `Int32ub`, `Int64sb`, `Float64b` …), `Bytes(n)` with a
fixed n, and `Const` or `Default` around one of these. Every field has a name, and the whole layout has one
byte order. A `Const` is read like any other value; the caller decides how to treat a wrong one. Offsets and
sizes are in bytes. The readers raise `struct.error` if the buffer is too short; callers check the length
first.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final, NamedTuple

import construct

Buffer = bytes | bytearray | memoryview
"""The buffers that the readers of `codec` accept."""

_NUMPY_KINDS: Final = dict.fromkeys("bhilq", "i") | dict.fromkeys("BHILQ", "u") | dict.fromkeys("efd", "f")


class Field(NamedTuple):
    """One field of a layout; `code` is its struct character (``q``, ``8s`` …)."""

    name: str
    code: str
    offset: int
    size: int


class FixedLayout:
    """The fused readers of a declaration; values are plain tuples in the order of `names`."""

    def __init__(self, declaration: construct.Struct) -> None:
        order, fields = _flatten(declaration)
        self.declaration = declaration
        self.order = order
        self.fields = fields
        self.names = tuple(field.name for field in fields)
        self.offsets = {field.name: field.offset for field in fields}
        self.struct = struct.Struct(order + "".join(field.code for field in fields))
        self.size = self.struct.size
        # Methods of the C struct, bound once: calling them costs no Python call.
        self.pack = self.struct.pack
        self.pack_into = self.struct.pack_into
        self.unpack = self.struct.unpack
        self.unpack_from = self.struct.unpack_from
        self.iter_unpack = self.struct.iter_unpack

    def part(self, *names: str) -> struct.Struct:
        """Return a reader of adjacent fields, named in layout order; it reads at ``offsets[names[0]]``."""
        first = self.names.index(names[0])
        chosen = self.fields[first : first + len(names)]
        if tuple(field.name for field in chosen) != names:
            raise ValueError(f"{', '.join(names)} are not neighbours in this layout")
        return struct.Struct(self.order + "".join(field.code for field in chosen))

    def dtype(self) -> Any:
        """Return the layout as a NumPy structured dtype. `Bytes` become void fields, which keep trailing
        zeros.
        """
        return _dtype(self)

    def __repr__(self) -> str:
        return f"FixedLayout({', '.join(self.names)}; {self.size} bytes)"


def fused(declaration: construct.Struct) -> FixedLayout:
    """Return the fast readers of a declaration. Raises TypeError if its width is not fixed."""
    return FixedLayout(declaration)


def _flatten(declaration: construct.Struct) -> tuple[str, tuple[Field, ...]]:
    orders: set[str] = set()
    fields: list[Field] = []
    offset = 0
    for subcon in declaration.subcons:
        if not subcon.name:
            raise TypeError("every field of a fused layout needs a name")
        order, code = _format_of(_bare(subcon), subcon.name)
        size = struct.calcsize("=" + code)
        orders.update(order)
        fields.append(Field(subcon.name, code, offset, size))
        offset += size
    if len(orders) > 1:
        raise TypeError("a fused layout has one byte order")
    return orders.pop() if orders else ">", tuple(fields)


def _bare(subcon: Any) -> Any:
    while isinstance(subcon, construct.Renamed | construct.Const | construct.Default):
        subcon = subcon.subcon
    return subcon


def _format_of(subcon: Any, name: str) -> tuple[str, str]:
    if isinstance(subcon, construct.FormatField):
        order, code = subcon.fmtstr
        # A single byte has no byte order.
        return (order if subcon.length > 1 else ""), code
    if isinstance(subcon, construct.Bytes) and isinstance(subcon.length, int):
        return "", f"{subcon.length}s"
    raise TypeError(f"field {name!r} has no fixed width: {subcon!r}")


@cache
def _dtype(layout: FixedLayout) -> Any:
    import numpy

    def numpy_format(field: Field) -> str:
        kind = _NUMPY_KINDS.get(field.code)
        return f"{layout.order}{kind}{field.size}" if kind else f"V{field.size}"

    return numpy.dtype(
        {
            "names": list(layout.names),
            "formats": [numpy_format(field) for field in layout.fields],
            "offsets": [field.offset for field in layout.fields],
            "itemsize": layout.size,
        }
    )
