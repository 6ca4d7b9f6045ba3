"""The screen of the live view, as lines."""

from __future__ import annotations

import pytest

from rmqcli.top.board import Loss, Row
from rmqcli.top.loads import Trend
from rmqcli.top.table import Facts, Line, screenful
from rmqcli.top.view import View

FACTS = Facts("prod (127.0.0.1:9876)", "10:00:00", 2, total=2)
LONG = "a-name-of-sixty-characters-" + "x" * 33
ROWS = [
    Row("billing", None, None, 12.5, 4_000, Trend((1, 2, 4), -10.0, 400.0)),
    Row("audit", None, None, 0.0, 7, Trend((7, 7), 0.0, None), 88.0),
]


def shown(view: View, rows: list[Row], width: int = 80, height: int = 10, facts: Facts = FACTS) -> list[Line]:
    return screenful(view, rows, facts, 100.0, width, height).lines


def test_a_screen() -> None:
    assert shown(View(), ROWS, facts=FACTS._replace(losses=[Loss("broker-b", 88.0, "it is silent")])) == [
        Line("2 groups, by lag  10:00:00, every 2 s  prod (127.0.0.1:9876)", "bold"),
        Line("broker-b lost 12 s ago: it is silent", "red"),
        Line("GROUP    OUT/S  LAG↓  CHANGE/S         ETA  TREND", "bold"),
        Line("billing   12.5  4.0k       -10  6 min 40 s  ▂▄█"),
        Line("audit        0     7         0              ██     lost 12 s ago", "dim"),
        *[Line("")] * 4,
        Line("q quit  ? keys  / filter  ← → sort  g groups  t topics  b brokers", "dim"),
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("what", ["groups", "topics", "brokers"])
def test_names_are_whole_at_every_width(width: int, what: str) -> None:
    group = LONG[::-1] if what == "topics" else None
    rows = [row._replace(name=LONG, group=group) for row in ROWS]
    lines = shown(View(what), rows, width, 24)
    assert max(len(line.text) for line in lines) <= width
    text = "".join(line.text for line in lines)
    assert text.count(LONG) == 2 and text.count(LONG[::-1]) == (2 if what == "topics" else 0)
    assert "4.0k" in text and "lost 12 s ago" in text


def test_the_trend_takes_the_room_that_there_is() -> None:
    rows = [ROWS[0]._replace(trend=Trend(tuple(range(1, 21)), 1.0, None))]
    heads = [shown(View(), rows, width)[2].text for width in (80, 45, 30)]
    assert [text.split()[-1][-1] for text in heads] == ["█", "█", "1"]
    assert len(heads[1]) == 45


@pytest.mark.parametrize("height", range(1, 8))
def test_no_more_lines_than_there_are(height: int) -> None:
    for view in (View(), View(help=True), View(typed="a")):
        assert len(shown(view, ROWS, height=height)) <= height


def test_rows_that_are_scrolled_to() -> None:
    rows = [ROWS[0]._replace(name=f"g{number}") for number in range(50)]
    found = screenful(View(first=20), rows, FACTS, 0.0, 80, 10)
    assert found.rows == 7
    assert [line.text.split()[0] for line in found.lines[2:9]] == [f"g{number}" for number in range(20, 27)]


@pytest.mark.parametrize(
    ("view", "facts", "text"),
    [
        (View(), FACTS._replace(read=False), "reading …"),
        (View(), FACTS, "no groups"),
        (View("topics", typed="x"), FACTS, "no topics with x"),
    ],
)
def test_an_empty_list_says_why(view: View, facts: Facts, text: str) -> None:
    assert Line(text) in shown(view, [], facts=facts)


def test_trouble_and_what_others_chose_are_plain_text() -> None:
    facts = FACTS._replace(trouble=(12.4, "no\x1b[2J answer"), total=2)
    lines = shown(View(filter="\x1b"), [ROWS[0]._replace(name="a\x1bb")], 120, facts=facts)
    assert lines[0].text.startswith(r"1 of 2 groups with \x1b, by lag")
    assert lines[1] == Line(r"no answer for 12 s: no\x1b[2J answer", "red")
    assert lines[3].text.startswith(r"a\x1bb")
