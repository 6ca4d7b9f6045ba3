"""The group `rmq group`, and options that its commands share."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from rmqcli.cli.command import command_group

app = command_group("group", "Show and change consumer groups: lag, clients, settings.")

GroupArgument = Annotated[str, Argument(metavar="GROUP", help="Name of the consumer group.")]
TopicOption = Annotated[str | None, Option("--topic", "-t", metavar="TOPIC", help="Limit to this topic.")]


def short_kind(text: str | None) -> str:
    """Return push, pull, clustering or broadcasting for Java's name."""
    return {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull"}.get(text or "", (text or "").lower())
