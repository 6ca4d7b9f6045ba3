"""The command tree. A command's module is imported when the command runs or shows its help.

`COMMANDS` names every command; `rmq --help` reads only this table. Some versions of typer carry a copy of
Click and others use Click itself, so this module reaches Click's classes through typer's public names only.
"""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from rmqcli import version_text
from rmqcli.cli.command import (
    BARE,
    GIVEN,
    BareGroup,
    SectionedGroup,
    asks_for_help,
    global_options,
    import_parts,
)
from rmqcli.cli.errors import report
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Given, Settings


class Entry(NamedTuple):
    """The location of a command and its section in `rmq --help`. Its `typer.Typer` is the `attribute` of
    `module`.
    """

    module: str
    section: str
    help: str
    attribute: str = "app"


COMMANDS: dict[str, Entry] = {
    "send": Entry(
        "rmqcli.commands.send", "Messages", "Send messages from an argument, files or standard input."
    ),
    "request": Entry("rmqcli.commands.request", "Messages", "Send a request and print its reply."),
    "recall": Entry("rmqcli.commands.recall", "Messages", "Take back timer messages that are not due yet."),
    "pull": Entry("rmqcli.commands.pull", "Messages", "Read messages from a range of offsets or times."),
    "tail": Entry("rmqcli.commands.tail", "Messages", "Show the last messages of a topic and follow it."),
    "copy": Entry("rmqcli.commands.copy_", "Messages", "Copy messages to another topic or cluster."),
    "consume": Entry(
        "rmqcli.commands.consume", "Messages", "Consume messages as a member of a consumer group."
    ),
    "query": Entry("rmqcli.commands.query", "Messages", "Find messages by key or message ID."),
    "id": Entry("rmqcli.commands.id_", "Messages", "Decode message IDs."),
    "trace": Entry("rmqcli.commands.trace", "Messages", "Show who sent and who consumed a message."),
    "dlq": Entry("rmqcli.commands.dlq", "Messages", "Show dead letters, send them back, or drop them."),
    "topic": Entry(
        "rmqcli.commands.topic", "Administration", "List, describe, create, update and delete topics."
    ),
    "group": Entry(
        "rmqcli.commands.group", "Administration", "Show and change consumer groups: lag, clients, settings."
    ),
    "offsets": Entry("rmqcli.commands.offsets", "Administration", "Show, reset and clone consumer offsets."),
    "cluster": Entry(
        "rmqcli.commands.cluster", "Administration", "Show the brokers and producers of a cluster."
    ),
    "doctor": Entry("rmqcli.commands.doctor", "Administration", "Diagnose a cluster and suggest remedies."),
    "check": Entry(
        "rmqcli.commands.check", "Administration", "Check a cluster for Nagios, Icinga or Prometheus."
    ),
    "metrics": Entry("rmqcli.commands.metrics", "Administration", "Serve cluster metrics to Prometheus."),
    "top": Entry(
        "rmqcli.commands.top", "Administration", "Show the load of groups, topics or brokers, and its trend."
    ),
    "console": Entry(
        "rmqcli.commands.console", "Administration", "Show a cluster on a page that stays up to date."
    ),
    "report": Entry(
        "rmqcli.commands.report", "Administration", "Write an HTML page about a cluster or a store folder."
    ),
    "bench": Entry(
        "rmqcli.commands.bench", "Administration", "Measure sends, pulls and round trips at a fixed rate."
    ),
    "inspect": Entry("rmqcli.commands.inspect", "Files", "Read, verify, rebuild and salvage store files."),
    "export": Entry(
        "rmqcli.commands.export", "Files", "Export messages to Parquet files, or to a table of a lakehouse."
    ),
    "import": Entry(
        "rmqcli.commands.import_", "Files", "Import messages from Parquet files, JSON lines or tables."
    ),
    "compact": Entry("rmqcli.commands.compact", "Files", "Merge the small files of a table or an export."),
    "spark": Entry(
        "rmqcli.commands.spark",
        "Files",
        "Prepare Spark clusters for `rmq export --spark` and the data source.",
    ),
    "sql": Entry("rmqcli.commands.sql", "Files", "Query topics of a cluster or a store folder with SQL."),
    "mirror": Entry("rmqcli.commands.mirror", "Files", "Keep a copy of a broker as a store folder."),
    "up": Entry("rmqcli.commands.up", "Servers", "Start a name server and a broker in one process."),
    "broker": Entry("rmqcli.commands.broker", "Servers", "Run a broker; show, change and drain brokers."),
    "namesrv": Entry(
        "rmqcli.commands.namesrv", "Servers", "Run a name server; show and change name servers."
    ),
    "proxy": Entry("rmqcli.commands.proxy", "Servers", "Serve gRPC clients in front of a cluster."),
    "acl": Entry(
        "rmqcli.commands.acl", "Administration", "Show and change access control: accounts, users, policies."
    ),
    "controller": Entry(
        "rmqcli.commands.controller", "Administration", "Show and change controllers of 5.x; elect masters."
    ),
    "profile": Entry("rmqcli.commands.profile", "Administration", "Manage named clusters."),
    "cheat": Entry("rmqcli.commands.cheat", "Help", "Show examples of commands by subject."),
    "help": Entry(
        "rmqcli.commands.help", "Help", "Explain a command, formats, ranges, exit codes, environment."
    ),
}

