"""The examples of `rmq cheat`, which `cheat.toml` beside this file holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rmqcli.cli.exit_codes import usage_error


class Example(NamedTuple):
    """A command line, and what it does."""

    command: str
    text: str


class Subject(NamedTuple):
    """The examples of a subject, and what they are about."""

    about: str
    examples: tuple[Example, ...]


def subjects() -> Mapping[str, Subject]:
    """Return all subjects by name, in the order of the file."""
    import tomllib
    from importlib.resources import files

    tables = tomllib.loads(files("rmqcli.cli").joinpath("cheat.toml").read_text("utf-8"))
    return {
        name: Subject(table["about"], tuple(Example(*pair) for pair in table["examples"]))
        for name, table in tables.items()
    }


def subject(name: str) -> Subject:
    """Return one subject; a usage error that lists them if there is none of this name."""
    known = subjects()
    if name not in known:
        raise usage_error(f"no examples of {name!r}: expected {', '.join(known)}")
    return known[name]
