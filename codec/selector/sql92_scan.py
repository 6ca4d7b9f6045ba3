"""The words of an SQL92 filter, one at a time, so that text after a complete expression is never read.

The longest match is taken, as in Java. A line comment needs its line end; without one, `--` is two minus
signs. Positions count characters from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import NamedTuple

from rmqcli.codec.errors import SelectorError

END = "$END"
KEYWORDS_4 = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "IS", "NULL"})
KEYWORDS_5 = KEYWORDS_4 | {"CONTAINS", "STARTSWITH", "ENDSWITH"}
KEPT = frozenset({"TRUE", "FALSE", "NULL"})
OPERATORS = {
    "=": "_EQUAL",
    "<>": "_UNEQUAL",
    "<": "_LESS",
    "<=": "_LESS_EQUAL",
    ">": "_GREATER",
    ">=": "_GREATER_EQUAL",
    "(": "_LEFT",
    ")": "_RIGHT",
    ",": "_COMMA",
    "+": "_PLUS",
    "-": "_MINUS",
}
_DISPLAY = {kind: f"'{text}'" for text, kind in OPERATORS.items()} | {
    "NAME": "a property name",
    "STRING": "a string",
    "DECIMAL": "a number",
    "FLOAT": "a number",
    END: "the end",
}
_UNCLOSED = {"'": "a string that is not closed", "/*": "a comment that is not closed"}
_BLANK = r"(?P<BLANK>[ \t\n\r\f]++|/\*(?s:.*?)\*/)"
_LINE_COMMENT = r"(?P<COMMENT>--[^\n\r]*+(?:\r\n?|\n))"
_TOKEN = "|".join(
    (
        r"(?P<FLOAT>[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?|\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++)",
        r"(?P<DECIMAL>0|[1-9][0-9]*+[lL]?)",
        r"(?P<STRING>'[^']*+(?:''[^']*+)*')",
        r"(?P<NAME>[A-Za-z_$][A-Za-z0-9_$]*+)",
        r"(?P<OPERATOR><>|>=|<=|[=<>(),+-])",
    )
)


_match = re.compile(f"{_BLANK}|{_TOKEN}").match


# Used only before the last line end: after it, each `--` would search the remaining text without success.
_match_before_line_end = re.compile(f"{_BLANK}|{_LINE_COMMENT}|{_TOKEN}").match


class Word(NamedTuple):
    """A word; `kind` is its name in the grammar, `text` its original text."""

    kind: str
    text: str
    position: int


def scan(text: str, keywords: Set[str]) -> Iterator[Word]:
    """Yield the words, then END forever. Raises SelectorError at a character that begins no word."""
    last_line_end = max(text.rfind("\n"), text.rfind("\r"))
    at = 0
    while at < len(text):
        match = (_match_before_line_end if at < last_line_end else _match)(text, at)
        if match is None:
            raise SelectorError(f"at character {at + 1}: {_unreadable(text, at)}")
        group = match.lastgroup
        if group not in ("BLANK", "COMMENT"):
            word = match.group()
            yield Word(_kind(str(group), word, keywords), word, at + 1)
        at = match.end()
    while True:
        yield Word(END, "", at + 1)


def _kind(group: str, word: str, keywords: Set[str]) -> str:
    if group == "OPERATOR":
        return OPERATORS[word]
    if group == "NAME":
        upper = word.upper()
        if upper in keywords:
            return upper if upper in KEPT else f"_{upper}"
    return group


def _unreadable(text: str, at: int) -> str:
    for start, what in _UNCLOSED.items():
        if text.startswith(start, at):
            return what
    return f"{text[at]!r} does not begin a word"


def display(kind: str) -> str:
    """Return the name of a kind of word in error messages."""
    return _DISPLAY.get(kind) or kind.lstrip("_")
