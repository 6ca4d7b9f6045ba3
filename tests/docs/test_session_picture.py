"""docs/session.svg shows what the commands of docs/make_session.py print today, but for numbers, times and ids."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from docs.make_session import COMMANDS, PICTURE, draw, session

LARGEST = 40_000


def lines_of(svg: str) -> list[str]:
    """The lines of the picture without spaces; digits of numbers, times and ids as one #."""
    found: dict[float, str] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        y = float(element.get("y", 0))
        found[y] = found.get(y, "") + re.sub(r"\s", "", element.text or "")
    return [re.sub(r"[0-9A-F]{20,}|[0-9][0-9.,:-]*", "#", found[y]) for y in sorted(found)]


def test_the_picture_shows_what_the_commands_print() -> None:
    assert lines_of(PICTURE.read_text()) == lines_of(draw(session()))


def test_the_picture_is_complete_and_fetches_nothing() -> None:
    text = PICTURE.read_text()
    shown = "".join(lines_of(text))
    commands = [
        re.sub(r"[0-9A-F]{20,}|[0-9][0-9.,:-]*", "#", re.sub(r"\s", "", command)) for command in COMMANDS
    ]
    assert [command for command in commands if command not in shown] == []
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert Path(PICTURE).stat().st_size < LARGEST
