"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcli.cli.exit_codes import usage_error

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]

BrokerOption = Annotated[
    str | None,
    typer.Option("--broker", "-b", metavar="NAME", help="Only this broker, by its name (broker-a)."),
]

TagOption = Annotated[
    str,
    typer.Option("--tag", "-t", metavar="EXPR", help="Only these tags: 'A', 'A || B', '*' is all of them."),
]

SqlOption = Annotated[
    str | None,
    typer.Option(
        "--sql", metavar="EXPR", help="Only messages whose properties meet EXPR (SQL92), e.g. 'price > 5'."
    ),
]

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=r"What to print of each message, e.g. '%o %k %v\n'; the verbs are in rmq-pull(1).",
    ),
]

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
BrokersOption = Annotated[
    list[str] | None, typer.Option("--broker", "-b", metavar="NAME", help="Only on this broker; repeatable.")
]

ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Only on the masters of this cluster.")
]
CountOption = Annotated[
    int | None, typer.Option("--count", "-c", metavar="N", min=1, help="At most N messages.")
]
QueueOption = Annotated[
    int | None, typer.Option("--queue", "-q", metavar="ID", min=0, help="Only the queue ID.")
]
IdleOption = Annotated[
    float | None, typer.Option("--idle", metavar="SECONDS", min=0, help="End when nothing came for so long.")
]
KeyOption = Annotated[
    list[str] | None, typer.Option("--key", "-k", metavar="KEY", help="Index key; repeatable.")
]
TagsOption = Annotated[str | None, typer.Option("--tag", "-t", metavar="TAG", help="The tag.")]
PropertyOption = Annotated[
    list[str] | None, typer.Option("--property", "-p", metavar="NAME=VALUE", help="A property; repeatable.")
]
TraceOption = Annotated[bool, typer.Option("--trace", help="Write traces, which `rmq trace` shows.")]


def check_filter(tag: str, sql: str | None) -> None:
    """Raise a usage error if both `--tag` and `--sql` are given."""
    if sql is not None and tag != "*":
        raise usage_error(
            "--tag and --sql exclude each other; use the property TAGS: --sql \"TAGS = 'paid'\""
        )
