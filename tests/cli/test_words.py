"""Counts in sentences agree with their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.cli.settings import Settings
from rmqcli.counts import gone, many, messages_at
from rmqcli.render.inspection import show_report
from rmqcli.render.store_view import show_rebuilt
from rmqcli.store.repair.rebuild import Rebuilt
from rmqcli.store.verify.findings import Finding, Report


def test_counts() -> None:
    assert [many(count, "message") for count in (0, 1, 2_000)] == [
        "0 messages",
        "1 message",
        "2,000 messages",
    ]
    assert [many(count, "entry") for count in (1, 2)] == ["1 entry", "2 entries"]
    assert many(2, "body") == "2 bodies"


def test_ranges_of_messages() -> None:
    assert messages_at(5, 9) == "messages 5 to 8"
    assert messages_at(5, 6) == "message 5"
    assert gone(5, 9) == "messages 5 to 8 no longer exist"
    assert gone(5, 6) == "message 5 no longer exists"


def test_reports_of_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings()
    report = Report(files=1, items=1, size=1)
    report.add(Finding(Path("x"), 0, "damaged", length=1))
    show_report(settings, report, "entry")
    show_rebuilt(settings, Rebuilt(1, 1, 1, 0, 1, 1, 0), [], [], True)
    assert capsys.readouterr().out.splitlines() == [
        "x: byte 0: damaged (1 byte unreadable)",
        "damaged in 1 place: 1 entry in 1 file, 1 B",
        "built: 1 entry of 1 queue, 1 item in 1 index file",
    ]
