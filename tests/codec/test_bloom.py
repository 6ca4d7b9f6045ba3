"""The bloom filter of the consume-queue extension, compared with values of Java."""

from __future__ import annotations

import pytest

from rmqcli.codec.bodies.filters import BloomFilterData
from rmqcli.codec.selector import BloomFilter
from rmqcli.codec.selector.bloom import murmur3_128


@pytest.mark.parametrize(
    ("error_rate", "expected", "name", "hashes", "bits", "positions"),
    [
        (20, 32, "CG_SQL#TopicA", 3, 112, (37, 11, 60)),
        (20, 64, "x", 3, 216, (40, 94, 170)),
        (10, 128, "é#漢", 4, 616, (409, 198, 603, 223)),
        (1, 1, "a", 7, 16, (14, 3, 7, 13, 13, 7, 3)),
        (99, 3, "a", 1, 8, (6,)),
    ],
)
def test_positions(
    error_rate: int, expected: int, name: str, hashes: int, bits: int, positions: tuple[int, ...]
) -> None:
    bloom = BloomFilter.of(error_rate, expected)
    assert bloom == BloomFilter(hashes, bits)
    assert bloom.positions(name) == positions
    assert bloom.data(name) == BloomFilterData(bit_pos=positions, bit_num=bits)
    assert bloom.owns(bloom.data(name))


@pytest.mark.parametrize(("error_rate", "expected"), [(0, 32), (100, 32), (20, 0)])
def test_bad_measures(error_rate: int, expected: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        BloomFilter.of(error_rate, expected)


def test_a_bit_map_holds_its_names() -> None:
    bloom = BloomFilter.of(20, 32)
    data = [bloom.data(f"group{number}#topic") for number in range(8)]
    bit_map = bloom.bit_map(data[:4])
    assert len(bit_map) == bloom.size == 14
    assert all(bloom.may_hold(bit_map, one) for one in data[:4])
    assert not all(bloom.may_hold(bit_map, one) for one in data[4:])
    assert bloom.bit_map([]) == bytes(14)


def test_the_first_position_is_the_lowest_bit() -> None:
    assert BloomFilter(2, 16).bit_map([BloomFilterData(bit_pos=(0, 9), bit_num=16)]) == b"\x01\x02"


@pytest.mark.parametrize(
    "data",
    [
        None,
        BloomFilterData(bit_pos=(1, 2, 3), bit_num=104),
        BloomFilterData(bit_pos=(1, 2), bit_num=112),
        BloomFilterData(bit_pos=(1, 2, 112), bit_num=112),
        BloomFilterData(bit_pos=(-1, 2, 3), bit_num=112),
    ],
)
def test_positions_of_another_filter(data: BloomFilterData | None) -> None:
    assert not BloomFilter.of(20, 32).owns(data)


def test_errors_are_as_rare_as_asked_for() -> None:
    """With the expected number of names, about the error rate of other names seems to be there."""
    bloom = BloomFilter.of(20, 32)
    bit_map = bloom.bit_map(bloom.data(f"in{number}") for number in range(32))
    wrong = sum(bloom.may_hold(bit_map, bloom.data(f"out{number}")) for number in range(2_000))
    assert 200 < wrong < 600


@pytest.mark.parametrize(
    ("data", "digest"),
    [(b"", 0), (b"hello", 0xCBD8A7B341BD9B02), (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C)],
)  # fmt: skip
def test_murmur(data: bytes, digest: int) -> None:
    assert murmur3_128(data) == digest
