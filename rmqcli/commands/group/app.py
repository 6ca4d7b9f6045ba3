"""The group `rmq group`: options that its commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcli.cli.command import command_group

app = command_group("group", "Consumer groups: lag, clients, settings.")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]

TopicOption = Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic.")]


def short_kind(text: str | None) -> str:
    """push, pull, clustering, broadcasting."""
    return {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull"}.get(text or "", (text or "").lower())