_SECTIONS = ("Messages", "Administration", "Files", "Servers", "Help")


def sections(commands: Iterable[str]) -> dict[str, list[str]]:
    """Return the commands by section, in the given order."""
    found: dict[str, list[str]] = {title: [] for title in _SECTIONS}
    for command in commands:
        found[COMMANDS[command].section].append(command)
    return {title: names for title, names in found.items() if names}


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(SectionedGroup):
    """The root group. `commands` holds placeholders with their help, replaced when used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else _load(cmd_name, entry)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        entry = COMMANDS.get(args[0])
        if entry is None:
            return super().resolve_command(ctx, args)  # raises the usage error
        return args[0], _load(args[0], entry, args[1:]), args[1:]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, COMMANDS))
        for title, names in sections(COMMANDS).items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name].help) for name in names])


def _load(name: str, entry: Entry, words: Sequence[str] | None = None) -> Any:
    """Import a command; of a group, build only what `words` mention (each takes 1 ms)."""
    module = importlib.import_module(entry.module)
    parts = import_parts(module, words[0] if words else None)
    application = getattr(module, entry.attribute)
    if parts:  # they may have been imported before, in another order
        for app in (application, *(group.typer_instance for group in application.registered_groups)):
            app.registered_commands.sort(
                key=lambda one: parts.index(one.callback.__module__.rpartition(".")[2])
            )
    command = get_command(application if words is None else _narrowed(application, words))
    command.name = name
    return command


def _narrowed(application: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Return the application with only the commands and groups that `words` mention, if they mention one."""
    names = {*words, BARE} if _may_be_bare(application, words) else set(words)
    commands = [command for command in application.registered_commands if command.name in names]
    groups = [group for group in application.registered_groups if _name_of(group) in names]
    if not (commands or groups) or application.registered_callback is None:
        return application
    application = copy.copy(application)
    application.registered_commands = commands
    application.registered_groups = [_narrowed_group(group, words) for group in groups]
    return application


def _name_of(group: Any) -> Any:
    return group.typer_instance.info.name


def _narrowed_group(group: Any, words: Sequence[str]) -> Any:
    group = copy.copy(group)
    group.typer_instance = _narrowed(group.typer_instance, words)
    return group


def _may_be_bare(application: typer.Typer, words: Sequence[str]) -> bool:
    """Return True if the words may belong to the command `run` of a group, with its name omitted."""
    kind = application.info.cls
    takes_options = isinstance(kind, type) and issubclass(kind, BareGroup)
    return takes_options and all(word.startswith("-") for word in words[:1]) and not asks_for_help(words)


def _version(value: bool) -> None:
    if value:
        print(version_text())
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version and exit.")
]

EPILOG = """\b
Examples:
  rmq up                                  start a broker to experiment with
  rmq send orders hello -k 42 -t paid     send one message
  rmq pull orders -o -10                  read the last ten messages
  rmq tail orders --json | jq .body       follow the topic
"""


def command_tree() -> Any:
    """Return the root command (a `Group` of Click or of typer)."""
    root = typer.Typer(name="rmq", cls=LazyGroup, add_completion=False, rich_markup_mode=None)

    @root.callback(context_settings=_CONTEXT, epilog=EPILOG, no_args_is_help=True)
    @global_options
    def rmq(version: _Version = False) -> None:
        """Command-line toolkit for Apache RocketMQ: send, read, administer, inspect and export messages, or
        run a broker.
        """

    tree: Any = get_command(root)
    tree.commands.update({name: TyperCommand(name, help=entry.help) for name, entry in COMMANDS.items()})
    return tree


def run(arguments: Sequence[str]) -> ExitCode:
    """Run one command line, map its outcome to an exit code, and never raise."""
    shared: dict[str, Any] = {}
    try:
        with command_tree().make_context("rmq", list(arguments)) as context:
            shared = context.meta
            context.command.invoke(context)
        sys.stdout.flush()
    except BaseException as error:
        return report(error, _settings(arguments, shared.get(GIVEN, Given())))
    return ExitCode.DONE


def _settings(arguments: Sequence[str], given: Given) -> Settings:
    """Return the settings for the report of an error, which may have occurred before the options were parsed."""
    words = set(takewhile(lambda word: word != "--", arguments))
    verbose = not words.isdisjoint(("-v", "-vv", "--verbose"))
    return Settings(given._replace(json="--json" in words, verbose=verbose))
