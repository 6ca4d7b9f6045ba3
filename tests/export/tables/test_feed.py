"""A change feed: when it reads, what it survives, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import ClientError, InvalidRequest
from rmqcli.export.run import ExportSummary
from rmqcli.export.tables import run as feeding
from rmqcli.export.tables.run import feed
from tests.cli.conftest import Run
from tests.export.tables.support import Lake


class Stopped(Exception):
    """The end of a feed under test."""


def run_feed(results: list[Any], took: float = 1.0) -> tuple[list[Any], list[Any], list[float]]:
    """Returns the calls of `add`, what was told of, and the pauses; a run takes `took` seconds of 10."""
    now = 0.0
    calls: list[bool] = []
    said: list[Any] = []
    pauses: list[float] = []

    def add(goes_on: bool) -> ExportSummary:
        nonlocal now
        now += took
        calls.append(goes_on)
        if not results:
            raise Stopped
        if isinstance(results[0], Exception):
            raise results.pop(0)
        return ExportSummary("t", 1, results.pop(0), 1, took)

    with pytest.raises(Stopped):
        feed(
            add,
            lambda summary: said.append(summary.rows),
            lambda error: said.append(str(error)),
            every=10,
            clock=lambda: now,
            sleep=pauses.append,
        )
    return calls, said, pauses


def test_one_run_every_so_many_seconds() -> None:
    assert run_feed([5, 0, 3]) == ([False, True, True, True], [5, 0, 3], [9.0, 9.0, 9.0])
    assert run_feed([5, 3], took=12)[2] == [0.0, 0.0]


def test_an_outage_ends_nothing_after_the_first_commit() -> None:
    lost = ClientError("no route")
    assert run_feed([5, ExceptionGroup("", [lost]), lost, 3])[1] == [5, "no route", "no route", 3]
    for results in ([lost], [5, InvalidRequest("denied")]):
        with pytest.raises(ClientError):
            run_feed(list(results))


@pytest.fixture
def at_pauses(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs one step in each pause of the feed, then presses Ctrl-C."""

    def arrange(*steps: Callable[[], object]) -> None:
        left = list(steps)

        def sleep(seconds: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(feeding, "feed", partial(feed, sleep=sleep))

    return arrange


def test_the_command(rmq: Run, topic: str, lake: Lake, at_pauses: Callable[..., None]) -> None:
    def send(count: int) -> None:
        rmq("send", topic, stdin=b"x\n" * count)

    send(5)
    at_pauses(partial(send, 3), lambda: None, partial(send, 2))
    done = rmq("export", "--topic", topic, "--table", lake.name, "--follow", "--every", "60")
    assert (done.code, [line[2] for line in done.lines]) == (ExitCode.INTERRUPTED, ["2"])
    assert done.err == f"rmq: interrupted: 10 rows committed; continue {lake.name} with --resume\n"
    assert (len(set(lake.places())), len(lake.rows()), lake.commits()) == (10, 10, 3)


def test_only_what_arrives_from_now_on(
    rmq: Run, topic: str, lake: Lake, at_pauses: Callable[..., None]
) -> None:
    rmq("send", topic, stdin=b"x\n" * 5)
    at_pauses(lambda: rmq("send", topic, stdin=b"x\n" * 3))
    done = rmq("export", "--topic", topic, "--table", lake.name, "--follow", "-o", "end", "--json")
    assert done.error["message"] == f"interrupted: 3 rows committed; continue {lake.name} with --resume"
    assert len(lake.rows()) == 3


def test_a_store(cli: Run, store_clean: Any, lake: Lake, at_pauses: Callable[..., None]) -> None:
    at_pauses(lambda: None)
    export = ("export", "--store", str(store_clean.root), "--topic", "SeedTags", "--table", lake.name)
    assert cli(*export, "-o", "10", "--follow").lines[0][2] == "260"
    assert (len(lake.rows()), lake.commits()) == (260, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "y", "--follow"), "--follow and --every require --table"),
        (("--table", "delta:x", "--every", "5"), "--every requires --follow"),
        (("--table", "delta:x", "--follow", "-o", ":9"), "--follow has no end: -o :9 has one"),
        (
            ("--table", "delta:x", "--follow", "-o", "end"),
            "--follow of a store begins at an offset or a time",
        ),
    ],
)
def test_usage(cli: Run, store_clean: Any, words: tuple[str, ...], said: str) -> None:
    done = cli("export", "--store", str(store_clean.root), *words)
    assert (done.code, done.err.count("\n")) == (ExitCode.USAGE, 1)
    assert done.err.startswith(f"rmq: {said}")
