"""Conversions of values to text, for terminals and for TSV."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from rmqcli import words
from rmqcli.render.unseen import one_line, printable

__all__ = ["one_line", "printable"]

many = words.many
_TSV_ESCAPES = str.maketrans(
    {chr(code): f"\\x{code:02x}" for code in (*range(0x20), 0x7F)}
    | {chr(code): f"\\u{code:04x}" for code in range(0x80, 0xA0)}
    | {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
)
"""Control characters, too: a pager or terminal may read what a pipe writes. C1 differs from raw bytes."""
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
    """Return how long ago an epoch time was, as `45s`, `12m`, `5h` or `3d`; empty where `local_time` is.

    A time that is still to come begins with a plus sign.
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
