"""`rmq broker status`."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from rmqcli.client import ConnectionFailed
from rmqcli.commands.broker import watch
from rmqcli.commands.common import watching
from rmqcli.render.broker_figures import GROUPS, grouped, human
from tests.cli.conftest import Run


def test_every_figure_of_a_broker_has_a_group(both: Run) -> None:
    rows = both("broker", "status", "-b", "broker-a").lines
    assert {row[0] for row in rows} == {"broker-a"}
    groups = [row[1] for row in rows]
    assert groups == sorted(groups, key=GROUPS.index)
    assert set(groups) == {"broker", "traffic", "puts", "store", "timers", "waiting"}
    table = {row[2]: row[3] for row in rows}
    assert table["brokerVersionDesc"] == "V4_9_8"
    assert table["bootTimestamp"].isdigit()
    assert [one["name"] for one in both("broker", "status", "-b", "broker-a", "--json").json] == [
        row[2] for row in rows
    ]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("putTps", "1200.25 3.0 0", "1,200.2/s (1 min: 3.0, 10 min: 0.0)"),
        ("getTransferredTps", "1.0 ", "1.0/s"),
        ("getTransferedTps", "", ""),
        ("commitLogDiskRatio", "0.28", "28%"),
        ("commitLogDiskRatio_/data/store", "0.5", "50%"),
        ("commitLogMaxOffset", "1234567", "1,234,567"),
        ("putMessageSizeTotal", "2048", "2.0 KiB"),
        ("putMessageAverageSize", "217.4", "217 B"),
        ("earliestMessageTimeStamp", "-1", "none"),
        ("sendThreadPoolQueueHeadWaitTimeMills", "1500", "1,500 ms"),
        ("EndTransactionThreadPoolQueueCapacity", "100000", "100,000"),
        ("scheduleMessageOffset_3", "10,12000", "10 of 12,000"),
        ("putLatency99", "0.40", "0 ms"),
        ("commitLogMaxOffset", "?", "?"),
        ("somethingNew", "1000", "1000"),
    ],
)
def test_values_for_people(name: str, value: str, text: str) -> None:
    assert human(name, value) == text


def test_groups_of_other_versions() -> None:
    table = {"timerEnqueueTps": "0", "newFigure": "1", "scheduleMessageOffset_2": "1,2", "brokerRole": "x"}
    assert [row[0] for row in grouped(table)] == ["broker", "delays", "timers", "other"]


@pytest.mark.parametrize(("option", "seconds"), [("--watch", 2.0), ("--watch=0.5", 0.5)])
def test_watching_goes_on_when_a_broker_is_lost(
    half: Run, option: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(duration: float) -> None:
        pauses.append(duration)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=pause))
    result = half("broker", "status", option, "--json")
    assert (result.code, pauses) == (130, [seconds, seconds])
    assert [len(one) > 28 for one in result.json_lines] == [True, True]
    documents = [json.loads(line) for line in result.err.splitlines()]
    assert [list(one["error"]["failures"]) for one in documents[:-1]] == [["broker-b"]] * 2
    assert documents[-1]["error"]["kind"] == "interrupted"
    assert half("broker", "status").code == 3


def test_watching_outlives_a_name_server_but_does_not_begin_without(
    both: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter([lambda: None, lost, lost, interrupted])
    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr(watch, "_show", lambda settings, seats: next(calls)())
    result = both("broker", "status", "--watch=1")
    assert (result.code, result.err) == (130, "rmq: cannot connect to a:1: refused\n" * 2)
    calls = iter([lost])
    assert both("broker", "status", "--watch").code == 5


def lost() -> None:
    raise ConnectionFailed("a:1", "refused")


def interrupted() -> None:
    raise KeyboardInterrupt
