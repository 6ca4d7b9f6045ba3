"""The pages hang together: links lead somewhere, every page is listed, every command is shown at work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqcli.cli.app import command_tree
from rmqcli.cli.exit_codes import ExitCode
from tests.docs.pages import PAGES, ROOT, steps

DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def text_of(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(text_of(page)):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_listed() -> None:
    linked = set(LINK.findall((DOCS / "README.md").read_text()))
    assert [page.name for page in sorted(DOCS.glob("*.md")) if page.name not in {"README.md", *linked}] == []


def commands(command: Any, path: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
        return
    context = command.make_context(path, [], resilient_parsing=True, help_option_names=["-h", "--help"])
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), f"{path} {name}")


def test_every_command_is_shown_at_work() -> None:
    """With options of the whole program before its name."""
    shown = "\n".join(command for page in PAGES for command, _ in steps(page))
    typed = re.sub(r"rmq( --profile \w+| --timeout [\d.]+| -n \S+)+ ", "rmq ", shown)
    every = list(commands(command_tree(), "rmq"))
    assert len(every) > 30
    assert [one for one in every if not re.search(rf"\b{one}\b", typed)] == []


def test_the_page_of_exit_codes_lists_them_all() -> None:
    listed = re.findall(r"^\| (\d+) \|", (DOCS / "exit-codes.md").read_text(), re.MULTILINE)
    assert listed == [str(code.value) for code in ExitCode]
