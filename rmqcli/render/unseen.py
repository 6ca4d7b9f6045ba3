r"""The one way in which texts of others reach a terminal or a log: what cannot be seen is written as an escape.

Such are control characters, which a terminal obeys; format characters (Unicode category Cf), which turn or
hide what is around them; separators of lines and paragraphs; halves of characters; and characters without
width or ink that are no format characters. Variation selectors stay, as emoji need them.
"""

from __future__ import annotations

import re
from typing import Final

CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All but tab and newline."""
UNSEEN: Final = (
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ANY: Final = re.compile(f"[{CONTROLS}{UNSEEN}]")
_LATE: Final = re.compile(f"[\x7f-\x9f{UNSEEN}]")
_IN_A_LINE: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def number(character: str) -> str:
    r"""Return `\x1b`, `\u202e` or `\U000e0001`; a byte that was not text is `\xff`."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code &= 0xFF
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def printable(text: str) -> str:
    """Return the text with what cannot be seen as escapes; tabs and newlines stay."""
    if text.isprintable() and text.isascii():
        return text
    return _ANY.sub(lambda match: number(match[0]), text)


def one_line(text: str) -> str:
    r"""Return the same with `\n` and `\t`, so that the text cannot begin a line, or a field, of its own."""
    if text.isprintable() and text.isascii():
        return text
    for character, escape in _IN_A_LINE.items():
        text = text.replace(character, escape)
    return printable(text)


def safe_json(document: str) -> str:
    """Return the same JSON with DEL and what cannot be seen as escapes; JSON has escaped other controls."""
    return document if document.isascii() and "\x7f" not in document else _LATE.sub(_in_json, document)


def _in_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
