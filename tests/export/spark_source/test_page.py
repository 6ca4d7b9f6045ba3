"""docs/spark.md as one session: its ```python blocks are run in order; each must print the ```text block
behind it, or nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker import embedded_in_thread

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"
STEP = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def test_the_page_prints_what_it_shows(spark: object, capsys: pytest.CaptureFixture[str]) -> None:
    steps = STEP.findall(PAGE.read_text())
    assert sum(bool(shown) for _, shown in steps) == 5
    with embedded_in_thread() as running:
        names: dict[str, Any] = {"STORE": str(running.store_path)}
        for code, shown in steps:
            exec(code.replace("127.0.0.1:9876", running.namesrv), names)
            assert capsys.readouterr().out.strip() == shown.strip()
