"""Every option of the commands on stores is named in its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqcli.cli.app import command_tree
from rmqcli.cli.help import is_global

DOCS = Path(__file__).parents[2] / "docs"
_EVERYWHERE = {"--columns", "--sort", "--header", "--csv", "--help"}


def section(page: str, title: str | None = None) -> str:
    text = (DOCS / page).read_text()
    return text if title is None else text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


PLACES = {
    "inspect": section("inspect.md"),
    "export": "".join(map(section, ("export.md", "spark.md", "decode.md", "tables.md"))),
    "import": section("export.md", "Import"),
}


def options(name: str) -> set[tuple[str, ...]]:
    """The names of each option, of all commands of a group together."""
    root = command_tree()
    with root.make_context("rmq", [name], resilient_parsing=True) as context:
        command = root.get_command(context, name)
    commands = getattr(command, "commands", {name: command}).values()
    every = {(*p.opts, *p.secondary_opts) for one in commands for p in one.params if not is_global(p)}
    return {names for names in every if names[0].startswith("-") and not _EVERYWHERE & set(names)}


@pytest.mark.parametrize("name", PLACES)
def test_every_option_is_named(name: str) -> None:
    found = options(name)
    assert len(found) > 5
    words = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", PLACES[name]))
    assert sorted(names for names in found if not words & set(names)) == []
