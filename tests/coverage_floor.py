"""The least coverage of each package, checked at the end of a whole run that measures it (tests/lines.py)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import coverage
import pytest

from tests.lines import PACKAGES, ROOT, all_lines

FLOOR = 90.0
"""Percent of the lines."""


def check(session: pytest.Session) -> None:
    """Writes the figure of each package; one below the floor fails the run."""
    measured = coverage.Coverage(data_file=ROOT / ".coverage")
    measured.combine()
    figures = shares(measured.get_data())
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    for name, percent in figures.items():
        terminal.write_line(f"{percent:.1f} % of the lines of {name} ran, the floor is {FLOOR:g} %")
    if min(figures.values()) < FLOOR and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def shares(data: coverage.CoverageData) -> dict[str, float]:
    """Returns the percent of the lines that ran, by package. Coverage's own report parses all modules again,
    which takes eight seconds while nothing else runs."""
    lines, ran = Counter[str](), Counter[str]()
    for path, count in all_lines().items():
        package = Path(path).relative_to(ROOT).parts[0]
        lines[package] += count
        ran[package] += len(data.lines(path) or ())
    return {name: 100 * ran[name] / lines[name] for name in PACKAGES}
