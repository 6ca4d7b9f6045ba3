"""The statements of a text that is typed line by line."""

from __future__ import annotations

import re

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
"""Texts, names and comments, in which a semicolon ends nothing; one that is not closed goes on to the end."""


def split(text: str) -> tuple[list[str], str]:
    """Return the statements that a semicolon ends, without it, and the begun one, "" if there is none."""
    found: list[str] = []
    begin = 0
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            found.append(text[begin : piece.start()].strip())
            begin = piece.end()
    return [one for one in found if one], text[begin:].lstrip()
