r"""Backslash escapes: \n \t \r \0 \\ and \xNN for any byte."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from rmqcli.grammar.errors import GrammarError

ESCAPES: Mapping[str, bytes] = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
KNOWN = r"use \n \t \r \0 \\ or \xNN"
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.S)


def unescape(option: str, text: str) -> bytes:
    """Return the bytes of the value of an option; raise GrammarError for an unknown escape."""

    def replace(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 16)])
        name = match[2].decode("latin-1")
        if name not in ESCAPES:
            raise GrammarError(rf"{option} {text!r}: unknown escape \{name}; {KNOWN}")
        return ESCAPES[name]

    return _ESCAPE.sub(replace, os.fsencode(text))
