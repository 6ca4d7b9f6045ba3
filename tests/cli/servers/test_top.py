"""`rmq top`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rmqcli.commands.common import watching
from tests.cli.conftest import Run

ONCE = ("--once", "--interval", "0.1")


@pytest.fixture
def behind(both: Run, request: pytest.FixtureRequest) -> str:
    """A group that is two messages behind in a topic of its name."""
    name = f"{request.node.name}_of_top"
    for number in range(3):
        assert both("send", name, str(number), "-q", "0", "-b", "broker-a").code == 0
    assert both("consume", name, "-g", name, "--from", "start", "-c", "1").code == 0
    return name


def test_groups(both: Run, behind: str) -> None:
    (row,) = both("top", *ONCE, "--filter", behind).lines
    assert (row[0], row[4], row[5], row[6], row[8]) == (behind, "2", "0.0", "", "false")
    (one,) = both("top", "groups", *ONCE, "--filter", behind, "--json").json
    assert (one["name"], one["lag"], one["trend"], one["etaSeconds"]) == (behind, 2, [2, 2], None)


def test_topics(both: Run, behind: str) -> None:
    found = both("top", "topics", *ONCE, "--filter", behind)
    assert [(row[0], row[1], row[4]) for row in found.lines] == [(behind, behind, "2")]


def test_order_and_number(both: Run, behind: str) -> None:
    names = [row[0] for row in both("top", "brokers", *ONCE, "--sort", "name").lines]
    assert names == ["broker-a", "broker-b"]
    assert len(both("top", "brokers", *ONCE, "-c", "1").lines) == 1
    lags = [int(row[4]) for row in both("top", *ONCE).lines if row[4]]
    assert lags == sorted(lags, reverse=True)


def test_a_lost_broker(half: Run) -> None:
    found = half("top", "brokers", *ONCE)
    assert found.code == 3
    assert [(row[0], row[8]) for row in found.lines] == [("broker-a", "false"), ("broker-b", "true")]
    assert found.err.startswith("rmq: broker-b: cannot connect")


def test_a_list_for_every_interval(
    both: Run, half: Run, behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=pause))
    found = both("top", "--interval", "7", "--filter", behind, "--json")
    assert (found.code, pauses) == (130, [7.0] * 3)
    assert [one[0]["trend"] for one in found.json_lines] == [[2], [2, 2], [2, 2, 2]]


def test_a_lost_broker_does_not_end_it(half: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=pause))
    found = half("top", "brokers")
    assert [row[0] for row in found.lines] == ["broker-a", "broker-b"] * 2


def test_what_is_refused(both: Run, cli: Run) -> None:
    assert "expected groups, topics or brokers" in both("top", "queues").err
    assert both("top", "queues").code == both("top", "--sort", "size").code == 2
    assert cli("top", "--once", "-n", "127.0.0.1:1").code == 5
