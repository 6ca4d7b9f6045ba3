"""The prompt: reads statements, over several lines until a semicolon, and keeps a history."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from rmqcli.render.output import note
from rmqcli.state import state_folder

_PIECES = re.compile(
    r"""'(?:[^']|'')*(?:'|\Z)"""
    r"""|"(?:[^"]|"")*(?:"|\Z)"""
    r"""|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)"""
    r"""|--[^\n]*"""
    r"""|/\*.*?(?:\*/|\Z)"""
    r"""|(?P<end>;)"""
    r"""|.""",
    re.DOTALL,
)
"""Strings, names and comments, in which a semicolon ends nothing.

One that is not closed extends to the end.
"""


def split(text: str) -> tuple[list[str], str]:
    """Return the statements ended by a semicolon, without it, and the unfinished one, or ""."""
    found: list[str] = []
    begin = 0
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            found.append(text[begin : piece.start()].strip())
            begin = piece.end()
    return [one for one in found if one], text[begin:].lstrip()


FIRST, FOLLOWING = "rmq> ", "...> "
HISTORY_LINES = 1000
HELP = """\
SQL ends with a semicolon: select count(*) from orders;
show tables;         the topics                describe orders;   the columns of a topic
.tables  .help  .quit
Ctrl-C cancels a statement, Ctrl-D ends."""
_ENDS = frozenset((".quit", ".exit", "quit", "exit"))


def history_path() -> Path:
    """Return the file in the user's state folder, or in the folder named by RMQ_STATE_DIR."""
    return state_folder() / "sql_history"


def converse(execute: Callable[[str], None]) -> None:
    """Pass statements to `execute` until the input ends.

    KeyboardInterrupt, even from `execute`, ends a statement.

    The terminal must be standard input and output.
    """
    history = _History(history_path())
    history.read()
    note("show tables; lists the topics, .help helps, Ctrl-D ends")
    try:
        _read(execute)
    finally:
        history.write()


def _read(execute: Callable[[str], None]) -> None:
    begun = ""
    while True:
        try:
            line = input(FOLLOWING if begun else FIRST)
            if not begun and line.strip() in _ENDS:
                return
            begun = _take(begun, line, execute)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            begun = ""
            note("cancelled")


def _take(begun: str, line: str, execute: Callable[[str], None]) -> str:
    """Execute the statements that this line completes. Return the unfinished one."""
    if not begun and line.strip() == ".help":
        note(HELP)
        return ""
    if not begun and line.strip() == ".tables":
        line = "show tables;"
    statements, rest = split(f"{begun}{line}\n")
    for statement in statements:
        execute(statement)
    return rest


class _History:
    """The history of readline in a file.

    There is none without readline, or where the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> None:
        try:
            import readline

            readline.set_history_length(HISTORY_LINES)
            readline.read_history_file(self._path)
        except (ImportError, OSError):
            return

    def write(self) -> None:
        try:
            import readline

            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            readline.write_history_file(self._path)
        except (ImportError, OSError):
            return
