"""The completion for zsh: static, so that pressing Tab starts no Python."""

from __future__ import annotations

from collections.abc import Sequence

from rmqcli.manual.tree import Node, Option

__all__ = ["zsh_completion"]

_HEAD = """\
#compdef rmq
# zsh completion for rmq. Made by python -m rmqcli.manual; do not edit.

_rmq_describe() {
    commands=() options=() values=() files=() paths=""
    case "$1" in
"""
_TAIL = """\
    esac
}

_rmq() {
    local -a commands options values files
    local paths name="" previous="" word
    _rmq_describe ""
    for word in "${(@)words[2,CURRENT-1]}"; do
        if (( ${values[(Ie)$previous]} )); then
            previous=""
            continue
        fi
        previous=$word
        if (( ${${(@)commands%%:*}[(Ie)$word]} )); then
            name="${name:+$name }$word"
            _rmq_describe "$name"
        fi
    done
    if [[ -n $previous ]] && (( ${files[(Ie)$previous]} )); then
        _files
    elif [[ -n $previous ]] && (( ${values[(Ie)$previous]} )); then
        _message value
    elif [[ $PREFIX == -* ]]; then
        _describe -o option options
    elif (( $#commands )); then
        _describe command commands
    elif [[ -n $paths ]]; then
        _files
    fi
}

if [[ $funcstack[1] == _rmq ]]; then
    _rmq "$@"
else
    compdef _rmq rmq
fi
"""


def zsh_completion(nodes: Sequence[Node]) -> str:
    """The script."""
    return _HEAD + "".join(_case(node) for node in nodes) + _TAIL


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _described(name: str, text: str) -> str:
    """`_describe` takes a backslash for an escape, also behind the colon."""
    return _quoted(f"{name}:{text}".replace("\\", "\\\\").replace("\n", " "))


def _array(name: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    rows = "".join(f"                {item}\n" for item in items)
    return f"            {name}=(\n{rows}            )\n"


def _names(options: Sequence[Option]) -> list[str]:
    return [name for option in options for name in option.names]


def _case(node: Node) -> str:
    body = _array("commands", [_described(name, text) for name, text in node.commands])
    body += _array(
        "options", [_described(name, option.text) for option in node.options for name in option.names]
    )
    for array, chosen in (
        ("values", [option for option in node.options if option.takes_value]),
        ("files", [option for option in node.options if option.is_path]),
    ):
        body += f"            {array}=({' '.join(_names(chosen))})\n" if chosen else ""
    body += "            paths=yes\n" if node.takes_paths else ""
    return f'        "{" ".join(node.path)}")\n{body}            ;;\n'
