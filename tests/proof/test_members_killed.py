"""A group of rmq, JavaScript and C++ clients that loses a member: the others take over without loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.foreign.install import ALI_ONS, CPP1_CTYPES
from tests.proof.group import Feed, Group, Server, rmq
from tests.proof.journal import wait_for_work, wait_until

MORE = 2000
"""Messages after the kill."""
RATE = 300
QUEUES = 8

Show = Callable[[str], None]


def test_the_rest_of_a_mixed_group_takes_over(server: Server, tmp_path: Path, show: Show) -> None:
    rmq(server.namesrv, "topic", "create", "shared", "--queues", str(QUEUES))
    with Group(server, "shared", tmp_path / "group") as group:
        group.join_rmq("rmq-1")
        group.join_rmq("rmq-2")
        group.join_foreign(ALI_ONS)
        group.join_foreign(CPP1_CTYPES)
        group.wait_joined()
        sender, journal = Feed(server, "shared", "m", RATE), group.journal
        try:
            wait_for_work(journal, list(group.members), 50)
            group.kill("rmq-2")
            sender.finish(MORE)
            assert sender.wait() == 0
        finally:
            sender.kill()
        expected = {f"m-{n}" for n in range(sender.count)}
        wait_until(lambda: journal.bodies >= expected, lambda: journal.summary(sender.count))
        show(journal.summary(sender.count))
        assert (journal.bodies, journal.troubles) == (expected, [])
        assert set(journal.last_owners) == set(range(QUEUES))
        assert "rmq-2" not in journal.last_owners.values()
