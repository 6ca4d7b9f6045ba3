"""The programs of docs/testing.md and other pages."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FRAMEWORKS = {"test_with_pytest_asyncio.py", "test_with_anyio.py", "test_service.py"}
"""Test files that need packages which are not of this project: tests/foreign runs them."""


def blocks(language: str, page: Path = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
