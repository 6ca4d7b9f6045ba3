"""Rates as Java's `StatsItem` computes them: differences of samples, the first of which is zero."""

from __future__ import annotations

import pytest

from rmqcli.client.push.statistics import SAMPLE_INTERVAL, SAMPLES_AN_HOUR, Statistics

TOPIC = "T"


def sampled(statistics: Statistics, rounds: int, begin: int = 0) -> float:
    """Samples `rounds` times, SAMPLE_INTERVAL apart, after round `begin`; returns the time of the last."""
    for number in range(begin, begin + rounds):
        statistics.sample(number * SAMPLE_INTERVAL)
    return (begin + rounds - 1) * SAMPLE_INTERVAL


def test_the_first_sample_makes_a_rate_of_ten_seconds() -> None:
    statistics = Statistics()
    sampled(statistics, 30)
    statistics[TOPIC].pulled.add(50)
    sampled(statistics, 1, 30)
    assert statistics[TOPIC].status().pull_tps == 5.0
    sampled(statistics, 1, 31)
    assert statistics[TOPIC].status().pull_tps == 2.5


@pytest.mark.parametrize(("later", "rate"), [(4, 1.0), (5, 50 / 60), (6, 0.0)])
def test_a_minute_is_seven_samples(later: int, rate: float) -> None:
    statistics = Statistics()
    statistics[TOPIC].pulled.add(50)
    sampled(statistics, 1 + later)
    assert statistics[TOPIC].status().pull_tps == pytest.approx(rate)


def test_failures_of_the_hour_count_from_the_first() -> None:
    statistics = Statistics()
    sampled(statistics, 1)
    statistics[TOPIC].failed.add(3)
    sampled(statistics, SAMPLES_AN_HOUR - 1, 1)
    assert statistics[TOPIC].status().consume_failed_msgs == 0
    sampled(statistics, 1, SAMPLES_AN_HOUR)
    assert statistics[TOPIC].status().consume_failed_msgs == 3
    sampled(statistics, 6 * SAMPLES_AN_HOUR, SAMPLES_AN_HOUR + 1)
    assert statistics[TOPIC].status().consume_failed_msgs == 0


def test_times_of_consumption_are_of_the_hour_when_the_minute_has_none_but_times_of_pulls_are_not() -> None:
    statistics = Statistics()
    for total in (statistics[TOPIC].consume_time, statistics[TOPIC].pull_time):
        total.add(30)
        total.add(10)
    sampled(statistics, 1)
    status = statistics[TOPIC].status()
    assert (status.consume_rt, status.pull_rt) == (20.0, 20.0)
    sampled(statistics, 10, 1)
    status = statistics[TOPIC].status()
    assert (status.consume_rt, status.pull_rt) == (20.0, 0.0)


def test_nothing_is_a_rate_of_nothing() -> None:
    statistics = Statistics()
    sampled(statistics, 3)
    assert statistics[TOPIC].status().consume_ok_tps == 0.0
