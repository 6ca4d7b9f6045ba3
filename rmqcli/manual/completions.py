"""Completions for bash, zsh and fish. They are static, so that pressing Tab starts Python only for names of a
cluster.

Only the part of a file that lists the commands is generated; the rest is maintained by hand in the same file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rmqcli.manual.pages import Node, Option
from rmqcli.manual.values import Values


def _names(options: Iterable[Option]) -> list[str]:
    return [name for option in options for name in option.names]


def _offered(option: Option) -> Option:
    """Return the parts of an option that shells need, so that equal options of several commands compare
    equal.
    """
    return option._replace(panel="", usage="")


def _shared(nodes: Sequence[Node]) -> list[Option]:
    """Return the options that every command has, which are written only once."""
    every = set.intersection(*({_offered(option) for option in node.options} for node in nodes))
    return [option for option in map(_offered, nodes[0].options) if option in every]


def _own(node: Node, shared: Sequence[Option]) -> Node:
    """Return a command without the shared options."""
    return node._replace(options=tuple(one for one in node.options if _offered(one) not in shared))


def _valued(options: Iterable[Option]) -> list[str]:
    return _names(option for option in options if option.takes_value)


def _files(options: Iterable[Option]) -> list[str]:
    return _names(option for option in options if option.is_path)


def _specs(options: Iterable[Option]) -> list[str]:
    return [
        f"{name}:{option.values.spec}"
        for option in options
        for name in option.names
        if option.values != Values()
    ]


def _arguments(node: Node) -> list[str]:
    """Return a specification for each argument; empty if all are free text."""
    found = [f"{one.spec}..." if one.repeats else one.spec for one in node.values]
    return found if any(one.spec != "-" for one in node.values) else []


def _cases(nodes: Sequence[Node], head: str, body: Callable[[Node], str]) -> str:
    cases = "".join(f'        "{" ".join(node.path)}")\n{body(node)}            ;;\n' for node in nodes)
    return f'{head}    case "$1" in\n{cases}'


def _of_options(options: Sequence[Option]) -> dict[str, list[str]]:
    return {
        "options": _names(options),
        "values": _valued(options),
        "files": _files(options),
        "specs": _specs(options),
    }


def _bash(nodes: Sequence[Node]) -> str:
    shared = _shared(nodes)
    head = '    commands="" arguments="" paths=""\n'
    head += "".join(f'    {name}="{" ".join(found)}"\n' for name, found in _of_options(shared).items())
    return _cases(nodes, head, lambda node: _bash_case(_own(node, shared)))


def _bash_case(node: Node) -> str:
    own = "".join(
        f'            {name}+=" {" ".join(found)}"\n'
        for name, found in _of_options(node.options).items()
        if found
    )
    words = {
        "commands": [name for name, _ in node.commands],
        "arguments": _arguments(node),
        "paths": ["yes"] if node.takes_paths else [],
    }
    return own + "".join(
        f'            {name}="{" ".join(found)}"\n' for name, found in words.items() if found
    )


def _zsh(nodes: Sequence[Node]) -> str:
    shared = _shared(nodes)
    head = '    commands=() arguments=() paths=""\n' + _zsh_options(shared, " " * 4, "=")
    return _cases(nodes, head, lambda node: _zsh_case(_own(node, shared)))


def _zsh_options(options: Sequence[Option], margin: str, sign: str) -> str:
    found = _of_options(options)
    texts = {name: option.text for option in options for name in option.names}
    rows = "".join(f"{margin}    {_described(name, texts[name])}\n" for name in found["options"])
    body = f"{margin}options{sign}(\n{rows}{margin})\n" if rows else ""
    for array in ("values", "files"):
        body += f"{margin}{array}{sign}({' '.join(found[array])})\n" if found[array] else ""
    specs = " ".join(
        f"'{word}'" for word in found["specs"]
    )  # unquoted, zsh would expand =word to the path of a command
    return body + (f"{margin}specs{sign}({specs})\n" if specs else "")


def _zsh_case(node: Node) -> str:
    margin = " " * 12
    rows = "".join(f"{margin}    {_described(name, text)}\n" for name, text in node.commands)
    body = f"{margin}commands=(\n{rows}{margin})\n" if rows else ""
    body += _zsh_options(node.options, margin, "+=")
    arguments = " ".join(f"'{word}'" for word in _arguments(node))
    body += f"{margin}arguments=({arguments})\n" if arguments else ""
    return body + (f"{margin}paths=yes\n" if node.takes_paths else "")


def _described(name: str, text: str) -> str:
    """Return the item for `_describe`, in which a backslash escapes, even after the colon."""
    item = f"{name}:{text}".replace("\\", "\\\\").replace("\n", " ")
    return "'" + item.replace("'", "'\\''") + "'"


def _fish(nodes: Sequence[Node]) -> str:
    values = sorted({name for node in nodes for name in _valued(node.options)})
    names = [_quoted(f" {' '.join(node.path)}") for node in nodes if node.path]
    shared = _shared(nodes)
    lines = [
        f"set --global __rmq_values {' '.join(values)}",
        f"set --global __rmq_commands {' '.join(names)}",
    ]
    lines += [f"complete --command rmq {_fish_option(option)}" for option in shared]
    lines += [line for node in nodes for line in _fish_lines(_own(node, shared))]
    return "".join(f"{line}\n" for line in lines)


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


_CASES = re.compile(r"(?<=\n_rmq_describe\(\) \{\n).*?(?=    esac\n)", re.S)
_END = re.compile(r"(?<=\ncomplete --command rmq --no-files\n).*", re.S)

_GENERATED: Mapping[str, tuple[re.Pattern[str], Callable[[Sequence[Node]], str]]] = {
    "rmq.bash": (_CASES, _bash),
    "_rmq": (_CASES, _zsh),
    "rmq.fish": (_END, _fish),
}


def completions(folder: Path, nodes: Sequence[Node]) -> dict[str, str]:
    """Return file name and text of every completion, given the existing ones in `folder`."""
    return {
        name: place.sub(generate(nodes).replace("\\", r"\\"), (folder / name).read_text("utf-8"), count=1)
        for name, (place, generate) in _GENERATED.items()
    }
