"""Brokers that were registered before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqcli.doctor.survey import FORGOTTEN_MS, Place, Seen, SeenFile

A, B, SLAVE = Place("c", "1:1"), Place("c", "1:2"), Place("c", "1:3")
BOTH = {"a": A, "b": B, "b:1": SLAVE}


def test_a_broker_that_is_no_longer_registered_is_lost_for_a_day() -> None:
    seen = Seen()
    assert seen.missing(BOTH, 0) == []
    gone = seen.missing({"a": A}, 30_000)
    assert [(one.label, one.name, one.cluster, one.address) for one in gone] == [
        ("b", "b", "c", "1:2"),
        ("b:1", "b", "c", "1:3"),
    ]
    assert gone[0].told(30_000) == "is no longer registered; 30 s ago it was, at 1:2"
    assert seen.missing(BOTH, 60_000) == []
    assert len(seen.missing({"a": A}, FORGOTTEN_MS)) == 2
    assert seen.missing({"a": A}, FORGOTTEN_MS + 60_000) == []


def test_one_that_comes_back_elsewhere_is_not_lost() -> None:
    seen = Seen()
    seen.missing({"a": A}, 0)
    assert seen.missing({"a": B}, 1) == []


def test_the_former_master_is_lost_when_a_slave_takes_its_place() -> None:
    seen = Seen()
    seen.missing(BOTH, 0)
    for now in (1, 2):
        assert [(one.label, one.address) for one in seen.missing({"a": A, "b": SLAVE}, now)] == [
            ("b:1", "1:2")
        ]


def test_the_number_that_is_expected_is_all_there_is() -> None:
    seen = Seen()
    seen.missing(BOTH, 0)
    seen.note({"a": A}, 1)
    assert seen.missing({"a": A}, 2) == []


def test_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQ_STATE_DIR", str(tmp_path / "state"))
    file, seen = SeenFile("10.0.0.2;10.0.0.1:9877"), Seen()
    assert file.read().brokers == []
    seen.missing(BOTH, 7)
    file.write(seen)
    assert file.trouble is None
    again = SeenFile("10.0.0.1:9877;10.0.0.2:9876").read()
    assert again.brokers == seen.brokers and len(again.brokers) == 3
    assert SeenFile("10.0.0.1:9876").read().brokers == []
    file.path.write_bytes(b"[{")
    assert SeenFile("10.0.0.2;10.0.0.1:9877").read().brokers == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RMQ_STATE_DIR", str(tmp_path / "file"))
    file = SeenFile("a")
    file.write(file.read())
    assert file.reason.startswith(f"brokers of earlier runs are unknown: {tmp_path}{os.sep}file")
    assert "RMQ_STATE_DIR" in file.reason
