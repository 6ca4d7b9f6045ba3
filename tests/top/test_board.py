"""Rows over several readings, with brokers that are lost and come back."""

from __future__ import annotations

import pytest

from rmqcli.client import ClientError, RequestTimeout
from rmqcli.top.board import Board, Loss, chosen, plain
from rmqcli.top.loads import Carried, Reading

BOTH = frozenset({"a", "b"})


def reading(*found: Carried, lost: tuple[str, ...] = (), registered: frozenset[str] = BOTH) -> Reading:
    errors: dict[str, ClientError] = {name: RequestTimeout(name, "X", 2) for name in lost}
    return Reading(list(found), registered, errors)


def group(name: str, lag: int, brokers: frozenset[str] = BOTH) -> Carried:
    return Carried(name, None, None, 1.0, lag, brokers)


def seen(board: Board) -> list[tuple[str, int | None, float | None]]:
    return [(row.name, row.figure, row.lost_at) for row in board.rows]


def test_what_a_lost_broker_has_a_part_in_keeps_its_figures() -> None:
    board = Board()
    board.update(reading(group("g", 100), group("of a", 5, frozenset("a"))), 0.0)
    board.update(reading(group("g", 40), group("of a", 6, BOTH), lost=("b",)), 2.0)
    assert seen(board) == [("g", 100, 2.0), ("of a", 6, None)]
    assert [row.figure for row in board.answered] == [40, 6]
    board.update(reading(group("of a", 7, BOTH), lost=("b",)), 4.0)
    assert seen(board) == [("g", 100, 2.0), ("of a", 7, None)]
    assert [row.figure for row in board.answered] == [None, 7]
    assert board.losses == [Loss("b", 2.0, "b did not answer X within 2 s")]
    board.update(reading(group("g", 120)), 6.0)
    assert (seen(board), board.losses) == ([("g", 120, None)], [])
    assert board.rows[0].trend.values == (100, 120)


def test_a_broker_that_the_name_server_forgets_stays_lost() -> None:
    board = Board()
    board.update(reading(group("g", 100)), 0.0)
    board.update(reading(group("g", 40, frozenset("a")), registered=frozenset("a")), 2.0)
    assert seen(board) == [("g", 100, 2.0)]
    assert "no longer knows" in board.losses[0].why
    board.forget()
    board.update(reading(group("g", 40, frozenset("a")), registered=frozenset("a")), 4.0)
    assert (seen(board), board.losses) == ([("g", 40, None)], [])


def test_a_broker_that_was_lost_before_the_first_reading() -> None:
    board = Board()
    board.update(reading(group("g", 40), lost=("b",)), 0.0)
    assert (seen(board), board.losses[0].broker) == ([("g", 40, None)], "b")
    board.update(reading(group("g", 100)), 2.0)
    assert seen(board) == [("g", 100, None)]
    assert board.rows[0].trend.values == (100,)


def test_lost_rows_that_are_forgotten_come_back_without_the_lost_broker() -> None:
    board = Board()
    board.update(reading(group("g", 100)), 0.0)
    board.update(reading(group("g", 40), lost=("b",)), 2.0)
    board.forget()
    assert seen(board) == []
    board.update(reading(group("g", 38), lost=("b",)), 6.0)
    assert (seen(board), board.losses[0].at) == ([("g", 38, None)], 2.0)


def test_a_part_that_is_added_is_no_change() -> None:
    board = Board()
    board.update(reading(group("g", 40, frozenset("a"))), 0.0)
    board.update(reading(group("g", 100)), 2.0)
    assert board.rows[0].trend.values == (100,)


def test_a_row_that_is_lost_by_itself() -> None:
    board = Board()
    board.update(reading(group("g", 40)), 0.0)
    refused = Carried("g", None, None, None, None, lost=True)
    for now in (2.0, 4.0):
        board.update(reading(refused), now)
        assert seen(board) == [("g", 40, 2.0)]
    assert plain(board.answered[0], 5.0) == ["g", None, None, None, None, None, None, [40], True, 3.0, None]


def test_rows_that_are_deleted_go() -> None:
    board = Board()
    board.update(reading(group("g", 40), group("h", 1)), 0.0)
    board.update(reading(group("h", 1)), 2.0)
    assert [row.name for row in board.rows] == ["h"]


@pytest.mark.parametrize(
    ("column", "backwards", "names"),
    [
        ("lag", False, ["h", "g", "i"]),
        ("lag", True, ["g", "h", "i"]),
        ("name", False, ["g", "h", "i"]),
        ("name", True, ["i", "h", "g"]),
        ("eta", False, ["g", "h", "i"]),
    ],
)
def test_order(column: str, backwards: bool, names: list[str]) -> None:
    board = Board()
    unknown = Carried("i", None, None, None, None, BOTH)
    board.update(reading(group("g", 1), unknown, group("h", 2)), 0.0)
    assert [row.name for row in chosen(board.rows, column, backwards=backwards)] == names
    assert [row.name for row in chosen(board.rows, column, "h")] == ["h"]
