"""One letter means one thing in every command, and CONTRIBUTING shows the table of letters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from rmqcli.cli.app import command_tree
from rmqcli.cli.former import FORMER
from rmqcli.cli.letters import LETTERS

ROOT = Path(__file__).parents[2]


def options(command: Any, context: Any, path: str) -> list[tuple[str, Any]]:
    """Return every option of the command tree with the path of its command."""
    found = [(path, one) for one in command.get_params(context) if one.param_type_name == "option"]
    for name in command.list_commands(context) if hasattr(command, "list_commands") else []:
        child = command.get_command(context, name)
        found += options(
            child, typer.Context(child, info_name=name, parent=context), f"{path} {name}".strip()
        )
    return found


@pytest.fixture(scope="module")
def every_option() -> list[tuple[str, Any]]:
    tree = command_tree()
    context = typer.Context(tree, info_name="rmq", help_option_names=["-h", "--help"])
    return options(tree, context, "")


def test_a_letter_means_one_thing(every_option: list[tuple[str, Any]]) -> None:
    letters = {name: letter for letter, name in LETTERS.items()}
    wrong = []
    for path, option in every_option:
        names = (*option.opts, *option.secondary_opts)
        given = {name for name in names if not name.startswith("--")}
        if given != {letters[name] for name in names if name in letters}:
            wrong.append(f"rmq {path} {'/'.join(names)}")
    assert wrong == []


def test_contributing_shows_the_letters() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text("utf-8")
    rows = re.findall(r"^\| `(-\w)` \| `(--[a-z]+)` \|", text, re.M)
    assert dict(rows) == LETTERS
    assert "docs/contributing.md#letters" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_former_spellings_belong_to_commands(every_option: list[tuple[str, Any]]) -> None:
    known: dict[str, set[str]] = {path: set() for path, _ in every_option}
    for path, option in every_option:
        known[path] |= {*option.opts, *option.secondary_opts}
    for path, former in FORMER.items():
        for old, now in former.items():
            assert now.position is not None or known[path].issuperset(now.name.split(" and ")), (path, old)
            assert now.values or old not in known[path], (path, old)
