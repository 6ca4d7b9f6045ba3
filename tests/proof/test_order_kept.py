"""A member of an orderly group of rmq and C++ clients is killed: each queue goes on, in its order, with another member."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

from tests.foreign.install import CPP1_CTYPES
from tests.proof.conftest import ORDERLY_COUNT, ORDERLY_QUEUES, Ordered
from tests.proof.journal import wait_until
from tests.support import PATIENCE

Show = Callable[[str], None]


def test_order_is_kept_when_a_member_is_killed(ordered: Ordered, show: Show) -> None:
    journal, total = ordered.group.journal, ORDERLY_QUEUES * ORDERLY_COUNT
    wait_until(lambda: len(journal.bodies) == total, 100, lambda: journal.summary(total))
    show(journal.summary(total))
    assert all(sender.wait(PATIENCE) == 0 for sender in ordered.senders)
    assert CPP1_CTYPES.name not in journal.last_owners.values()
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
