"""Trends of `rmq top`."""

from __future__ import annotations

import pytest

from rmqcli.top.loads import POINTS, Trend, Trends


def test_a_lag_that_falls() -> None:
    trends = Trends()
    assert trends.note("g", 100, 0.0) == Trend((100,), None, None)
    assert trends.note("g", 80, 2.0) == Trend((100, 80), -10.0, 8.0)
    assert trends.note("g", None, 4.0) == Trend((100, 80), -10.0, None)
    assert trends.note("g", 0, 10.0) == Trend((100, 80, 0), -10.0, 0.0)
    assert trends.note("other", 5, 10.0).change is None


def test_a_lag_that_grows_has_no_end() -> None:
    trends = Trends()
    trends.note("g", 1, 0.0)
    assert trends.note("g", 5, 2.0) == Trend((1, 5), 2.0, None)


def test_the_change_is_that_of_a_minute_and_values_are_thinned() -> None:
    trends = Trends()
    for second in range(0, 401, 10):
        found = trends.note("g", 1000 if second < 300 else 1000 - (second - 300), float(second))
    assert found.change == pytest.approx(-1.0)
    assert found.eta == pytest.approx(900)
    assert (len(found.values), found.values[0], found.values[-1]) == (POINTS, 1000, 900)
