"""Imports the modules of a group's commands: of a command line that begins with a verb only that one.

A package of commands names its modules as VERBS, in the order of help; the module of a verb has its name.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def import_verbs(package: ModuleType, words: Sequence[str] | None = None) -> None:
    """Import the module of the first word if it is a verb, else all of them; the order of help stays."""
    verbs: Sequence[str] = getattr(package, "VERBS", ())
    wanted = list(words[:1]) if words and words[0] in verbs else verbs
    for verb in wanted:
        importlib.import_module(f"{package.__name__}.{verb}")
    for app in (
        (package.app, *(group.typer_instance for group in package.app.registered_groups)) if verbs else ()
    ):
        app.registered_commands.sort(key=lambda command: _place(command, verbs))


def import_siblings(function: Any) -> None:
    """Import all commands of the group that a command belongs to."""
    import_verbs(importlib.import_module(function.__module__.rpartition(".")[0]))


def _place(command: Any, verbs: Sequence[str]) -> int:
    verb = command.callback.__module__.rpartition(".")[2]
    return verbs.index(verb) if verb in verbs else len(verbs)
