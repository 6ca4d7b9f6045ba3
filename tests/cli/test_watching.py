"""`--watch` on every list of what changes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import typer

from rmqcli.cli.app import command_tree
from rmqcli.commands.common import watching
from tests.cli.conftest import Run

CHANGING = {
    "broker": ("lag", "status"),
    "cluster": ("list", "producers"),
    "dlq": ("list",),
    "group": ("clients", "describe", "list", "status"),
    "offsets": ("show",),
    "topic": ("list", "stats", "top"),
}


def test_lists_that_can_be_watched() -> None:
    tree = command_tree()
    context = typer.Context(tree, info_name="rmq")
    for noun, verbs in CHANGING.items():
        group = tree.get_command(context, noun)
        inner = typer.Context(group, info_name=noun, parent=context)
        for verb in verbs:
            options = [name for one in group.get_command(inner, verb).params for name in one.opts]
            assert "--watch" in options, f"{noun} {verb}"


def test_errors_do_not_end_it_once_it_was_shown(rmq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rmq("topic", "create", "watched")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            rmq("topic", "delete", "watched", "--yes")
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=pause))
    found = rmq("topic", "stats", "watched", "--watch=7")
    assert (found.code, pauses) == (130, [7.0, 7.0])
    assert found.err.startswith("rmq: topic watched not found")
    assert rmq("topic", "stats", "watched", "--watch").code == 4
