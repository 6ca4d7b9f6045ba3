"""A member of a group of rmq, JavaScript and C++ clients is killed: the others take over, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.foreign.install import ALI_ONS, CPP1_CTYPES
from tests.proof.group import Group, Server, feed, rmq
from tests.proof.journal import wait_for_work, wait_until
from tests.support import PATIENCE

COUNT = 3000
RATE = 300
QUEUES = 8

Show = Callable[[str], None]


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
        assert sender.wait(PATIENCE) == 0
        expected = {f"m-{n}" for n in range(COUNT)}
        wait_until(lambda: journal.bodies >= expected, 40, lambda: journal.summary(COUNT))
        show(journal.summary(COUNT))
        assert (journal.bodies, journal.troubles) == (expected, [])
        assert set(journal.last_owners) == set(range(QUEUES))
        assert "rmq-2" not in journal.last_owners.values()
