"""The command tree, lazily: a command's module is imported when it is called, or when its own help is shown.

One table names every command. `rmq --help` reads only the table. typer carries its own copy of Click in some versions
and uses the real one in others, so Click's classes are reached through typer's public names only.
"""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from rmqcli import __version__
from rmqcli.cli.command import SectionedGroup, global_options
from rmqcli.cli.errors import report
from rmqcli.cli.exit_codes import ExitCode

__all__ = ["COMMANDS", "Entry", "command_tree", "run"]


class Entry(NamedTuple):
    """Where a command lives: `attribute` of `module` is its `typer.Typer`."""

    module: str
    help: str
    attribute: str = "app"


COMMANDS: dict[str, Entry] = {
    "send": Entry("rmqcli.commands.send", "Send messages: an argument, or standard input by lines."),
    "request": Entry("rmqcli.commands.request", "Send a request and print the reply to it."),
    "pull": Entry("rmqcli.commands.pull", "Read a range of messages; no group, no offset is touched."),
    "tail": Entry("rmqcli.commands.tail", "Show the last messages of a topic, then follow it."),
    "consume": Entry("rmqcli.commands.consume", "Consume as a member of a group; print, or run a command."),
    "query": Entry("rmqcli.commands.query", "Find messages by key or by message id."),
    "trace": Entry("rmqcli.commands.trace", "Show who sent and consumed a message, as traces tell."),
    "topic": Entry("rmqcli.commands.topic", "List, describe, create, change and delete topics."),
    "group": Entry("rmqcli.commands.group", "Consumer groups: lag, clients, settings."),
    "offsets": Entry("rmqcli.commands.offsets", "Show, reset and clone the offsets of a consumer group."),
    "cluster": Entry("rmqcli.commands.cluster", "Show clusters, their brokers and producers."),
    "inspect": Entry(
        "rmqcli.commands.inspect", "Read, verify, rebuild and salvage store folders and their files."
    ),
    "export": Entry(
        "rmqcli.commands.export", "Write messages to Parquet, on this machine or as a Spark job."
    ),
    "import": Entry(
        "rmqcli.commands.import_", "Send the messages of Parquet files or JSON lines to a topic."
    ),
    "up": Entry("rmqcli.commands.up", "Start a name server and a broker in one process."),
    "broker": Entry("rmqcli.commands.broker", "Run a broker in the foreground."),
    "namesrv": Entry("rmqcli.commands.namesrv", "Run a name server in the foreground."),
    "profile": Entry("rmqcli.commands.profile", "Name clusters, so that -n need not be repeated."),
}

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(SectionedGroup):
    """The root group. `commands` holds placeholders with the help of the table; they are replaced when used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else _load(cmd_name, entry)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        entry = COMMANDS.get(args[0])
        if entry is None:
            return super().resolve_command(ctx, args)  # says what is wrong
        return args[0], _load(args[0], entry, args[1:]), args[1:]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _load(name: str, entry: Entry, words: Sequence[str] = ()) -> Any:
    """The command. Of a group only those commands are built that `words` mention, if there are any: each takes a millisecond."""
    application = getattr(importlib.import_module(entry.module), entry.attribute)
    registered = application.registered_commands
    mentioned = [command for command in registered if command.name in words]
    if mentioned and application.registered_callback is not None:
        application = copy.copy(application)
        application.registered_commands = mentioned
    command = get_command(application)
    command.name = name
    return command


def _version(value: bool) -> None:
    if value:
        print(f"rmq {__version__}")
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version and exit.")
]

EPILOG = """\b
Examples:
  rmq up                                  a broker to play with
  rmq send orders hello -k 42 -t paid     one message
  rmq pull orders -o -10                  the last ten
  rmq tail orders --json | jq .body       follow

\b
Exit codes: 0 done, 1 failed, 2 usage, 3 partly done, 4 not found,
5 cannot connect, 6 not permitted, 7 timed out, 8 data corrupt,
130 interrupted."""


def command_tree() -> Any:
    """The root command (Click's or typer's `Group`)."""
    root = typer.Typer(name="rmq", cls=LazyGroup, add_completion=False, rich_markup_mode=None)

    @root.callback(context_settings=_CONTEXT, epilog=EPILOG, no_args_is_help=True)
    @global_options
    def rmq(version: _Version = False) -> None:
        """Command-line toolkit for Apache RocketMQ: send, pull, tail, administer, inspect, and run a broker."""

    tree: Any = get_command(root)
    tree.commands.update({name: TyperCommand(name, help=entry.help) for name, entry in COMMANDS.items()})
    return tree


def run(arguments: Sequence[str]) -> ExitCode:
    """Runs one command line and maps whatever comes out of it; never raises."""
    try:
        with command_tree().make_context("rmq", list(arguments)) as context:
            context.command.invoke(context)
        sys.stdout.flush()
    except BaseException as error:
        return report(error, verbose=_asked_for_details(arguments))
    return ExitCode.DONE


def _asked_for_details(arguments: Sequence[str]) -> bool:
    return any(argument in ("-v", "-vv", "--verbose") for argument in arguments)
