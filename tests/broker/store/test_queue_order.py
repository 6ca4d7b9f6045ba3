"""The places of records in a queue that is rebuilt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqcli.broker.store.dispatch import MOST_MISSING, MOST_WAITING, QueueOrder


def placed(offsets: list[int]) -> list[tuple[int, int | None]]:
    """The places of records that are named after their position in the log."""
    order: QueueOrder[int] = QueueOrder()
    found: list[tuple[int, int | None]] = []
    for record, offset in enumerate(offsets):
        found += order.add(offset, record)
    return found + order.finish()


def test_a_queue_in_order() -> None:
    assert placed([0, 1, 2]) == [(0, 0), (1, 1), (2, 2)]
    assert placed([7, 8, 9]) == [(7, 0), (8, 1), (9, 2)]
    assert placed([]) == []
    assert placed([5]) == [(5, 0)]


def test_a_topic_that_was_created_again() -> None:
    assert placed([0, 1, 2, 0, 1]) == [(0, 0), (1, 1), (2, 2), (0, 3), (1, 4)]
    assert placed([0, 1, 2, 0]) == [(0, 0), (1, 1), (2, 2), (0, 3)]


def test_records_are_missing() -> None:
    assert placed([0, 1, 5, 6]) == [(0, 0), (1, 1), (5, 2), (6, 3)]
    assert placed([0, 1, 5]) == [(0, 0), (1, 1), (5, 2)]


def test_a_gap_that_cannot_be() -> None:
    far = MOST_MISSING * 4
    assert placed([0, 1, far, far + 1]) == [(0, 0), (1, 1), (2, None), (3, None)]


def test_the_first_is_damaged() -> None:
    assert placed([1 << 60, 1, 2]) == [(1, 1), (2, 2)]
    assert placed([-1, 1, 2]) == [(1, 1), (2, 2)]


def test_the_last_is_damaged() -> None:
    assert placed([0, 1, 900_000]) == [(0, 0), (1, 1), (2, None)]
    assert placed([0, 1, -7]) == [(0, 0), (1, 1), (2, None)]


def test_a_record_of_another_queue() -> None:
    assert placed([0, 1, 77, 2, 3]) == [(0, 0), (1, 1), (2, 3), (3, 4)]


def test_many_that_nothing_confirms_do_not_wait_for_ever() -> None:
    count = 3 * MOST_WAITING
    offsets = [0, *(10_000 + 2 * n for n in range(count))]
    order: QueueOrder[int] = QueueOrder()
    for record, offset in enumerate(offsets):
        order.add(offset, record)
        assert len(order._waiting) <= MOST_WAITING
    rest = order.finish()
    assert len(order.misplaced) + sum(record is not None for _, record in rest) == count
    assert order.next_offset >= count


@given(st.integers(0, 5), st.integers(6, 40), st.data())
def test_one_wrong_offset_hides_one_record(first: int, count: int, data: st.DataObject) -> None:
    offsets = list(range(first, first + count))
    wrong = data.draw(st.integers(2, count - 3))
    offsets[wrong] = data.draw(st.integers(-(1 << 63), (1 << 63) - 1).filter(lambda n: n != offsets[wrong]))
    found = {record: place for place, record in placed(offsets) if record is not None}
    others = {record: first + record for record in range(count) if record != wrong}
    assert {record: place for record, place in found.items() if record != wrong} == others
