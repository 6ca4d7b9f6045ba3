"""Conditions of `pull`, `tail` and `query` that brokers cannot evaluate, and patterns of bodies."""

from __future__ import annotations

import pytest

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run


@pytest.fixture
def orders(rmq: Run, topic: str) -> str:
    """Eight messages with prices 0 to 7 in two queues of a broker that filters by tags only."""
    for price in range(8):
        options = ("-q", str(price % 2), "-p", f"price={price}", "-k", "k", "-t", "AB"[price % 2])
        assert rmq("send", topic, f"m{price} Grün", *options).code == 0
    return topic


def bodies(rmq: Run, *arguments: str) -> list[str]:
    done = rmq(*arguments, "-f", r"%v\n")
    assert done.code == 0, done.err
    return [line.split()[0] for line in done.out.decode().splitlines()]


COMMANDS = (("pull",), ("tail", "--idle", "0.1"), ("query", "--key", "k"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--where", "price BETWEEN 2 AND 3 OR price = 7"), ["m2", "m3", "m7"]),
        (("--where", "queue_id = 1 AND price > 2"), ["m3", "m5", "m7"]),
        (("--where", "queue_offset < 1"), ["m0", "m1"]),
        (("--where", "nothing = 1"), []),
        (("--grep", "m[67]"), ["m6", "m7"]),
        (("--grep", "(?i)^M1 grÜn$"), ["m1"]),
        (("--grep", "m", "--where", "tags = 'A'"), ["m0", "m2", "m4", "m6"]),
    ],
)
def test_what_meets_the_condition(
    rmq: Run, orders: str, command: tuple[str, ...], options: tuple[str, ...], expected: list[str]
) -> None:
    name, *rest = command
    if name == "query" and not expected:
        missing = rmq(name, orders, *rest, *options)
        assert (missing.code, missing.out) == (ExitCode.NOT_FOUND, b"")
        assert "meets the condition (8 found)" in missing.err
    else:
        assert bodies(rmq, name, orders, *rest, *options) == expected


def test_a_pattern_and_a_tag(rmq: Run, orders: str) -> None:
    assert bodies(rmq, "pull", orders, "-t", "A", "--grep", "[0-3]") == ["m0", "m2"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("options", "said"), [(("--where", "price >"), "--where: "), (("--grep", "a("), "--grep 'a('")]
)
def test_what_is_no_condition(
    rmq: Run, orders: str, command: tuple[str, ...], options: tuple[str, ...], said: str
) -> None:
    name, *rest = command
    done = rmq(name, orders, *rest, *options)
    assert (done.code, done.out) == (ExitCode.USAGE, b"")
    assert done.err.startswith(f"rmq: {said}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS[:2], ids=lambda command: command[0])
def test_nothing_to_show_may_be_a_failure(rmq: Run, orders: str, command: tuple[str, ...]) -> None:
    name, *rest = command
    empty = rmq(name, orders, *rest, "--grep", "nowhere", "--fail-empty")
    assert (empty.code, empty.err) == (ExitCode.NOT_FOUND, f"rmq: no message to show in topic {orders}\n")
    assert rmq(name, orders, *rest, "--grep", "nowhere").code == 0
    assert rmq(name, orders, *rest, "--fail-empty").code == 0


def test_a_column_in_the_spelling_of_json_is_noticed(rmq: Run, orders: str) -> None:
    found = rmq("pull", orders, "--where", "queueId = 1 AND price > 0 AND Price IS NULL")
    assert (found.code, found.out) == (0, b"")
    assert found.err == "rmq: --where: queueId is read as a property; the column is queue_id\n"
