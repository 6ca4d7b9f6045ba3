"""The tests that the page of promises names."""

from __future__ import annotations

from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/durability.md").read_text()


def test_every_promise_names_a_test() -> None:
    tables = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    promises = [line for line in tables if "power cut keeps" not in line and line.count("|") > 3]
    assert len(promises) > 20
    assert [line for line in promises if "`tests/" not in line.split("|")[-2]] == []
