"""`rmq bench` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

QUICK = ("--rate", "2000", "-c", "20")


@pytest.mark.parametrize("kind", ["send", "consume", "e2e"])
def test_a_result(both: Run, kind: str, tmp_path: Path) -> None:
    shown = both("bench", kind, *QUICK)
    assert shown.code == 0, shown.err
    assert [row[:4] for row in shown.lines] == [["latency", "20", "0", "0"], ["service", "20", "0", "0"]]
    for row in shown.lines:
        times = [float(text) for text in row[4:]]
        assert len(times) == 6 and times == sorted(times) and times[0] > 0
    assert shown.err.startswith("20 operations of ") and "0 failed" in shown.err
    assert "RMQ_BENCH_" not in both("topic", "list").out.decode()


def test_a_comparison(both: Run, tmp_path: Path) -> None:
    first = both("bench", "send", *QUICK, "--json")
    document = first.json
    assert (document["bench"], document["topic"], document["done"]) == ("send", None, 20)
    assert sum(bucket["count"] for bucket in document["latency"]["buckets"]) == 20
    slow, quick = tmp_path / "slow.json", tmp_path / "quick.json"
    times = document["latency"]
    slow.write_text(json.dumps(document | {"doneRate": 0.1, "latency": dict.fromkeys(times, 10**9)}))
    quick.write_text(json.dumps(document | {"doneRate": 0.1, "latency": dict.fromkeys(times, 1)}))
    better = both("bench", "send", *QUICK, "--compare", str(slow))
    assert (better.code, [row[0] for row in better.lines[2:]]) == (
        0,
        ["doneRate", "missed", "p50", "p90", "p99", "p999"],
    )
    worse = both("bench", "send", *QUICK, "--compare", str(quick), "--json")
    assert worse.code == 1
    assert [one["worse"] for one in worse.json["comparison"]] == [False, False, True, True, True, True]
    assert worse.error["message"].startswith("worse than before: p50, p90")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "no JSON"),
        ("[]", "expected a document"),
        ('{"bench":"e2e"}', "bench is e2e"),
    ],
)
def test_files_that_cannot_be_compared(both: Run, tmp_path: Path, content: str, reason: str) -> None:
    assert both("bench", "send", *QUICK, "--compare", str(tmp_path / "none")).code == 4
    path = tmp_path / "old.json"
    path.write_text(content)
    found = both("bench", "send", *QUICK, "--compare", str(path))
    assert found.code == 2
    assert f"{path}: {reason}" in found.err


def test_a_broker_that_does_not_answer(half: Run) -> None:
    found = half("bench", "send", *QUICK)
    assert found.code == 3
    assert found.lines[0][:3] == ["latency", "20", "0"]
    assert "broker-b: cannot connect" in found.err


def test_refusals(both: Run) -> None:
    limit = ("broker", "config", "set", "-b", "broker-b", "--yes")
    both(*limit, "maxMessageSize=100")
    found = both("bench", "send", *QUICK)
    alone = both("bench", "send", *QUICK, "-b", "broker-b")
    both(*limit, "maxMessageSize=4194304")
    assert (found.code, found.lines[0][:3]) == (3, ["latency", "10", "10"])
    assert found.err.splitlines()[-1].startswith("rmq: refused (10): ") and "MESSAGE_ILLEGAL" in found.err
    assert (alone.code, alone.lines[0]) == (1, ["latency", "0", "20", "0", *[""] * 6])


def test_what_is_missing(both: Run, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert both("bench", "e2e", "-T", "no_such_topic").code == 4
    assert both("bench", "send", "-b", "broker-x").code == 4
    assert both("bench", "send", "--rate", "0").code == 2
    assert cli("bench", "send", "-n", "127.0.0.1:1").code == 5
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = both("bench", "consume")
    assert (found.code, found.err) == (
        2,
        "rmq: package hdrhistogram is not installed: pip install 'rmqcli[bench]'\n",
    )
