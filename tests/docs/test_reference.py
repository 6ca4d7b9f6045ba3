"""The reference that `make docs` writes."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from tests.docs.pages import ROOT

REFERENCE: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "reference.py"))


@pytest.mark.parametrize("module", REFERENCE["MODULES"])
def test_every_public_name_is_described(module: str) -> None:
    page = REFERENCE["read"](module)
    assert page.docstring
    assert [name for name in page.obj.__all__ if not page.get(name).docstring] == []
    named = {
        line.split("`")[1]
        for line in (ROOT / "docs" / "library.md").read_text().splitlines()
        if "| `" in line
    }
    assert module in named
