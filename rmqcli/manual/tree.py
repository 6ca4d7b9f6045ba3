"""The command tree as plain values. Only this module reads Click's objects."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import typer

from rmqcli.cli.app import COMMANDS, command_tree
from rmqcli.cli.help import is_global, panel_title, panels_of, row_of
from rmqcli.manual.values import Values, argument_values, option_values

# Options and arguments for which shells complete files.
_PATH_METAVARS = frozenset({"PATH", "FILE", "DIR"})


class Option(NamedTuple):
    """`names` as typed, `usage` as in help (`-k, --key KEY`), `text` with its default; `panel` is the title
    of its panel, "" for a common option; `values` is what shells offer for its value.
    """

    names: tuple[str, ...]
    usage: str
    text: str
    takes_value: bool
    is_path: bool
    is_global: bool
    panel: str
    values: Values


class Node(NamedTuple):
    """A command or a group; `path` is () for rmq itself, ("topic", "list") for a command of a group."""

    path: tuple[str, ...]
    summary: str
    description: str
    usage: str
    arguments: tuple[tuple[str, str], ...]
    options: tuple[Option, ...]
    examples: tuple[str, ...]
    commands: tuple[tuple[str, str], ...]
    takes_paths: bool
    values: tuple[Values, ...]
    """The values that shells offer for each argument."""

    @property
    def name(self) -> str:
        return " ".join(("rmq", *self.path))


def command_nodes() -> list[Node]:
    """Return all commands in the order of help, each group before its commands."""
    tree = command_tree()
    return _walk(tree, typer.Context(tree, info_name="rmq", help_option_names=["-h", "--help"]), ())


def _walk(command: Any, context: Any, path: tuple[str, ...]) -> list[Node]:
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    children = [(name, command.get_command(context, name)) for name in names]
    nodes = [_node(command, context, path, children)]
    for name, child in children:
        nodes += _walk(child, typer.Context(child, info_name=name, parent=context), (*path, name))
    return nodes


def _node(command: Any, context: Any, path: tuple[str, ...], children: list[tuple[str, Any]]) -> Node:
    parameters = command.get_params(context)
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    description = (command.help or "").replace("\b\n", "").strip()
    return Node(
        path=path,
        summary=_first_sentence(description),
        description=description,
        usage=" ".join(command.collect_usage_pieces(context)),
        arguments=tuple(_argument(parameter, context) for parameter in arguments),
        options=tuple(_option(p, context, path) for p in parameters if p.param_type_name == "option"),
        examples=_examples(command.epilog or ""),
        commands=tuple((name, _summary_of(path, name, child)) for name, child in children),
        takes_paths=any(str(parameter.metavar) in _PATH_METAVARS for parameter in arguments),
        values=tuple(
            argument_values(path, str(parameter.metavar), repeats=parameter.nargs == -1)
            for parameter in arguments
        ),
    )


def _summary_of(path: tuple[str, ...], name: str, child: Any) -> str:
    return COMMANDS[name].help if not path else _first_sentence(child.help or "")


def _first_sentence(text: str) -> str:
    sentence = re.split(r"\.(?:\s|$)", " ".join(text.split()), maxsplit=1)[0]
    return f"{sentence}." if sentence else ""


def _argument(parameter: Any, context: Any) -> tuple[str, str]:
    text = re.sub(r"\s*\[required\]$", "", parameter.help or "")
    return str(parameter.metavar or parameter.name.upper()), text


def _option(parameter: Any, context: Any, path: tuple[str, ...]) -> Option:
    usage, text = row_of(parameter, context) or ("", "")
    names = (*parameter.opts, *parameter.secondary_opts)
    takes_value = not (parameter.is_flag or getattr(parameter, "count", False))
    return Option(
        names=tuple(sorted(names, key=len)),
        usage=usage,
        text=text,
        takes_value=takes_value,
        is_path=takes_value and str(parameter.metavar) in _PATH_METAVARS,
        is_global=is_global(parameter),
        panel=panel_title(parameter) or _panel_of(context.command, max(names, key=len)),
        values=option_values(path, max(parameter.opts, key=len), str(parameter.metavar))
        if takes_value
        else Values(),
    )


def _panel_of(command: Any, name: str) -> str:
    """Return the title of the panel of an option, "" if it is a common one."""
    return next((title for title, names in panels_of(command).items() if name in names.split()), "")


def _examples(epilog: str) -> tuple[str, ...]:
    lines = [line for line in epilog.replace("\b", "").splitlines() if line.startswith("  ")]
    return tuple(line[2:] for line in lines)
