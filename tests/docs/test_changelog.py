"""CHANGELOG.md has one fact a line, so that git can merge what two branches add (docs/releasing.md)."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from itertools import pairwise

import rmqcli
from tests.docs.pages import ROOT

TITLE, *SECTIONS = (ROOT / "CHANGELOG.md").read_text().split("\n## ")
HEADINGS = [section.partition("\n")[0] for section in SECTIONS]
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+) \((unreleased|\d{4}-\d\d-\d\d)\)")
LINE = re.compile(r"### \S.*|\* \S.*\.")


def test_versions_descend_and_only_the_first_has_no_date() -> None:
    assert TITLE == "# Changelog\n"
    found = [VERSION.fullmatch(heading) for heading in HEADINGS]
    assert [heading for heading, match in zip(HEADINGS, found, strict=True) if match is None] == []
    versions = [tuple(map(int, match.groups()[:3])) for match in found if match]
    assert all(later > earlier for later, earlier in pairwise(versions))
    dates = [match[4] for match in found if match]
    for text in dates[1:] if dates[0] == "unreleased" else dates:
        date.fromisoformat(text)


def test_the_first_version_is_that_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert HEADINGS[0].partition(" ")[0] == version == rmqcli.__version__


def test_each_line_is_a_heading_or_a_fact() -> None:
    """A fact on two lines could be torn apart by a merge."""
    lines = [line for section in SECTIONS for line in section.splitlines()[1:] if line]
    assert [line for line in lines if not LINE.fullmatch(line) or len(line) > 118] == []


def test_no_line_is_repeated_in_a_version() -> None:
    """A merge keeps the lines of both branches, also where both have the same."""
    for section in SECTIONS:
        lines = [line for line in section.splitlines() if line]
        assert sorted(lines) == sorted(set(lines))
