"""The state of the live view, and the effect of each key: `press(view, key, …)` returns the next view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

KINDS: Final = ("groups", "topics", "brokers")
COLUMNS: Final = ("name", "in", "out", "lag", "change", "eta")

HELP: Final = (
    ("g t b", "groups, topics, brokers; Tab for the next of them"),
    ("/", "filter by a part of the name; Enter keeps it, Esc removes it"),
    ("← →", "sort by the column to the left or right"),
    ("n i o l c e", "sort by name, in, out, lag, change or ETA"),
    ("r", "reverse the order"),
    ("↑ ↓", "scroll; also Page Up, Page Down, Home, End"),
    ("x", "forget what is lost"),
    ("Ctrl-L", "draw the screen again"),
    ("q", "quit; also Ctrl-C"),
)


class View(NamedTuple):
    """`typed` is the filter while it is typed. `first` is the index of the first row on the screen, `forgets`
    counts how often lost rows were dropped.
    """

    what: str = "groups"
    sort: str = "lag"
    backwards: bool = False
    filter: str = ""
    typed: str | None = None
    first: int = 0
    help: bool = False
    ended: bool = False
    forgets: int = 0

    @property
    def text(self) -> str:
        """The filter in effect."""
        return self.filter if self.typed is None else self.typed


def press(view: View, key: str, *, rows: int, page: int) -> View:
    """Return the view after a key. `rows` is the number of rows found, `page` the number that fit on the
    screen.
    """
    if view.help:
        return view._replace(help=False, ended=key == "q")
    if view.typed is not None:
        return _type(view, view.typed, key)
    if key in _SCROLLS:
        first = _SCROLLS[key](view.first, rows, page)
        return view._replace(first=max(min(first, rows - page), 0))
    change = _CHANGES.get(key)
    return view if change is None else change(view)


def _type(view: View, typed: str, key: str) -> View:
    if key == "enter":
        return view._replace(filter=typed, typed=None)
    if key == "escape":
        return view._replace(typed=None, first=0)
    if key in ("backspace", "clear"):
        return view._replace(typed=typed[:-1] if key == "backspace" else "", first=0)
    return view._replace(typed=typed + key, first=0) if len(key) == 1 else view


def _sorted_by(column: str) -> Callable[[View], View]:
    return lambda view: view._replace(sort=column, backwards=False, first=0)


def _showing(what: str) -> Callable[[View], View]:
    return lambda view: view._replace(what=what, first=0)


def _moved(step: int) -> Callable[[View], View]:
    def move(view: View) -> View:
        place = min(max(COLUMNS.index(view.sort) + step, 0), len(COLUMNS) - 1)
        return view._replace(sort=COLUMNS[place], backwards=False, first=0)

    return move


_SCROLLS: Mapping[str, Callable[[int, int, int], int]] = {
    "up": lambda first, rows, page: first - 1,
    "down": lambda first, rows, page: first + 1,
    "pageup": lambda first, rows, page: first - page,
    "pagedown": lambda first, rows, page: first + page,
    "home": lambda first, rows, page: 0,
    "end": lambda first, rows, page: rows,
}
_CHANGES: Mapping[str, Callable[[View], View]] = {
    "q": lambda view: view._replace(ended=True),
    "?": lambda view: view._replace(help=True),
    "h": lambda view: view._replace(help=True),
    "/": lambda view: view._replace(typed=view.filter),
    "escape": lambda view: view._replace(filter="", first=0),
    "r": lambda view: view._replace(backwards=not view.backwards, first=0),
    "x": lambda view: view._replace(forgets=view.forgets + 1),
    "tab": lambda view: _showing(KINDS[(KINDS.index(view.what) + 1) % len(KINDS)])(view),
    "left": _moved(-1),
    "right": _moved(1),
    **{what[0]: _showing(what) for what in KINDS},
    **{column[0]: _sorted_by(column) for column in COLUMNS},
}
