"""Held pulls in great numbers: each connection and each queue gets its share of the service."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.broker.net.turns import Jobs, Turns
from rmqcli.broker.services import holds as module
from rmqcli.broker.services.holds import Hold, Holds
from rmqcli.codec.core.record_writer import NO_LIMIT, QueueRun, Run

MANY = 500


@pytest.fixture(autouse=True)
def every_step_costs_a_turn(monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock) -> None:
    monkeypatch.setattr("rmqcli.broker.net.turns.TURN_SECONDS", 0)


def hold(
    session: object, queue_id: int = 0, *, offset: int = 0, seconds: float = 1000, **fields: Any
) -> Hold:
    return Hold(session, None, "T", queue_id, offset, trio.current_time() + seconds, **fields)


def arrival(queue_id: int = 0, offset: int = 0, tags_code: int = 0) -> QueueRun:
    stored = QueueRun("T", b"\x01T", 0, queue_id, offset, NO_LIMIT)
    Run(bytes(8), 0, 0).note(stored, 0, 100, 0, b"", tags_code, [])
    return stored


class Service:
    """The service, and the pulls that it answered."""

    def __init__(self, nursery: trio.Nursery, **bounds: int) -> None:
        self.answered: list[Hold] = []
        jobs = Jobs(Turns())
        self.holds = Holds(self.answered.append, jobs, **bounds)
        nursery.start_soon(self.holds.run)
        nursery.start_soon(jobs.run)

    def arrived(self, *stored: QueueRun) -> None:
        for one in stored:
            self.holds.arrived(one)

    def fill(self, session: object, first_queue: int = 1, **fields: Any) -> list[Hold]:
        held = [hold(session, first_queue + number, **fields) for number in range(MANY)]
        assert all(map(self.holds.hold, held))
        return held


async def rounds(count: int) -> None:
    for _ in range(count):
        await trio.lowlevel.checkpoint()


async def test_a_pull_is_answered_soon_while_another_connection_has_many_to_answer(
    nursery: trio.Nursery,
) -> None:
    service = Service(nursery)
    service.fill("hog")
    service.holds.hold(meek := hold("meek"))
    await rounds(3)
    service.arrived(*(arrival(number) for number in range(1, MANY + 1)))
    service.arrived(arrival(0))
    await trio.testing.wait_all_tasks_blocked()
    assert len(service.answered) == MANY + 1
    assert service.answered.index(meek) <= 2


async def test_a_pull_is_answered_soon_while_many_of_another_queue_do_not_match(
    nursery: trio.Nursery,
) -> None:
    service = Service(nursery, max_of_queue=MANY)
    for _ in range(MANY):
        service.holds.hold(hold("hog", 1, accepts=frozenset({5})))
    service.holds.hold(meek := hold("meek"))
    await rounds(3)
    service.arrived(arrival(1), arrival(0))
    await rounds(20)
    assert service.answered == [meek]


async def test_a_pull_is_answered_soon_after_a_connection_with_many_has_ended(nursery: trio.Nursery) -> None:
    service = Service(nursery)
    service.fill("hog")
    service.fill("expiring", seconds=2)
    service.holds.hold(meek := hold("meek"))
    await rounds(3)
    service.holds.drop_session("hog")
    assert len(service.holds) == MANY + 1
    service.arrived(arrival(0))
    await rounds(20)
    assert service.answered == [meek]


async def test_many_pulls_are_over_in_steps(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    service = Service(nursery)
    service.fill("hog", seconds=2)
    service.holds.hold(meek := hold("meek"))
    await rounds(3)
    mock_clock.jump(3)
    await rounds(20)
    assert 0 < len(service.answered) < MANY
    service.arrived(arrival(0))
    await rounds(20)
    assert meek in service.answered
    assert len(service.answered) < MANY
    await trio.testing.wait_all_tasks_blocked()
    assert len(service.answered) == MANY + 1


async def test_what_ends_while_it_is_answered_is_answered_no_more(nursery: trio.Nursery) -> None:
    service = Service(nursery)
    service.fill("hog")
    await rounds(3)
    service.arrived(*(arrival(number) for number in range(1, MANY + 1)))
    await rounds(MANY)
    service.holds.drop_session("hog")
    count = len(service.answered)
    await trio.testing.wait_all_tasks_blocked()
    assert (len(service.answered), len(service.holds)) == (count, 0)
    assert service.holds.hold(hold("hog", 1))
    service.arrived(arrival(1))
    await trio.testing.wait_all_tasks_blocked()
    assert len(service.answered) == count + 1


async def test_pulls_that_are_left_count_until_they_are_forgotten(nursery: trio.Nursery) -> None:
    service = Service(nursery, max_holds=MANY)
    service.fill("hog")
    service.holds.drop_session("hog")
    assert not service.holds.hold(hold("meek"))
    await trio.testing.wait_all_tasks_blocked()
    assert service.holds.hold(hold("meek"))


async def test_more_arrivals_than_are_kept_wake_every_pull(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ARRIVALS", 3)
    service = Service(nursery)
    wants = [hold(name, accepts=frozenset({5})) for name in "ab"]
    wants.append(hold("c", offset=9, accepts=frozenset({5})))
    for one in wants:
        service.holds.hold(one)
    service.arrived(*(arrival(offset=offset) for offset in range(3)))
    await trio.testing.wait_all_tasks_blocked()
    assert service.answered == []
    service.arrived(*(arrival(offset=offset) for offset in range(3, 8)))
    await trio.testing.wait_all_tasks_blocked()
    assert service.answered == wants[:2]


async def test_one_connection_holds_few_pulls_of_one_queue(nursery: trio.Nursery) -> None:
    service = Service(nursery, max_of_queue=2)
    assert [service.holds.hold(hold(name)) for name in ("a", "a", "a", "b")] == [True, True, False, True]
