"""The walk in lanes finds the records that a walk from record to record finds, whatever the bodies contain."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from rmqcli.codec.records.encoding import encode_filler
from rmqcli.codec.scan import StopReason, scan_positions
from rmqcli.codec.scan.walk import LEAST_ROWS, follow, walk_lanes
from tests.codec.samples import make_record

COUNT = 3 * LEAST_ROWS
SIZES: dict[str, Callable[[random.Random], int]] = {
    "equal": lambda source: 100,
    "any": lambda source: source.randrange(600),
    "few large ones": lambda source: int(source.paretovariate(1.0) * 20) % 100_000,
}


def log_of(size: Callable[[random.Random], int], count: int = COUNT) -> bytes:
    source = random.Random(11)
    return b"".join(make_record(body=bytes(size(source))) for _ in range(count))


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_lanes_find_every_record(size: Callable[[random.Random], int]) -> None:
    data = log_of(size)
    expected, end = follow(data, 0, len(data), COUNT + 1)
    assert (len(expected), end) == (COUNT, len(data))
    for buffer in (data, memoryview(data)):
        walk = scan_positions(buffer)
        assert (walk.positions.tolist(), walk.end, walk.reason) == (expected, end, StopReason.END)
    assert walk_lanes(data, 0, len(data) - 91).is_whole


@pytest.mark.parametrize("rows", [LEAST_ROWS, LEAST_ROWS + 65, 2 * LEAST_ROWS + 7, COUNT - 1])
def test_limits_hold_in_lanes(rows: int) -> None:
    data = log_of(SIZES["any"])
    expected, _ = follow(data, 0, len(data), rows)
    walk = scan_positions(data, max_rows=rows)
    assert (walk.positions.tolist(), walk.reason) == (expected, StopReason.LIMIT)
    assert scan_positions(data, walk.end, max_rows=1).positions.tolist() == [walk.end]
    expected, end = follow(data, 0, 300_000, COUNT)
    assert scan_positions(data, max_bytes=300_000)[:2][1] == end
    assert scan_positions(data, 0, 300_000).positions.tolist() == expected


def test_records_inside_bodies_are_no_records() -> None:
    inner = make_record(body=b"y" * 30) * 40
    data = log_of(SIZES["equal"], 200) + make_record(body=inner) * 1000
    expected, end = follow(data, 0, len(data), COUNT)
    assert len(expected) == 1200
    found = walk_lanes(data, 0, len(data) - 91)
    assert not found.is_whole
    assert found.positions.tolist() == expected[: len(found.positions)]
    walk = scan_positions(data)
    assert (walk.positions.tolist(), walk.end) == (expected, end)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (encode_filler(600_000) + bytes(599_992), StopReason.FILLER),
        (bytes(600_000), StopReason.ZERO),
        (b"\xff" * 600_000 + make_record() * COUNT, StopReason.GARBAGE),
        (make_record()[:-1], StopReason.CUT),
    ],
)
def test_where_lanes_stop(tail: bytes, reason: StopReason) -> None:
    head = log_of(SIZES["any"], LEAST_ROWS + 500)
    walk = scan_positions(head + tail)
    assert (len(walk.positions), walk.end, walk.reason) == (LEAST_ROWS + 500, len(head), reason)
