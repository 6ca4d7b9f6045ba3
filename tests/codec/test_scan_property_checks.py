"""Properties texts checked at once parse exactly when each of them does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.properties import properties_problem
from codec.scan.property_checks import texts_parse

_PIECES = st.sampled_from(
    [b"\x01", b"\x02", b"a", b"KEYS", b" ", b"\x00", b"\xc3\xa4", b"\xc3", b"\xff", b"n" * 30]
)
_TEXTS = st.lists(_PIECES, max_size=12).map(b"".join)
_GOOD = st.lists(
    st.sampled_from([b"a\x01b\x02", b"KEYS\x01\xc3\xa4\x02", b"\x02", b"x\x01" + b"y" * 40 + b"\x02"])
).map(b"".join)
_FIXED = b"\xee" * 91


def parse(texts: list[bytes]) -> bool:
    data = b"".join(_FIXED + text for text in texts)
    ends = np.cumsum([len(_FIXED) + len(text) for text in texts], dtype=np.int64)
    starts = ends - np.array([len(text) for text in texts], dtype=np.int64)
    return texts_parse(memoryview(data), starts, ends)


@given(st.lists(_TEXTS | _GOOD, min_size=1, max_size=4), st.integers(0, 6))
def test_as_one_by_one(texts: list[bytes], good: int) -> None:
    texts += [b"a\x01b\x02"] * good
    assert parse(texts) == all(properties_problem(text) is None for text in texts)


@pytest.mark.parametrize("length", range(70))
@pytest.mark.parametrize(
    ("tail", "expected"), [(b"\x01v", True), (b"\x01v\x02", True), (b"\x02", False), (b"", False)]
)
def test_every_length(length: int, tail: bytes, expected: bool) -> None:
    """The last text, and one followed by another."""
    text = b"n" * (length + 1) + tail
    assert parse([text]) is parse([text, b"a\x01b\x02"]) is expected


def test_more_rows_than_a_table_holds() -> None:
    good = [b"a\x01b\x02"] * 20_000
    assert parse(good)
    assert not parse([*good, b"a\x02"])
    assert not parse([b"\x01", *good])
