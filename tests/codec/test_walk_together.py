"""Items of a batch that are read together equal those that are read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import hashing
from codec.errors import BodyError
from codec.hashing import MASK, SIGN, index_key_hash, index_key_hashes, index_key_hashes_of_tails
from codec.message_batch import HEAD, walk_batch, walk_together

LENGTHS = st.tuples(st.integers(0, 5), st.integers(0, 5))
ITEMS = st.lists(LENGTHS, min_size=1, max_size=3).flatmap(
    lambda known: st.lists(
        st.tuples(st.sampled_from(known), st.integers(-(2**31), 2**31 - 1), st.integers(1, 6)), max_size=8
    )
)
"""Lengths that come several times in a row."""


def encoded(items: list[tuple[tuple[int, int], int, int]]) -> bytes:
    parts = []
    for (body_length, text_length), flag, times in items:
        total = HEAD.size + 2 + body_length + text_length
        for number in range(times):
            body, text = bytes([number]) * body_length, bytes([64 + number]) * text_length
            parts.append(HEAD.pack(total, number, flag, flag, body_length) + body)
            parts.append(text_length.to_bytes(2, "big") + text)
    return b"".join(parts)


def outcome(items: Iterable[tuple[int, bytes, bytes]]) -> tuple[list[tuple[int, bytes, bytes]], str]:
    """The items up to an error, and the error."""
    found: list[tuple[int, bytes, bytes]] = []
    try:
        found.extend(items)
    except BodyError as error:
        return found, str(error)
    return found, ""


def together(data: bytes, most: int) -> Iterator[tuple[int, bytes, bytes]]:
    for columns in walk_together(data, most):
        assert 0 < len(columns[0]) <= most
        yield from zip(*columns, strict=True)


@given(ITEMS, st.sampled_from([1, 2, 16]))
def test_any_items(items: list[tuple[tuple[int, int], int, int]], most: int) -> None:
    data = encoded(items)
    assert outcome(together(data, most)) == outcome(walk_batch(data))


@given(ITEMS, st.integers(0), st.binary(max_size=6), st.sampled_from([2, 16]))
def test_hostile_items(
    items: list[tuple[tuple[int, int], int, int]], place: int, change: bytes, most: int
) -> None:
    data = encoded(items)
    at = place % (len(data) + 1)
    data = data[:at] + change + data[at + place % 7 :]
    assert outcome(together(data, most)) == outcome(walk_batch(data))


PAIRS = st.text("".join(map(chr, range(128))), min_size=2, max_size=2)
KEYS = st.sampled_from(
    ["", "k", "0A0B", "0A0B0000", "0A0B0001", "0A0BFFFF", "0A0C0001", "0A0Bäöü€", "0A0B😀"]
)


@given(st.lists(KEYS | st.text(max_size=8), max_size=8), st.sampled_from(["T", "Topic", "ü"]))
def test_hashes_of_many_keys(keys: list[str], topic: str) -> None:
    expected = [index_key_hash(topic, key) for key in keys]
    assert index_key_hashes(topic, keys) == expected


@given(
    st.text(min_size=1, max_size=8),
    st.lists(st.tuples(PAIRS, PAIRS), max_size=8),
    st.sampled_from(["T", "ü"]),
)
def test_hashes_of_keys_by_their_tails(head: str, tails: list[tuple[str, str]], topic: str) -> None:
    expected = [index_key_hash(topic, head + third + last) for third, last in tails]
    thirds, lasts = ([one[place].encode() for one in tails] for place in (0, 1))
    assert index_key_hashes_of_tails(topic, head, thirds, lasts) == expected


@pytest.mark.parametrize("base", [1, SIGN - 2000, SIGN, SIGN + 1, MASK - 2000, MASK])
@pytest.mark.parametrize("tails", [[b"0000", b"00zz"], [b"0000", b"zzzz"]])
def test_hashes_at_the_ends_of_the_numbers(
    base: int, tails: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "_heads", {("T", "head"): base})
    expected = [index_key_hash("T", f"head{tail.decode()}") for tail in tails]
    thirds, lasts = [tail[:2] for tail in tails], [tail[2:] for tail in tails]
    assert index_key_hashes_of_tails("T", "head", thirds, lasts) == expected
