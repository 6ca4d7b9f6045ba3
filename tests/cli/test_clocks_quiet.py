"""What a command says beside its results: clocks that differ from the brokers', and nothing with --quiet."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run

HOUR_MS = 3_600_000


@pytest.mark.parametrize("skew", [HOUR_MS, -HOUR_MS])
@pytest.mark.parametrize(
    "words",
    [
        ("pull", "{}", "-o", "@-10m"),
        ("pull", "{}", "-o", "@-3h:@-170m"),
        ("tail", "{}", "-o", "@-10m", "--idle", "0.1"),
        ("query", "{}", "--key", "k", "--time", "@-20m:@-10m"),
        ("topic", "entries", "{}", "-o", "@-10m"),
        ("offsets", "reset", "billing", "{}", "--to", "@-10m", "--dry-run"),
    ],
)
def test_a_clock_that_differs_by_more_than_the_span_is_said(
    rmq: Run, topic: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], skew: int
) -> None:
    monkeypatch.setattr("rmqcli.doctor.brokers.skew_ms", lambda _reading: skew)
    said = rmq(*(word.format(topic) for word in words)).err
    where = "ahead of" if skew > 0 else "behind"
    assert said.startswith(f"rmq: the clock of broker-a is 3,600 s {where} this machine, more than @-")


@pytest.mark.parametrize("span", ["start", "@-2h", "@-1h30m", "@-4h:@-2h", "-5"])
def test_a_clock_within_the_span_is_not_spoken_of(
    rmq: Run, topic: str, monkeypatch: pytest.MonkeyPatch, span: str
) -> None:
    monkeypatch.setattr("rmqcli.doctor.brokers.skew_ms", lambda _reading: HOUR_MS)
    assert "clock" not in rmq("pull", topic, "-o", span).err


def test_the_clock_of_this_machine_is_the_brokers(rmq: Run, topic: str) -> None:
    assert "clock" not in rmq("pull", topic, "-o", "@-10s").err


def test_quiet_hides_notes_but_no_errors(rmq: Run, topic: str) -> None:
    assert f"topic {topic}2 created" in rmq("topic", "create", f"{topic}2").err
    assert rmq("--quiet", "topic", "create", f"{topic}3").err == ""
    assert rmq("topic", "create", f"{topic}4", "--quiet").err == ""
    assert f"topic {topic}5 created" in rmq("topic", "create", f"{topic}5").err
    assert "not found" in rmq("--quiet", "topic", "describe", "nope").err
