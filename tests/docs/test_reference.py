"""The reference that `make docs` writes."""

from __future__ import annotations

import runpy

from tests.docs.pages import ROOT


def test_every_public_name_is_described() -> None:
    reference = runpy.run_path(str(ROOT / ".ci" / "reference.py"))  # which imports pdoc, for half a second
    named = {
        line.split("`")[1]
        for line in (ROOT / "docs" / "library.md").read_text().splitlines()
        if "| `" in line
    }
    for module in reference["MODULES"]:
        page = reference["read"](module)
        assert page.docstring, module
        assert [name for name in page.obj.__all__ if not page.get(name).docstring] == [], module
        assert module in named
