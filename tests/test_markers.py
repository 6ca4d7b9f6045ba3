"""The markers that folders, slow.txt and nightly.txt give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests import markers


@dataclass
class Item:
    nodeid: str
    found: set[str] = field(default_factory=set)

    def add_marker(self, marker: str) -> None:
        self.found.add(marker)


def marked(
    monkeypatch: pytest.MonkeyPatch, *names: str, slow: list[str], nightly: list[str]
) -> list[set[str]]:
    monkeypatch.setattr(markers, "SLOW", slow)
    monkeypatch.setattr(markers, "NIGHTLY", nightly)
    items: Any = [Item(f"tests/crash/test_kill.py::{name}") for name in names]
    markers.mark(items, is_whole=False)
    return [item.found for item in items]


def test_a_test_has_the_markers_of_its_folder_and_of_all_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    name = ["test_kill.py::test_a"]
    first, second = marked(monkeypatch, "test_a", "test_b", slow=name, nightly=name)
    assert first == {"crash", "slow", "nightly"}
    assert second == {"crash"}


def test_one_of_so_many_cases_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [f"test_a[{number}]" for number in range(5)]
    found = marked(monkeypatch, *cases, slow=[], nightly=["test_kill.py::test_a /3"])
    assert ["nightly" in one for one in found] == [False, True, True, False, True]
