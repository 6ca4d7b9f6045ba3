"""Rules that the tests themselves keep."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent
IMPORT = re.compile(r"^\s*(?:from|import) tests[\w.]*\.test_\w+", re.MULTILINE)


def test_no_module_imports_a_test_module() -> None:
    """What tests share is in support modules, so that a test can be moved or run alone."""
    importing = [path.name for path in sorted(ROOT.rglob("*.py")) if IMPORT.search(path.read_text())]
    assert importing == []
