"""The attributes of a topic of 5.x as options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from typer import Option

from rmqcli.cli.exit_codes import usage_error

SetOption = Annotated[
    list[str] | None,
    Option(
        "--attribute",
        metavar="NAME=VALUE",
        help="Set an attribute of 5.x, such as message.type=FIFO; repeatable.",
    ),
]
RemoveOption = Annotated[
    list[str] | None,
    Option("--remove-attribute", metavar="NAME", help="Remove an attribute of 5.x; repeatable."),
]


def attribute_changes(wanted: Sequence[str] | None, unwanted: Sequence[str] | None = None) -> str | None:
    """Return Java's text of the changes, `+name=value,-name`, or None; raise a usage error for other texts."""
    parts = [f"+{_assignment(text)}" for text in wanted or ()] + [
        f"-{_name(text)}" for text in unwanted or ()
    ]
    names = [part[1:].partition("=")[0] for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise usage_error(f"attribute {name} is named twice")
    return ",".join(parts) or None


def _assignment(text: str) -> str:
    name, equals, value = text.partition("=")
    if not (name and equals and value) or "," in text:
        raise usage_error(f"--attribute {text!r}: expected NAME=VALUE, without commas")
    return text


def _name(text: str) -> str:
    if not text or "=" in text or "," in text:
        raise usage_error(f"--remove-attribute {text!r}: expected the name of an attribute")
    return text
