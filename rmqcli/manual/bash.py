"""The completion for bash: static, so that pressing Tab starts no Python."""

from __future__ import annotations

from collections.abc import Sequence

from rmqcli.manual.tree import Node

__all__ = ["bash_completion"]

_HEAD = """\
# bash completion for rmq. Made by python -m rmqcli.manual; do not edit.

# Sets commands, options, values (options that take one), files (those whose value is a path) and paths (yes: an argument
# is a path) for the command "$1".
_rmq_describe() {
    commands="" options="" values="" files="" paths=""
    case "$1" in
"""
_TAIL = """\
    esac
}

_rmq() {
    local current=${COMP_WORDS[COMP_CWORD]} previous="" name="" word i
    local commands options values files paths
    COMPREPLY=()
    _rmq_describe ""
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ " $values " == *" $previous "* ]]; then
            previous=""
            continue
        fi
        previous=$word
        if [[ " $commands " == *" $word "* ]]; then
            name="${name:+$name }$word"
            _rmq_describe "$name"
        fi
    done
    if [[ -n $previous && " $files " == *" $previous "* ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
    elif [[ -n $previous && " $values " == *" $previous "* ]]; then
        return
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ -n $commands ]]; then
        COMPREPLY=($(compgen -W "$commands" -- "$current"))
    elif [[ -n $paths ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}

complete -o filenames -F _rmq rmq
"""


def bash_completion(nodes: Sequence[Node]) -> str:
    """The script."""
    return _HEAD + "".join(_case(node) for node in nodes) + _TAIL


def _case(node: Node) -> str:
    words = {
        "commands": [name for name, _ in node.commands],
        "options": [name for option in node.options for name in option.names],
        "values": [name for option in node.options if option.takes_value for name in option.names],
        "files": [name for option in node.options if option.is_path for name in option.names],
        "paths": ["yes"] if node.takes_paths else [],
    }
    lines = [f'            {name}="{" ".join(found)}"\n' for name, found in words.items() if found]
    return f'        "{" ".join(node.path)}")\n{"".join(lines)}            ;;\n'
