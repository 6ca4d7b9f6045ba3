"""Every example of `rmq cheat` does its work."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.help_topics import Example, subjects
from tests.cli.conftest import Run
from tests.support import unpack

LINE = 80
BETWEEN = 2
PREPARATION = (
    "topic create orders --queues 4",
    "topic create parcels --queues 1",
    "group create billing",
    "send orders hello -p region=eu",
    "send parcels lost",
    "consume parcels -g shipping --from start -c 1 --retries 0 --exec 'exit 1' --orderly",
    "consume orders -g billing --from start -c 1",
)


def every_example() -> list[Example]:
    return [example for subject in subjects().values() for example in subject.examples]


@pytest.fixture
def prepared(rmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the examples use, in a cluster of their own."""
    monkeypatch.chdir(tmp_path)
    Path("store").symlink_to(unpack("store-clean", tmp_path).root)
    Path("orders.txt").write_text("first\nsecond\n")
    for line in PREPARATION:
        assert rmq(*shlex.split(line)).code == 0 or "exit 1" in line, line
    Path("orders.jsonl").write_bytes(rmq("pull", "orders", "--json").out)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with embedded_in_thread() as running:
        yield running


@pytest.mark.usefixtures("prepared")
def test_every_example_does_its_work(rmq: Run) -> None:
    failed = {}
    for example in every_example():
        name, *words = shlex.split(example.command)
        done = rmq(*words)
        if (name, done.code) != ("rmq", ExitCode.DONE):
            failed[example.command] = (done.code, done.err)
    assert failed == {}


def test_an_example_fits_a_line_as_it_is_typed() -> None:
    for subject in subjects().values():
        widths = [max(len(cell) for cell in column) for column in zip(*subject.examples, strict=True)]
        assert sum(widths) + BETWEEN <= LINE, subject.about
        assert not any("\\" in cell for example in subject.examples for cell in example), "tables escape it"


def test_the_command(cli: Run) -> None:
    found = subjects()
    assert cli("cheat").lines == [[name, one.about] for name, one in found.items()]
    assert cli("cheat", "read", "--json").json[0] == {
        "command": "rmq pull orders",
        "text": "messages of the topic",
    }
    unknown = cli("cheat", "cooking")
    assert (unknown.code, unknown.out) == (ExitCode.USAGE, b"")
    assert "no examples of 'cooking': expected send, read, " in unknown.err
