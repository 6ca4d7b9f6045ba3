"""Properties texts of one shape, split together, equal those split one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.properties import decode_properties
from rmqcli.codec.scan import properties as shapes
from rmqcli.codec.scan.properties import split_properties

HOSTILE = st.lists(
    st.sampled_from(["\x01", "\x02", "a", "b", "TAGS", "KEYS", " ", "é", "\0", "\x03", "\x7f", "value"]),
    max_size=16,
).map("".join)
NAMES = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a"])
PLAIN = st.lists(st.tuples(NAMES, st.text("xyz", min_size=1, max_size=2)), max_size=4).map(
    lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs)
)
TEXTS = st.one_of(
    PLAIN.map(str.encode),
    PLAIN.map(lambda text: text.encode() + b"\x02"),
    HOSTILE.map(str.encode),
    st.binary(max_size=12),
)


def split(texts: list[bytes]) -> list[tuple[dict[str, str], str | None, str | None]]:
    """Returns properties, TAGS and KEYS of each text."""
    ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
    data = b"".join(b"\xff" + text for text in texts)
    found = split_properties(pa.py_buffer(data), ends - np.array(list(map(len, texts))), ends)
    for array in (found.map_array(), found.map_array(encoded=True)):
        array.validate(full=True)
        assert [len(pairs) for pairs in array.to_pylist()] == np.diff(found.offsets).tolist()
    rows = map(dict, found.map_array().to_pylist())
    return list(zip(rows, *(found.column(name).to_pylist() for name in ("TAGS", "KEYS")), strict=True))


def one_by_one(texts: list[bytes]) -> list[tuple[dict[str, str], str | None, str | None]]:
    pairs = map(decode_properties, texts)
    return [(found, found.get("TAGS"), found.get("KEYS")) for found in pairs]


@pytest.fixture(params=[1, 2, 3], scope="module", autouse=True)
def _least_rows(request: pytest.FixtureRequest) -> None:
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(shapes, "LEAST_ROWS", request.param)
    request.addfinalizer(monkeypatch.undo)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=1, max_size=24))
def test_any_texts_of_which_some_are_alike(texts: list[bytes], order: list[int]) -> None:
    chosen = [texts[number % len(texts)] for number in order]
    assert split(chosen) == one_by_one(chosen)


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, st.integers(1, 3)), max_size=4), st.data())
def test_values_of_the_same_widths(shape: list[tuple[str, int]], data: st.DataObject) -> None:
    """Values may contain a separator, or something that resembles one."""
    letters = st.sampled_from("xy\x01\x02\x03\0é")
    texts = [
        "\x02".join(
            f"{name}\x01" + "".join(data.draw(st.lists(letters, min_size=width, max_size=width)))
            for name, width in shape
        ).encode()
        for _ in range(6)
    ]
    assert split(texts) == one_by_one(texts)


SHAPES = {
    "one shape": ([b"a\x01x\x02b\x01yy", b"a\x01z\x02b\x01ww"] * 3, 6),
    "a last separator": ([b"a\x01x\x02", b"a\x01y\x02"] * 3, 6),
    "two lengths": ([b"a\x01x", b"a\x01xx", b"a\x01y", b"a\x01yy"] * 3, 12),
    "two shapes of one length": ([b"a\x01xx", b"ab\x01x"] * 3, 0),
    "a few of another shape": ([b"a\x01xx"] * 7 + [b"ab\x01x"] + [b"a\x01yy"] * 3, 10),
    "most of different lengths": ([b"a\x01xx"] * 3 + [b"a" * size for size in range(10, 20)], 0),
    "many lengths": ([b"a\x01" + b"x" * size for size in range(1, 10)] * 3, 0),
    "no properties": ([b"", b"a\x01x"] * 3, 6),
    "an empty value": ([b"a\x01\x02b\x01y"] * 3, 0),
    "an empty name": ([b"\x01x\x02b\x01y"] * 3, 0),
    "a name twice": ([b"a\x01x\x02a\x01y"] * 3, 0),
    "\x01 in a value": ([b"a\x01x\x01y"] * 3, 0),
    "no value": ([b"a"] * 3, 0),
    "not ASCII": (["a\x01é".encode()] * 3, 0),
    "one among others that is like none": ([b"a\x01x"] * 4 + [b"a\x02x"] + [b"a\x01y"] * 2, 6),
    "a first one that is unusual": ([b"\x01xx"] + [b"a\x01y"] * 3, 3),
}


@pytest.mark.parametrize("name", SHAPES)
def test_which_texts_are_alike(name: str) -> None:
    texts, alike = SHAPES[name]
    ends = np.cumsum(list(map(len, texts)), dtype=np.int64)
    pairs = shapes.split_alike(np.frombuffer(b"".join(texts), dtype=np.uint8), np.append(0, ends[:-1]), ends)
    assert len(pairs.rows) == alike
    assert split(texts) == one_by_one(texts)
