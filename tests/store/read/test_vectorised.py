"""The choice between NumPy and reading record by record."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec

import pytest

from rmqcli.store.read import vectorised
from rmqcli.store.read.vectorised import is_vectorised


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_without_one_of_the_packages_of_the_extra_all_is_looked_at_by_itself(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """CRCs of small bodies need PyArrow, too: NumPy alone may be installed for other reasons."""
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == missing else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    monkeypatch.setitem(sys.modules, missing, None)
    vectorised._are_installed.cache_clear()
    try:
        assert not is_vectorised()
    finally:
        vectorised._are_installed.cache_clear()


def test_with_both_many_are_looked_at_at_once() -> None:
    assert is_vectorised()
