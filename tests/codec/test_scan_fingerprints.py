"""Fingerprints: sums tell one collection of rows from another, whatever differs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from codec.scan.arrays import Array
from codec.scan.fingerprints import Fingerprints

KEY = Fingerprints.of(0x9E3779B97F4A7C15F39CC0605CEDC834)
ROWS = 64


def columns() -> list[Array]:
    chance = np.random.default_rng(5)
    return [chance.integers(-(1 << 62), 1 << 62, ROWS) for _ in range(4)]


def summed(rows: list[Array]) -> int:
    return int(KEY.of_columns(*rows).sum(dtype=np.uint64))


def test_order_does_not_count() -> None:
    rows = columns()
    order = np.random.default_rng(6).permutation(ROWS)
    assert summed(rows) == summed([column[order] for column in rows])


@pytest.mark.parametrize("column", range(4))
def test_one_bit_counts(column: int) -> None:
    rows, sums = columns(), set()
    for bit in range(64):
        changed = [one.copy() for one in rows]
        changed[column][3] ^= np.int64(-(1 << 63)) if bit == 63 else np.int64(1 << bit)
        sums.add(summed(changed))
    assert len(sums - {summed(rows)}) == 64


@pytest.mark.parametrize(("one", "other"), [*combinations(range(4), 2), *((n, n) for n in range(4))])
@pytest.mark.parametrize("bit", [0, 31, 32, 62])
def test_two_equal_differences_do_not_cancel_each_other(one: int, other: int, bit: int) -> None:
    """Neither in two columns of a row, nor in two rows: the same bit is flipped in both."""
    rows = columns()
    sound = summed(rows)
    for second in range(1, ROWS):
        changed = [column.copy() for column in rows]
        changed[one][0] ^= 1 << bit
        changed[other][second] ^= 1 << bit
        assert summed(changed) != sound


def test_rows_that_are_swapped_between_columns() -> None:
    first, second, *rest = columns()
    assert summed([first, second, *rest]) != summed([second, first, *rest])


def test_another_key_gives_other_sums() -> None:
    other = Fingerprints.of(1)
    assert other.of_columns(*columns()).sum() != KEY.of_columns(*columns()).sum()


def test_texts() -> None:
    texts = [b"", b"a", b"b", b"ab", b"12345678", b"123456789", b"a\x00", b"a\x00\x00"]
    ends = np.cumsum([len(text) for text in texts])
    found = KEY.of_texts(np.frombuffer(b"".join(texts), np.uint8), np.append(0, ends)[:-1], ends)
    assert len(set(found.tolist())) == len(texts)
    again = KEY.of_texts(b"-ab", np.array([1]), np.array([3]))
    assert again[0] == found[3]
