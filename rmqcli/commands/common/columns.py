"""Columns of the tables of a store, named in a line each."""

from __future__ import annotations

from typing import Any

__all__ = ["columns"]


def columns(*names: tuple[str, str] | tuple[str, str, str]) -> list[Any]:
    """(title, key) or (title, key, how): `n` a number, `d` a duration in ms, `t` a time."""
    from rmqcli.render.inspection import to_seconds
    from rmqcli.render.table import Column

    made = {
        "n": {"number": True},
        "d": {"show": _span, "number": True},
        "t": {"show": to_seconds, "whole": True},
        "": {},
    }
    return [Column(title, key, **made[how[0] if how else ""]) for title, key, *how in names]  # type: ignore[arg-type]


def _span(milliseconds: int | None) -> str:
    from rmqcli.render.text import duration

    return "" if milliseconds is None else duration(milliseconds / 1000)
