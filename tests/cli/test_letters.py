"""One letter means one thing in every command, and CONTRIBUTING shows the table of letters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from rmqcli.cli.app import command_tree

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
    """The table of the page has every letter, and every option with one of its names has its letter."""
    text = (ROOT / "docs" / "contributing.md").read_text("utf-8")
    letters = {name: letter for letter, name in re.findall(r"^\| `(-\w)` \| `(--[a-z]+)` \|", text, re.M)}
    wrong = []
    for path, option in every_option:
        names = (*option.opts, *option.secondary_opts)
        given = {name for name in names if not name.startswith("--")}
        if given != {letters[name] for name in names if name in letters}:
            wrong.append(f"rmq {path} {'/'.join(names)}")
    assert wrong == []
    used = {name for _, option in every_option for name in option.opts}
    assert used >= {*letters, *letters.values()}
    assert "docs/contributing.md#letters" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
