"""Man pages in roff (man macros): rmq.1, and one for each command and group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import typer

from rmqcli import __version__
from rmqcli.cli.app import COMMANDS, command_tree, sections
from rmqcli.cli.exit_codes import EXIT_TEXTS
from rmqcli.cli.help import is_global, panel_title, panels_of, row_of
from rmqcli.cli.help_topics import ENVIRONMENT
from rmqcli.grammar import offset_range
from rmqcli.manual.values import Values, argument_values, option_values
from rmqcli.render import message_format

# Options and arguments for which shells complete files.
_PATH_METAVARS = frozenset({"PATH", "FILE", "DIR"})


class Option(NamedTuple):
    """`names` as typed, `usage` as in help (`-k, --key KEY`), `text` with its default; `panel` is the title
    of its panel, "" for a common option; `values` are the values that shells offer.
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


_GLOBAL = "Every command has the global options, which \\fBrmq\\fR(1) describes."
_OUTPUT = (
    "On a terminal, results are tables. In a pipe, they are lines of tab-separated fields without a header, "
    "one per item; tabs, line ends and backslashes in a value are written \\t, \\n, \\r and \\\\. "
    "With --json, they are one JSON document, or one line per message."
)


def man_pages(nodes: Iterable[Node]) -> dict[str, str]:
    """Return file name and text of every page."""
    known = list(nodes)
    return {f"{_page(node)}.1": _render(node, known) for node in known}


def _page(node: Node) -> str:
    return "-".join(("rmq", *node.path))


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.M)


def _paragraphs(text: str) -> list[str]:
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]
    return [line for part in parts for line in (".PP", _roff(part))]


def _verbatim(lines: Iterable[str]) -> list[str]:
    return [".PP", ".nf", ".RS 4", *(_roff(line) or "." for line in lines), ".RE", ".fi"]


def _items(items: Iterable[tuple[str, str]]) -> list[str]:
    return [line for term, text in items for line in (".TP", f"\\fB{_roff(term)}\\fR", _roff(text) or "\\&")]


def _options(options: Iterable[Option]) -> list[str]:
    """Return the options by panel, first the common ones, which have none."""
    panels: dict[str, list[Option]] = {"": []}
    for option in options:
        panels.setdefault(option.panel, []).append(option)
    lines = [".SH OPTIONS"]
    for title, members in panels.items():
        lines += [f'.SS "{_roff(title)}"'] if title else []
        lines += _option_items(members)
    return lines


def _option_items(options: Iterable[Option]) -> list[str]:
    return _items((option.usage, option.text) for option in options)


def _render(node: Node, nodes: list[Node]) -> str:
    lines = [
        '.\\" Generated by python -m rmqcli.manual; do not edit.',
        f'.TH "{_page(node).upper()}" "1" "" "rmq {__version__}" "rmq manual"',
        ".SH NAME",
        f"{_roff(_page(node))} \\- {_roff(node.summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_roff(node.name)}\\fR {_roff(node.usage)}",
        ".SH DESCRIPTION",
        *_paragraphs(node.description),
    ]
    lines += _commands(node)
    if node.arguments:
        lines += [".SH ARGUMENTS", *_items(node.arguments)]
    lines += _options([option for option in node.options if not option.is_global])
    if node.path:
        lines += [".PP", _GLOBAL]
    else:
        globals_ = [option for option in node.options if option.is_global]
        lines += ['.SH "GLOBAL OPTIONS"', *_option_items(globals_)]
    lines += _grammars(node)
    if node.examples:
        lines += [".SH EXAMPLES", *_verbatim(node.examples)]
    if not node.path:
        lines += [".SH OUTPUT", *_paragraphs(_OUTPUT), ".SH ENVIRONMENT", *_items(ENVIRONMENT.items())]
    lines += ['.SH "EXIT STATUS"', *_items((str(code.value), text) for code, text in EXIT_TEXTS.items())]
    lines += ['.SH "SEE ALSO"', _see_also(node, nodes)]
    return "\n".join(lines) + "\n"


def _commands(node: Node) -> list[str]:
    """Return the commands of a group; those of rmq itself by section."""
    texts = dict(node.commands)
    groups = {"": list(texts)} if node.path or not texts else sections(texts)
    lines = [".SH COMMANDS"] if texts else []
    for title, names in groups.items():
        lines += [f'.SS "{title}"'] if title else []
        lines += _items((f"{node.name} {name}", texts[name]) for name in names)
    return lines


def _grammars(node: Node) -> list[str]:
    metavars = {option.usage.rpartition(" ")[2] for option in node.options}
    lines: list[str] = []
    if "RANGE" in metavars:
        lines += [".SH RANGES", *_document(offset_range.__doc__)]
    if "FORMAT" in metavars:
        lines += [".SH FORMATS", *_document(message_format.__doc__)]
    return lines


def _document(text: str | None) -> list[str]:
    """Return the paragraphs of a module's docstring; indented blocks are kept as they are."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", (text or "").strip()):
        rows = block.splitlines()
        lines += _verbatim(row.strip() for row in rows) if rows[0].startswith("    ") else _paragraphs(block)
    return lines


def _see_also(node: Node, nodes: list[Node]) -> str:
    parent = node.path[:-1] if node.path else None
    related = [other for other in nodes if other is not node and _related(node, other, parent)]
    return ",\n".join(f"\\fB{_roff(_page(other))}\\fR(1)" for other in related)


def _related(node: Node, other: Node, parent: tuple[str, ...] | None) -> bool:
    if other.path == parent or (other.path and other.path[:-1] == node.path):
        return True
    return len(node.path) > 1 and other.path[:-1] == parent
