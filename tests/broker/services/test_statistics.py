"""Rates over a minute, an hour and a day, and totals of the broker."""

from __future__ import annotations

import re

import pytest

from rmqcli.broker.services.statistics import PutTimes, Statistics, StoreRates
from tests.broker.support import done


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def test_minute_hour_and_day_have_their_own_windows() -> None:
    clock = Clock()
    statistics = Statistics(clock, "C")
    for tick in range(2 * 360):
        if tick < 360:
            statistics.put("T", 0, 2, 100)
        clock.now += 10_000
        statistics.sample()
    data = done(statistics.item("TOPIC_PUT_SIZE", "T"))
    assert data is not None
    assert data.stats_minute is not None
    assert data.stats_hour is not None
    assert data.stats_day is not None
    assert (data.stats_minute.sum, data.stats_hour.sum, data.stats_day.sum) == (0, 0, 36_000)
    assert data.stats_day.tps == 5.0
    assert data.stats_day.avgpt == 100.0


def test_items_are_sums_over_queues_and_groups() -> None:
    clock = Clock()
    statistics = Statistics(clock, "C")
    statistics.got("T", 0, "G", 3, 30, 8)
    statistics.got("T", 1, "G", 4, 40)
    statistics.got("T", 1, "H", 5, 50)
    statistics.put("T", 1, 1, 10)
    clock.now += 10_000
    statistics.sample()

    def minute(name: str, key: str) -> int | None:
        data = done(statistics.item(name, key))
        return None if data is None or data.stats_minute is None else data.stats_minute.sum

    assert minute("GROUP_GET_NUMS", "T@G") == 7
    assert minute("GROUP_GET_SIZE", "T@H") == 50
    assert minute("QUEUE_GET_NUMS", "T@1@G") == 4
    assert minute("QUEUE_GET_SIZE", "T@9@G") is None
    assert minute("BROKER_GET_NUMS", "C") == 12
    assert minute("BROKER_GET_NUMS", "Other") is None
    assert minute("GROUP_GET_LATENCY", "0@T@G") == 8
    assert minute("GROUP_GET_LATENCY", "1@T@G") == 0
    assert minute("GROUP_GET_LATENCY", "T@G") is None
    assert minute("QUEUE_PUT_SIZE", "T@1") == 10
    assert done(statistics.consume_tps("T", "G")) == 0.7
    statistics.forget_topic("T")
    assert minute("GROUP_GET_NUMS", "T@G") is None
    assert done(statistics.consume_tps("T", "G")) == 0.0


def test_the_first_sample_covers_ten_seconds() -> None:
    clock = Clock()
    statistics = Statistics(clock, "C")
    clock.now += 9_000
    for latency in (8, 0):
        statistics.got("T", 0, "G", 5, 50, latency)
    unsampled = done(statistics.item("QUEUE_GET_NUMS", "T@0@G"))
    assert unsampled is not None and unsampled.stats_minute is not None
    assert (unsampled.stats_minute.sum, unsampled.stats_minute.tps) == (0, 0.0)
    clock.now += 1_000
    statistics.sample()
    for name, key, figures in (
        ("QUEUE_GET_NUMS", "T@0@G", (10, 1.0, 5.0)),
        ("GROUP_GET_LATENCY", "0@T@G", (8, 0.8, 4.0)),
        ("BROKER_GET_NUMS", "C", (10, 1.0, 0.0)),
    ):
        data = done(statistics.item(name, key))
        assert data is not None and data.stats_minute is not None
        assert (data.stats_minute.sum, data.stats_minute.tps, data.stats_minute.avgpt) == figures


def test_rates_need_enough_samples() -> None:
    clock = Clock()
    rates = StoreRates(clock)
    for _ in range(60):
        rates.put_messages += 5
        clock.now += 1000
        rates.sample()
    ten, minute, ten_minutes = rates.rates("puts").split(" ")
    assert (float(ten), float(minute), ten_minutes) == (5.0, 5.0, "")


def test_durations_of_puts_are_those_of_the_last_minute() -> None:
    clock = Clock()
    rates = StoreRates(clock)
    rates.put_messages = 10
    for seconds in (0.0019, 0.0095, 0.010, 0.049, 0.7, 60):
        rates.slow_put(seconds)

    def second(count: int) -> None:
        for _ in range(count):
            clock.now += 1000
            rates.sample()

    second(60)
    assert set(re.findall(r":(\d+) ", rates.put_times.distribution())) == {"0"}
    assert rates.put_times.percentile(0.99) == 0.0
    second(1)
    text = rates.put_times.distribution()
    assert text.startswith("[<=0ms]:4 [0~10ms]:2 [10~50ms]:2 [50~100ms]:0 ")
    assert "[500ms~1s]:1 " in text
    assert text.endswith("[10s~]:1 ")
    rates.put_messages = 13
    second(61)
    assert rates.put_times.distribution().startswith("[<=0ms]:3 [0~10ms]:0 ")
    assert rates.put_times.longest_ms == 60_000, "of all times"
    rates.put_messages += 10
    rates.put_in_company += 8
    second(61)
    assert rates.put_times.distribution().startswith("[<=0ms]:2 [0~10ms]:0 ")


@pytest.mark.parametrize(
    ("fast", "slow", "part", "expected"),
    [
        (100, {}, 0.99, 0.99),
        (100, {}, 0.999, 0.99),
        (98, {7: 2}, 0.99, 6.5),
        (0, {21: 4}, 0.5, 21.0),
        (0, {7000: 10}, 0.99, 6900.0),
        (990, {20_000: 10}, 0.99, 0.99 * 1000 / 990),
        (0, {}, 0.99, 0.0),
    ],
)
def test_percentiles_are_interpolated_in_buckets(
    fast: int, slow: dict[int, int], part: float, expected: float
) -> None:
    """Buckets of 1 ms up to 20, of 2 up to 50 … of 1000 up to 10 s; a rank is interpolated in its bucket."""
    times = PutTimes()
    for took, count in slow.items():
        for _ in range(count):
            times.slow(took)
    times.end_minute(fast + sum(slow.values()))
    assert times.percentile(part) == pytest.approx(expected)


def test_a_new_day_starts_new_totals() -> None:
    clock = Clock()
    rates = StoreRates(clock)
    rates.put_messages, rates.transferred = 7, 3
    clock.now += 86_400_000
    rates.sample()
    rates.put_messages = 9
    clock.now += 86_400_000
    rates.sample()
    assert rates.mornings == {"put": (7, 9), "get": (3, 3)}


def test_items_of_many_queues_are_summed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic has 65,536 queues, a broker 262,144 counters."""
    monkeypatch.setattr("rmqcli.broker.services.statistics.CELLS_PER_STEP", 2)
    clock = Clock()
    statistics = Statistics(clock, "C")
    statistics.sample()
    for queue_id in range(20):
        statistics.put("T", queue_id, 1, 10)
        statistics.got("T", queue_id, "G", 1, 10)
    for name, key in (("TOPIC_PUT_NUMS", "T"), ("BROKER_PUT_NUMS", "C"), ("GROUP_GET_NUMS", "T@G")):
        assert sum(1 for _ in statistics.item(name, key)) == 10
