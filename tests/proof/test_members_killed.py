"""Members of a group are killed: the others take over, nothing is lost, and orderly queues keep their order.

The orderly group runs beside the other tests of this module: the broker keeps the locks of a dead member for 60 s.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.foreign.install import ALI_ONS, CPP1_CTYPES
from tests.proof.group import Group, Server, feed, rmq
from tests.proof.journal import Journal, wait_until

COUNT = 3000
RATE = 300
QUEUES = 8
ORDERLY_QUEUES = 6
ORDERLY_COUNT = 300
"""In each queue."""

Show = Callable[[str], None]


def wait_for_work(journal: Journal, members: list[str], each: int) -> None:
    def working() -> bool:
        shares = journal.shares
        return all(shares[member] >= each for member in members)

    wait_until(working, 30, lambda: f"not all are at work: {journal.shares}")


def last_owners(journal: Journal) -> dict[int, str]:
    return {one.queue_id: one.member for one in journal.handled}


class Ordered(NamedTuple):
    group: Group
    senders: list[subprocess.Popen[str]]


@pytest.fixture(scope="module", autouse=True)
def ordered(installed: None, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ordered]:
    """Two rmq members and one C++ member, which is killed at its work; each queue gets its numbers from one sender."""
    folder = tmp_path_factory.mktemp("orderly")
    rmq(server.namesrv, "topic", "create", "ordered", "--queues", str(ORDERLY_QUEUES))
    with Group(server, "ordered", folder / "group") as group:
        group.join_orderly("rmq-1")
        group.join_orderly("rmq-2")
        group.join_foreign(CPP1_CTYPES, "orderly")
        group.wait_joined()
        senders = []
        for queue in range(ORDERLY_QUEUES):
            path = folder / str(queue)
            path.write_text("".join(f"{queue}-{n}\n" for n in range(ORDERLY_COUNT)))
            with path.open() as lines:
                senders.append(feed(server, "ordered", lines, 40, "--queue", str(queue)))
        wait_for_work(group.journal, list(group.members), 20)
        group.kill(CPP1_CTYPES.name)
        yield Ordered(group, senders)
        for sender in senders:
            sender.kill()
            sender.wait()


def test_the_rest_of_a_mixed_group_takes_over(server: Server, tmp_path: Path, show: Show) -> None:
    rmq(server.namesrv, "topic", "create", "shared", "--queues", str(QUEUES))
    lines = tmp_path / "lines"
    lines.write_text("".join(f"m-{n}\n" for n in range(COUNT)))
    with Group(server, "shared", tmp_path / "group") as group:
        group.join_rmq("rmq-1")
        group.join_rmq("rmq-2")
        group.join_foreign(ALI_ONS)
        group.join_foreign(CPP1_CTYPES)
        group.wait_joined()
        with lines.open() as file:
            sender = feed(server, "shared", file, RATE)
        journal = group.journal
        wait_for_work(journal, list(group.members), 50)
        assert sender.poll() is None, "the member must be killed while messages come"
        group.kill("rmq-2")
        assert sender.wait(60) == 0
        expected = {f"m-{n}" for n in range(COUNT)}
        wait_until(lambda: journal.bodies >= expected, 40, lambda: journal.summary(COUNT))
        show(journal.summary(COUNT))
        assert journal.bodies == expected
        assert set(last_owners(journal)) == set(range(QUEUES))
        assert "rmq-2" not in last_owners(journal).values()


def test_order_is_kept_when_a_member_is_killed(ordered: Ordered, show: Show) -> None:
    journal, total = ordered.group.journal, ORDERLY_QUEUES * ORDERLY_COUNT
    wait_until(lambda: len(journal.bodies) == total, 100, lambda: journal.summary(total))
    show(journal.summary(total))
    assert all(sender.wait(10) == 0 for sender in ordered.senders)
    assert CPP1_CTYPES.name not in last_owners(journal).values()
    by_queue = defaultdict(list)
    for one in journal.handled:
        queue, number = map(int, one.body.split("-"))
        assert queue == one.queue_id
        by_queue[queue].append((number, one.member))
    for queue, handled in by_queue.items():
        check_order(queue, handled)


def check_order(queue: int, handled: list[tuple[int, str]]) -> None:
    """Each message comes after the one before it; one goes back only when another member takes the queue over."""
    assert handled[0][0] == 0
    for (before, owner), (number, member) in pairwise(handled):
        if member == owner:
            assert number == before + 1, f"queue {queue}: {number} after {before} at {member}"
        else:
            assert number <= before + 1, (
                f"queue {queue}: {member} began at {number}, {owner} ended at {before}"
            )
    assert {number for number, _ in handled} == set(range(ORDERLY_COUNT))
