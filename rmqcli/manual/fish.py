"""The completion for fish: static, so that pressing Tab starts no Python."""

from __future__ import annotations

from collections.abc import Sequence

from rmqcli.manual.tree import Node, Option

__all__ = ["fish_completion"]

_HEAD = """\
# fish completion for rmq. Made by python -m rmqcli.manual; do not edit.

function __rmq_name --description 'The command on the command line, without its options and their values'
    set --local name
    set --local skip no
    for word in (commandline --tokenize --cut-at-cursor --current-process)[2..]
        if test $skip = yes
            set skip no
        else if contains -- $word $__rmq_values
            set skip yes
        else if contains -- "$name $word" $__rmq_commands
            set name "$name $word"
        end
    end
    echo $name
end

function __rmq_at --description 'Whether this is the command'
    test (__rmq_name) = "$argv[1]"
end

complete --command rmq --no-files
"""


def fish_completion(nodes: Sequence[Node]) -> str:
    """The script."""
    values = sorted(
        {name for node in nodes for option in node.options if option.takes_value for name in option.names}
    )
    names = [_quoted(f" {' '.join(node.path)}") for node in nodes if node.path]
    head = f"{_HEAD}set --global __rmq_values {' '.join(values)}\nset --global __rmq_commands {' '.join(names)}\n"
    return head + "".join(_lines(node) for node in nodes)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _lines(node: Node) -> str:
    name = f" {' '.join(node.path)}" if node.path else ""
    here = f"complete --command rmq --condition {_quoted(f'__rmq_at {_quoted(name)}')}"
    lines = [f"{here} --arguments {child} --description {_quoted(text)}" for child, text in node.commands]
    lines += [f"{here} {_option(option)}" for option in node.options]
    lines += [f"{here} --force-files"] if node.takes_paths else []
    return "".join(f"{line}\n" for line in lines)


def _option(option: Option) -> str:
    words = [
        f"--long-option {name[2:]}" if name.startswith("--") else f"--short-option {name[1:]}"
        for name in option.names
    ]
    if option.takes_value:
        words += ["--require-parameter --force-files" if option.is_path else "--exclusive"]
    return f"{' '.join(words)} --description {_quoted(option.text)}"
