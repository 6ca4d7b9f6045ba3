"""What only a person sees: the end of a long topic, what was joined, and how far long work is."""

from __future__ import annotations

import io
import sys

import pytest

from rmqcli.cli.settings import Settings
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.flows.reading import Span, last_spans
from rmqcli.render.progress import progress
from tests.cli.conftest import Run


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "terminal", property(lambda self: True))


@pytest.fixture
def thirty(rmq: Run, topic: str) -> str:
    lines = b"".join(b"%d\n" % number for number in range(30))
    assert rmq("send", topic, "-q", "0", stdin=lines).code == 0
    return topic


def test_a_pull_without_a_range_shows_the_end(rmq: Run, thirty: str, terminal: None) -> None:
    done = rmq("pull", thirty, "-f", r"%v\n")
    assert [int(body) for body in done.out.split()] == list(range(10, 30))
    assert done.err == "rmq: the last 20 of 30 messages; -o start shows all\n"


@pytest.mark.parametrize(
    "options", [("-o", "start"), ("-c", "40"), ("--grep", "."), ("--where", "queue_id >= 0"), ("--json",)]
)
def test_what_was_asked_for_is_shown_whole(
    rmq: Run, thirty: str, terminal: None, options: tuple[str, ...]
) -> None:
    done = rmq("pull", thirty, *options, *([] if "--json" in options else ["-f", r"%v\n"]))
    assert (len(done.out.splitlines()), done.err) == (30, "")


def test_a_pipe_gets_everything(rmq: Run, thirty: str) -> None:
    assert len(rmq("pull", thirty).lines) == 30


def test_the_ends_of_spans() -> None:
    queue = MessageQueue("t", "b", 0)
    assert last_spans([Span(queue, 0, 30), Span(queue, 5, 7)], 20) == [Span(queue, 10, 30), Span(queue, 5, 7)]


def test_what_was_joined_is_said(rmq: Run, thirty: str) -> None:
    group = f"g_{thirty}"
    done = rmq("consume", thirty, "-g", group, "--from", "start", "-c", "1", "-v")
    said = f"rmq: group {group} consumes a share of 4 queues of {thirty}, from its offsets; without any, at the start\n"
    assert said in done.err
    assert rmq("consume", thirty, "-g", group, "-c", "1").err == ""


def test_long_work_shows_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("work", 10) as advance:
        for _ in range(10):
            advance(1)
    assert "10/10" in screen.getvalue()
    assert "/s" in screen.getvalue()
