"""An orderly group of rmq and C++ clients that loses a member: the others continue in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

from tests.foreign.install import CPP1_CTYPES
from tests.proof.conftest import Ordered
from tests.proof.journal import wait_until

Show = Callable[[str], None]


def test_order_is_kept_when_a_member_is_killed(ordered: Ordered, show: Show) -> None:
    assert [sender.wait() for sender in ordered.senders] == [0] * len(ordered.senders)
    journal, total = ordered.group.journal, sum(sender.count for sender in ordered.senders)
    wait_until(lambda: len(journal.bodies) == total, lambda: journal.summary(total))
    show(journal.summary(total))
    assert CPP1_CTYPES.name not in journal.last_owners.values()
    by_queue = defaultdict(list)
    for one in journal.handled:
        queue, number = map(int, one.body.split("-"))
        assert queue == one.queue_id
        by_queue[queue].append((number, one.member))
    for queue, handled in by_queue.items():
        check_order(queue, handled, ordered.senders[queue].count)


def check_order(queue: int, handled: list[tuple[int, str]], count: int) -> None:
    """Checks that numbers rise by one, and go back only when another member takes the queue over."""
    assert handled[0][0] == 0
    for (before, owner), (number, member) in pairwise(handled):
        if member == owner:
            assert number == before + 1, f"queue {queue}: {number} after {before} at {member}"
        else:
            assert number <= before + 1, (
                f"queue {queue}: {member} began at {number}, {owner} ended at {before}"
            )
    assert {number for number, _ in handled} == set(range(count))
