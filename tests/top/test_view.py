"""Keys and what they make of the view."""

from __future__ import annotations

import pytest

from rmqcli.top.view import HELP, View, press

BEGIN = View()


def after(keys: str | list[str], view: View = BEGIN, rows: int = 100, page: int = 10) -> View:
    for key in keys:
        view = press(view, key, rows=rows, page=page)
    return view


@pytest.mark.parametrize(
    ("keys", "view"),
    [
        ("q", View(ended=True)),
        ("t", View("topics")),
        ("tbg", View()),
        (["tab", "tab"], View("brokers")),
        (["tab", "tab", "tab"], View()),
        ("?", View(help=True)),
        ("?n", View()),
        ("?q", View(ended=True)),
        ("n", View(sort="name")),
        ("rn", View(sort="name")),
        ("nr", View(sort="name", backwards=True)),
        (["right"], View(sort="change")),
        (["left", "left", "left", "left", "left"], View(sort="name")),
        (["right", "right", "right"], View(sort="eta")),
        ("/qt?", View(typed="qt?")),
        (["/", "a", "b", "backspace", "enter"], View(filter="a")),
        (["/", "a", "clear", "up"], View(typed="")),
        (["/", "a", "enter", "/", "b", "escape"], View(filter="a")),
        (["/", "a", "enter", "escape"], View()),
        (["down", "down", "up"], View(first=1)),
        (["up"], View()),
        (["pagedown", "pagedown", "pageup"], View(first=10)),
        (["end"], View(first=90)),
        (["end", "down", "pagedown"], View(first=90)),
        (["end", "home"], View()),
        (["end", "e"], View(sort="eta")),
        ("xx", View(forgets=2)),
        ("zä", View()),
    ],
)
def test_keys(keys: str | list[str], view: View) -> None:
    assert after(keys) == view


def test_a_short_list_does_not_scroll() -> None:
    assert after(["down", "end", "pagedown"], rows=3) == View()


def test_the_filter_in_effect_is_the_typed_one() -> None:
    assert (after("/ab").text, after(["/", "a", "enter"]).text) == ("ab", "a")


def test_every_letter_of_the_help_does_something() -> None:
    letters = [key for keys, _ in HELP for key in keys.split() if len(key) == 1 and key.isascii()]
    assert "".join(letters) == "gtb/nioLcerxq".lower()
    assert [key for key in letters if after(key, View("topics", "out")) == View("topics", "out")] == [
        "t",
        "o",
    ]
