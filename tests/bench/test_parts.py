"""Pacing, histograms, bars and comparisons of `rmq bench`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rmqcli.bench import measure
from rmqcli.bench.histogram import HIGHEST, Bucket, Histogram, NotComparable, check_load, coarse, compare
from rmqcli.bench.running import Pace
from rmqcli.bench.show import bars
from rmqcli.client import ConnectionFailed, RequestTimeout


@pytest.mark.parametrize(
    ("pace", "total"),
    [
        (Pace(10, count=5), 5),
        (Pace(10, seconds=2), 20),
        (Pace(10, seconds=0.01), 1),
        (Pace(10, count=30, seconds=2), 20),
        (Pace(10), None),
    ],
)
def test_what_becomes_due(pace: Pace, total: int | None) -> None:
    assert pace.total == total
    assert [pace.due(number) for number in (0, 1, 25)] == [0, 0.1, 2.5]


def test_the_end_of_a_pace() -> None:
    assert not Pace(10, seconds=2).over(1.999)
    assert Pace(10, seconds=2).over(2.0)
    assert not Pace(10, count=1).over(1e9)


def test_percentiles() -> None:
    times = Histogram()
    for millis in range(1, 1001):
        times.record(millis / 1000)
    found = times.summary()
    assert (found["min"], found["max"], times.count) == (1000, 1_000_000, 1000)
    for name, wanted in {"p50": 500_000, "p90": 900_000, "p99": 990_000, "p999": 999_000}.items():
        assert found[name] == pytest.approx(wanted, rel=0.001)
    assert sum(bucket.count for bucket in times.buckets()) == 1000
    assert all(bucket.begin <= bucket.end for bucket in times.buckets())


def test_no_time_and_times_out_of_range() -> None:
    times = Histogram()
    assert set(times.summary().values()) == {None}
    assert times.buckets() == []
    times.record(7200)
    assert (times.count, times.summary()["max"]) == (1, HIGHEST)


def test_coarse_buckets() -> None:
    found = coarse([Bucket(150, 150, 3), Bucket(199, 199, 1), Bucket(200, 200, 2), Bucket(1023, 1024, 5)])
    assert found == [Bucket(100, 200, 4), Bucket(200, 500, 2), Bucket(500, 1000, 0), Bucket(1000, 2000, 5)]
    assert coarse([]) == []
    assert coarse([Bucket(0, 0, 1)]) == [Bucket(0, 1, 1)]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_bars_fill_the_width(width: int) -> None:
    lines = bars([Bucket(150, 150, 12_000), Bucket(300, 300, 1), Bucket(3000, 3000, 6000)], width)
    assert max(map(len, lines)) == width
    assert lines[0].startswith("< 200 µs  12,000  █") and lines[1].endswith("   1  █")
    assert lines[2].strip() == "< 1 ms       0"
    assert 0 < lines[4].count("█") <= lines[0].count("█") // 2
    assert bars([], width) == []


def result(**changes: Any) -> dict[str, Any]:
    found = {
        "bench": "send",
        "rate": 100.0,
        "size": 128,
        "inFlight": 64,
        "doneRate": 100.0,
        "failed": {},
        "notStarted": 0,
        "latency": {"p50": 1000, "p90": 2000, "p99": 3000, "p999": 4000},
    }
    return copy.deepcopy(found) | changes


def worse(old: Any, new: Any, tolerance: float = 10) -> list[str]:
    return [one.name for one in compare(old, new, tolerance) if one.worse]


def test_what_is_worse() -> None:
    latency = {"p50": 1100, "p90": 2201, "p99": 10, "p999": None}
    assert worse(result(), result()) == []
    assert worse(result(), result(latency=latency)) == ["p90", "p999"]
    assert worse(result(latency=latency), result()) == ["p99"]
    assert worse(result(), result(doneRate=89.0)) == ["doneRate"]
    assert worse(result(), result(doneRate=111.0)) == []
    assert worse(result(), result(failed={"refused": 1})) == ["missed"]
    assert worse(result(failed={"refused": 10}), result(failed={"refused": 4, "timedOut": 7})) == []
    assert worse(result(), result(notStarted=1)) == ["missed"]
    assert worse(result(), result(doneRate=99.0), tolerance=0) == ["doneRate"]


@pytest.mark.parametrize("old", [[], None, {}, result(latency=None), result(failed=[]), result(size=64)])
def test_what_cannot_be_compared(old: Any) -> None:
    with pytest.raises(NotComparable):
        check_load(old, result())


def test_a_broker_that_did_not_answer_may_still_make_the_topic() -> None:
    doubtful = measure.of_creation("RMQ_BENCH_1", RequestTimeout("1:1", "UPDATE_AND_CREATE_TOPIC", 5))
    assert str(doubtful).endswith("it may still make the topic: rmq topic delete RMQ_BENCH_1")
    refused = ConnectionFailed("1:1", "refused")
    assert measure.of_creation("RMQ_BENCH_1", refused) is refused
