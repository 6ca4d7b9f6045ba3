"""Completions for bash, zsh and fish; static, so that pressing Tab starts Python for names of a cluster only.

Only the part of a file that lists the commands is generated; the rest is written by hand, in the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rmqcli.manual.tree import Node, Option
from rmqcli.manual.values import Values


def _names(options: Iterable[Option]) -> list[str]:
    return [name for option in options for name in option.names]


def _valued(node: Node) -> list[str]:
    return _names(option for option in node.options if option.takes_value)


def _files(node: Node) -> list[str]:
    return _names(option for option in node.options if option.is_path)


def _specs(node: Node) -> list[str]:
    return [
        f"{name}:{option.values.spec}"
        for option in node.options
        for name in option.names
        if option.values != Values()
    ]


def _arguments(node: Node) -> list[str]:
    """Return a specification for each argument; none if all are free text."""
    found = [f"{one.spec}..." if one.repeats else one.spec for one in node.values]
    return found if any(one.spec != "-" for one in node.values) else []


def _cases(nodes: Sequence[Node], body: Callable[[Node], str]) -> str:
    return "".join(f'        "{" ".join(node.path)}")\n{body(node)}            ;;\n' for node in nodes)


def _bash(node: Node) -> str:
    words = {
        "commands": [name for name, _ in node.commands],
        "options": _names(node.options),
        "values": _valued(node),
        "files": _files(node),
        "specs": _specs(node),
        "arguments": _arguments(node),
        "paths": ["yes"] if node.takes_paths else [],
    }
    return "".join(f'            {name}="{" ".join(found)}"\n' for name, found in words.items() if found)


def _zsh(node: Node) -> str:
    options = [(name, option.text) for option in node.options for name in option.names]
    body = ""
    for array, described in (("commands", node.commands), ("options", options)):
        rows = "".join(f"                {_described(name, text)}\n" for name, text in described)
        body += f"            {array}=(\n{rows}            )\n" if rows else ""
    for array, names in (("values", _valued(node)), ("files", _files(node))):
        body += f"            {array}=({' '.join(names)})\n" if names else ""
    for array, words in (("specs", _specs(node)), ("arguments", _arguments(node))):
        quoted = " ".join(f"'{word}'" for word in words)  # zsh would look for a command =word
        body += f"            {array}=({quoted})\n" if words else ""
    return body + ("            paths=yes\n" if node.takes_paths else "")


def _described(name: str, text: str) -> str:
    """Return the item for `_describe`, in which a backslash escapes, also after the colon."""
    item = f"{name}:{text}".replace("\\", "\\\\").replace("\n", " ")
    return "'" + item.replace("'", "'\\''") + "'"


def _fish(nodes: Sequence[Node]) -> str:
    values = sorted({name for node in nodes for name in _valued(node)})
    names = [_quoted(f" {' '.join(node.path)}") for node in nodes if node.path]
    head = f"set --global __rmq_values {' '.join(values)}\nset --global __rmq_commands {' '.join(names)}\n"
    return head + "".join(f"{line}\n" for node in nodes for line in _fish_lines(node))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_lines(node: Node) -> Iterable[str]:
    name = f" {' '.join(node.path)}" if node.path else ""
    here = f"complete --command rmq --condition {_quoted(f'__rmq_at {_quoted(name)}')}"
    yield from (f"{here} --arguments {child} --description {_quoted(text)}" for child, text in node.commands)
    yield from (f"{here} {_fish_option(option)}" for option in node.options)
    yield from _fish_arguments(node, name)
    if node.takes_paths:
        yield f"{here} --force-files"


def _fish_arguments(node: Node, name: str) -> Iterable[str]:
    for place, values in enumerate(node.values):
        if values.spec != "-":
            condition = f"__rmq_argument {_quoted(name)} {'-ge' if values.repeats else '-eq'} {place}"
            yield f"complete --command rmq --condition {_quoted(condition)} {_fish_offer(values)}"


def _fish_offer(values: Values) -> str:
    return (
        f"--arguments {_quoted(f'(__rmq_names {values.names})' if values.names else ' '.join(values.words))}"
    )


def _fish_option(option: Option) -> str:
    words = [
        f"--long-option {name[2:]}" if name.startswith("--") else f"--short-option {name[1:]}"
        for name in option.names
    ]
    if option.takes_value:
        words += ["--require-parameter --force-files" if option.is_path else "--exclusive"]
    if option.values != Values():
        words.append(_fish_offer(option.values))
    return f"{' '.join(words)} --description {_quoted(option.text)}"


_CASES = re.compile(r'(?<=\n    case "\$1" in\n).*?(?=    esac\n)', re.S)
_END = re.compile(r"(?<=\ncomplete --command rmq --no-files\n).*", re.S)

_GENERATED: Mapping[str, tuple[re.Pattern[str], Callable[[Sequence[Node]], str]]] = {
    "rmq.bash": (_CASES, lambda nodes: _cases(nodes, _bash)),
    "_rmq": (_CASES, lambda nodes: _cases(nodes, _zsh)),
    "rmq.fish": (_END, _fish),
}


def completions(folder: Path, nodes: Sequence[Node]) -> dict[str, str]:
    """Return file name and text of every completion, given the present ones in `folder`."""
    return {
        name: place.sub(generate(nodes).replace("\\", r"\\"), (folder / name).read_text("utf-8"), count=1)
        for name, (place, generate) in _GENERATED.items()
    }
