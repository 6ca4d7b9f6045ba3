"""`rmq help`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command, single_command

app = single_command()

WordsArgument = Annotated[
    list[str] | None,
    Argument(
        metavar="[COMMAND...]",
        help="A command, or one of: formats, ranges, account, tls, exit-codes, environment, json-schema.",
        show_default=False,
    ),
]


@command(app, "help", example="rmq help offsets reset\nrmq help ranges")
def show_help(words: WordsArgument = None) -> None:
    """Show the help of a command, or a text on formats, ranges, accounts, TLS, exit codes or the environment."""
    from rmqcli.cli.help_topics import TOPICS, VERBATIM, fitted

    found = words or []
    if len(found) == 1 and found[0] in TOPICS:
        print(fitted(TOPICS[found[0]]()) if found[0] not in VERBATIM else TOPICS[found[0]]())
        return
    from rmqcli.cli.app import command_tree

    with command_tree().make_context("rmq", [*found, "--help"]) as context:
        context.command.invoke(context)
