"""Conversions of values to text, for terminals and for TSV."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from rmqcli import counts

# The only way in which text from others reaches a terminal or a log: invisible characters are written as
# escapes.
#
# These are control characters, which a terminal obeys; format characters (Unicode category Cf), which reorder
# or hide the text around them; separators of lines and paragraphs; surrogates; and characters without width
# or visible glyph that are not format characters. Variation selectors are kept, because emoji need them.

CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""The control characters except tab and newline."""
UNSEEN: Final = (
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Patterns as texts, which re compiles when one is first used: most commands use none of them.
_ANY: Final = f"[{CONTROLS}{UNSEEN}]"
_LATE: Final = f"[\x7f-\x9f{UNSEEN}]"
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
    """Return the text with invisible characters as escapes; tabs and newlines are kept."""
    if text.isprintable() and text.isascii():
        return text
    return re.sub(_ANY, lambda match: number(match[0]), text)


def one_line(text: str) -> str:
    r"""Return the same, with `\n` and `\t` also escaped, so that the text cannot begin a new line or field."""
    if text.isprintable() and text.isascii():
        return text
    for character, escape in _IN_A_LINE.items():
        text = text.replace(character, escape)
    return printable(text)


def safe_json(document: str) -> str:
    """Return the same JSON with DEL and invisible characters as escapes; JSON has already escaped other
    controls.
    """
    return document if document.isascii() and "\x7f" not in document else re.sub(_LATE, _in_json, document)


def _in_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


__all__ = ["one_line", "printable"]

many = counts.many
_TSV_ESCAPES = str.maketrans(
    {chr(code): f"\\x{code:02x}" for code in (*range(0x20), 0x7F)}
    | {chr(code): f"\\u{code:04x}" for code in range(0x80, 0xA0)}
    | {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
)
"""Escapes also cover control characters, because a pager or terminal may read the output of a pipe. Those of
C1 differ from those of raw bytes.
"""
_THOUSANDS = ("", "k", "M", "G", "T")
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

_AGES = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))  # seconds


def tsv_cell(value: object) -> str:
    """Return one field: empty for None, true or false, lists joined with commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(tsv_cell(item) for item in value)
    text = str(value).translate(_TSV_ESCAPES)
    return text if text.isascii() else printable(text)


def tsv_line(values: Iterable[object]) -> str:
    """Return one line without its end."""
    return "\t".join(map(tsv_cell, values))


def local_time(milliseconds: int | None) -> str:
    """Return `2024-05-01 10:00:00.123` in local time; empty for None, 0 and negative values."""
    if milliseconds is None or milliseconds <= 0:
        return ""
    try:
        moment = datetime.fromtimestamp(milliseconds // 1000)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}"


def local_seconds(milliseconds: int | None) -> str:
    """Return local time without milliseconds."""
    return local_time(milliseconds).partition(".")[0]


def age(milliseconds: int | None, now_ms: int | None = None) -> str:
    """Return the age of an epoch time as `45s`, `12m`, `5h` or `3d`; empty where `local_time` is.

    A time in the future begins with a plus sign.
    """
    if milliseconds is None or milliseconds <= 0:
        return ""
    behind = (time.time_ns() // 1_000_000 if now_ms is None else now_ms) - milliseconds
    seconds = abs(behind) // 1000
    unit, length = next((unit, length) for unit, length in _AGES if seconds >= length or length == 1)
    return f"{'+' if behind <= -1000 else ''}{seconds // length}{unit}"


def listed(words: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def size(count: int) -> str:
    """Return a size such as `1.5 MiB`."""
    value = float(count)
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def short_number(value: float | None) -> str:
    """Return `0.4`, `999`, `21.2k` or `4.3M` in at most five characters; empty for None."""
    if value is None:
        return ""
    for unit in _THOUSANDS:
        if value < 999.5 or unit == _THOUSANDS[-1]:
            break
        value /= 1000
    text = f"{value:.1f}" if value < 99.95 and (unit or value % 1) else f"{value:.0f}"
    return text + unit


def duration(seconds: float) -> str:
    """Return `1.2 s`, `3 min 20 s` or `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def number_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as `1, 3-5`."""
    ordered = sorted(set(numbers))
    runs = [[n for _, n in run] for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


_LEAD = 0xC0  # from here on, a byte begins a character of several bytes
_LENGTHS = ((0xF0, 4), (0xE0, 3), (0xC0, 2))


class Bodies(NamedTuple):
    """The form of bodies. `limit`: maximum bytes. `screen`: maximum columns and rows on a terminal.

    `raw`: bodies unchanged and, without a format, nothing else. `meta_only`: no bodies.
    """

    raw: bool = False
    meta_only: bool = False
    limit: int | None = None
    screen: tuple[int, int] | None = None

    def cut(self, body: bytes) -> bytes:
        """Return the part to show; text is not cut inside a character."""
        if self.limit is None or len(body) <= self.limit:
            return body
        return _whole_characters(body[: self.limit])


WHOLE = Bodies()


def _whole_characters(part: bytes) -> bytes:
    # A character has at most four bytes, so the first byte of a cut one is among the last three.
    for place, byte in enumerate(reversed(part[-3:]), 1):
        if byte >= _LEAD:
            length = next(length for lead, length in _LENGTHS if byte >= lead)
            return part[:-place] if length > place else part
        if byte < 0x80:
            break
    return part


def screenful(text: str, columns: int, rows: int) -> str:
    """Return the beginning of a text, which takes at most `rows` rows of a terminal."""
    shown: list[str] = []
    # A screen shows no more characters and line ends than this; the rest of a long body is not split.
    for line in text[: columns * rows + rows].split("\n"):
        taken = max(1, -(-len(line) // columns))
        if taken >= rows:
            shown.append(line[: rows * columns])
            break
        shown.append(line)
        rows -= taken
    return "\n".join(shown)
