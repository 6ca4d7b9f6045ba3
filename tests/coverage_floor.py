"""The least coverage of each package, checked at the end of a whole run that measures it (tests/lines.py)."""

from __future__ import annotations

import io

import coverage
import pytest

from tests.lines import PACKAGES, ROOT

FLOOR = 90.0
"""Percent of the lines."""


def check(session: pytest.Session) -> None:
    """Writes the figure of each package; one below the floor fails the run."""
    measured = coverage.Coverage(data_file=ROOT / ".coverage")
    measured.combine()
    figures = {name: measured.report(include=[f"{name}/*"], file=io.StringIO()) for name in PACKAGES}
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    for name, percent in figures.items():
        terminal.write_line(f"{percent:.1f} % of the lines of {name} ran, the floor is {FLOOR:g} %")
    if min(figures.values()) < FLOOR and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
