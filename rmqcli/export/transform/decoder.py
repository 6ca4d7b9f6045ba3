"""Bodies to an Arrow array: the part common to all formats.

A decoder first parses each body, which reveals most of the wrong ones, then makes an array of many. If that
fails, the wrong values are found by bisection: n values of which k are wrong cost about k · log n arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

RUN_BYTES = 4 * 1024 * 1024
"""The bytes of bodies whose values exist at the same time.

One byte may become a Python object of several hundred bytes.
"""


class Undecodable(Exception):
    """A body does not fit the schema. The message gives a brief reason, without any part of the body."""


class Decoder(Protocol):
    """The bodies of one schema, which the constructor compiles. Raises SchemaError."""

    @property
    def type(self) -> Any:
        """The Arrow struct type of the values, composed of types that Spark also has."""

    @property
    def required(self) -> frozenset[str]:
        """The paths of the fields that the schema requires in every value."""

    def parse(self, body: bytes) -> Any:
        """Return the value of one body for `to_array`. Raises Undecodable."""

    def to_array(self, values: Sequence[Any]) -> Any:
        """Return an array of `type`. Raises Undecodable if one of the values does not fit."""


def array_of(values: Sequence[Any], kind: Any) -> Any:
    """Return an array of Python values. Raises Undecodable if one of them does not fit."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        raise Undecodable("a value does not fit its type") from None


def decoded(decoder: Decoder, bodies: Sequence[bytes]) -> tuple[Any, dict[int, str]]:
    """Return an array of the decoder's type, null where a body does not decode, and the reasons by row."""
    import pyarrow as pa

    reasons: dict[int, str] = {}
    rows: list[int] = []
    pieces: list[Any] = []
    for run in _runs(bodies):
        values = dict(_parsed(decoder, bodies, run, reasons))
        pieces += _pieces(decoder, list(values.values()), list(values), reasons)
        rows += values
    found = pa.concat_arrays(pieces) if pieces else pa.nulls(0, decoder.type)
    if len(found) == len(bodies):
        return found, reasons
    numbers = {row: number for number, row in enumerate(rows)}
    return found.take(pa.array([numbers.get(row) for row in range(len(bodies))], pa.int64())), reasons


def _runs(bodies: Sequence[bytes]) -> Iterator[range]:
    """Yield ranges of rows of about RUN_BYTES each."""
    begin = size = 0
    for row, body in enumerate(bodies):
        if row > begin and size + len(body) > RUN_BYTES:
            yield range(begin, row)
            begin, size = row, 0
        size += len(body)
    yield range(begin, len(bodies))


def _parsed(
    decoder: Decoder, bodies: Sequence[bytes], rows: range, reasons: dict[int, str]
) -> Iterator[tuple[int, Any]]:
    for row in rows:
        try:
            yield row, decoder.parse(bodies[row])
        except Undecodable as error:
            reasons[row] = str(error)


def _pieces(
    decoder: Decoder, values: Sequence[Any], rows: Sequence[int], reasons: dict[int, str]
) -> Iterator[Any]:
    import pyarrow as pa

    if not values:
        return
    try:
        yield decoder.to_array(values)
    except Undecodable as error:
        if len(values) == 1:
            reasons[rows[0]] = str(error)
            yield pa.nulls(1, decoder.type)
            return
        middle = len(values) // 2
        for half in (slice(middle), slice(middle, None)):
            yield from _pieces(decoder, values[half], rows[half], reasons)
