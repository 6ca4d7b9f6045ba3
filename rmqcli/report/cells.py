"""Values as cells: short text, with exact values as tooltips. Times are in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

from rmqcli.render.text import one_line, short_number
from rmqcli.render.text import size as size_text
from rmqcli.report.page import Cell, Heading

T = TypeVar("T")
_WRITTEN_OUT = 1_000_000
NOTHING = Cell("–", kind="none")


def name(text: str) -> Cell:
    return Cell(text, kind="name")


def code(text: str) -> Cell:
    """Return a short name, such as an address."""
    return Cell(text, kind="code")


def text(value: str) -> Cell:
    return Cell(value, kind="text")


def number(value: float | None, *, share: float | None = None) -> Cell:
    """Return `12,345`, or `1.2M` with the exact number."""
    if value is None:
        return NOTHING
    if value < _WRITTEN_OUT and value == int(value):
        return Cell(f"{int(value):,}", kind="number", share=share)
    return Cell(short_number(value), f"{value:,.10g}" if value % 1 else f"{int(value):,}", "number", share)


def size(value: int | None, *, share: float | None = None) -> Cell:
    """Return `1.5 MiB` with the exact number of bytes."""
    if value is None:
        return NOTHING
    return Cell(size_text(value), "" if value < 1024 else f"{value:,} bytes", "number", share)


def percent(ratio: float | None, kind: str = "number") -> Cell:
    return NOTHING if ratio is None else Cell(f"{ratio:.0%}", f"{ratio:.4%}", kind, min(max(ratio, 0), 1))


def rate(value: float | None) -> Cell:
    """Return messages per second."""
    if value is None:
        return NOTHING
    return Cell(short_number(round(value, 1)), f"{value:,.6g} per second", "number")


def moment(milliseconds: int | None) -> Cell:
    """Return `2026-11-23 08:16:30` with milliseconds and epoch; None and times before 1970 are empty."""
    found = utc(milliseconds)
    if found is None:
        return NOTHING
    exact = f"{found:%Y-%m-%dT%H:%M:%S}.{(milliseconds or 0) % 1000:03d}Z, {milliseconds} ms"
    return Cell(f"{found:%Y-%m-%d %H:%M:%S}", exact, "time")


def utc(milliseconds: int | None) -> datetime | None:
    if milliseconds is None or milliseconds <= 0:
        return None
    try:
        return datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def share_of(value: float, largest: float) -> float | None:
    return value / largest if largest else None


def numbers(*texts: str) -> list[Heading]:
    return [Heading(text, number=True) for text in texts]


def first(rows: Sequence[T], count: int, what: str, more: str = "") -> tuple[Sequence[T], str]:
    """Return at most `count` rows, and a line about the others; `what` names them, in the plural."""
    rest = len(rows) - count
    if rest <= 0:
        return rows, ""
    return rows[:count], f"The first {count:,} of {len(rows):,} {what} are shown{more}."


_MAX = 4000


def clean(text: str) -> str:
    r"""Return the text with invisible characters as `\x1b` or `\u202e`, cut at 4,000 characters."""
    found = one_line(text[: _MAX + 1])
    return found if len(text) <= _MAX else f"{found[:_MAX]}… ({len(text):,} characters)"
