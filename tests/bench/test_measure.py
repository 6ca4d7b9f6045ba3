"""Benchmarks of a cluster in memory, on the virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock

from rmqcli.bench.measure import KINDS, PREFIX, Place, measure
from rmqcli.bench.running import Load, Pace, Tally, run
from rmqcli.broker.testing.in_memory import LOST, Lost, embedded_in_memory
from rmqcli.client import Admin, InvalidRequest, NoRoute, PullConsumer
from rmqcli.codec.codes import Perm, RequestCode, ResponseCode
from rmqcli.codec.remoting.command import RemotingCommand

LIMIT = 3.0


@dataclass
class Trouble:
    """What becomes of sends: seconds of delay by their number, numbers that are lost or refused."""

    delays: dict[int, float] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    sends: int = 0
    pulls_lost: bool = False

    async def __call__(self, address: str, request: RemotingCommand) -> RemotingCommand | Lost | None:
        if request.code == RequestCode.PULL_MESSAGE and self.pulls_lost:
            return LOST
        if request.code != RequestCode.SEND_MESSAGE_V2:
            return None
        number, self.sends = self.sends, self.sends + 1
        await trio.sleep(self.delays.get(number, 0))
        if number in self.refused:
            return request.reply(ResponseCode.NO_PERMISSION, "no")
        return LOST if number in self.lost else None


@pytest.fixture
def trouble() -> Trouble:
    return Trouble()


@pytest.fixture
async def admin(autojump_clock: MockClock, trouble: Trouble) -> AsyncIterator[Admin]:
    async with (
        embedded_in_memory(on_request=trouble) as cluster,
        Admin(**cluster.client() | {"timeout": LIMIT}) as made,
    ):
        yield made


def load(
    rate: float = 10.0, count: int | None = 20, seconds: float | None = None, in_flight: int = 8
) -> Load:
    return Load(Pace(rate, count, seconds), in_flight, 64)


async def test_operations_keep_their_pace(autojump_clock: MockClock) -> None:
    times: list[float] = []

    async def operation(number: int, due: float) -> int:
        times.append(trio.current_time() - begun)
        await trio.sleep(0.25)
        return 3

    tally, begun = Tally(), trio.current_time()
    await run(Pace(10, count=5), 8, operation, tally)
    assert times == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert (tally.done, tally.messages, round(tally.seconds, 6)) == (5, 15, 0.65)
    assert tally.latency.summary()["max"] == tally.service.summary()["min"] == 250_000


async def test_a_stall_counts_for_all_that_it_delays(autojump_clock: MockClock) -> None:
    """Two places, and the first two operations stall for a second: the others wait, though each is quick."""

    async def operation(number: int, due: float) -> int:
        await trio.sleep(1.0 if number < 2 else 0.001)
        return 1

    tally = Tally()
    await run(Pace(10, count=10), 2, operation, tally)
    assert tally.service.percentile(50) == 1000
    assert tally.latency.summary()["p50"] == pytest.approx(500_000, rel=0.1)
    assert tally.not_started == 0


async def test_what_finds_no_room_before_the_end_is_counted(autojump_clock: MockClock) -> None:
    async def operation(number: int, due: float) -> int:
        await trio.sleep(1.0)
        return 1

    tally = Tally()
    await run(Pace(10, seconds=2.0), 1, operation, tally)
    assert (tally.due, tally.done, tally.not_started) == (20, 2, 18)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind(autojump_clock: MockClock, admin: Admin, kind: str) -> None:
    tally = await measure(admin, kind, Place(), load())
    assert (tally.done, tally.failed, tally.not_started) == (20, {}, 0)
    assert 1.9 <= tally.seconds < 2.1
    assert tally.messages == (640 if kind == "consume" else 20)
    assert not [name for name in await admin.topics.names() if name.startswith(PREFIX)]


async def test_failures_are_counted_by_kind(
    autojump_clock: MockClock, admin: Admin, trouble: Trouble
) -> None:
    trouble.lost, trouble.refused = {3, 4}, {5, 6, 7}  # number 0 opens the connection
    tally = await measure(admin, "send", Place(), load())
    assert tally.failed == {"timedOut": 2, "refused": 3}
    assert (tally.done, tally.latency.count, trouble.sends) == (15, 15, 21)
    assert set(tally.errors) == {"timedOut", "refused"}


async def test_messages_that_do_not_arrive(autojump_clock: MockClock, admin: Admin, trouble: Trouble) -> None:
    trouble.pulls_lost = True
    tally = await measure(admin, "e2e", Place(), load(count=3))
    assert (tally.done, tally.failed) == (0, {"notReceived": 3})


async def test_a_round_trip_counts_from_its_time(
    autojump_clock: MockClock, admin: Admin, trouble: Trouble
) -> None:
    trouble.delays = {1: 0.5}  # requests behind it on the connection wait, too
    tally = await measure(admin, "e2e", Place(), load())
    summary = tally.latency.summary()
    assert 500_000 <= summary["max"] < 520_000
    assert sum(bucket.count for bucket in tally.latency.buckets() if bucket.begin > 90_000) == 5


async def test_an_existing_topic_stays(autojump_clock: MockClock, admin: Admin) -> None:
    with pytest.raises(NoRoute):
        await measure(admin, "send", Place("mine"), load())
    await admin.topics.create("mine", perm=Perm.READ)
    with pytest.raises(InvalidRequest, match="no queue"):
        await measure(admin, "send", Place("mine"), load())
    await admin.topics.create("mine", read_queues=2, write_queues=2)
    with pytest.raises(InvalidRequest, match="no message"):
        await measure(admin, "consume", Place("mine"), load())
    assert (await measure(admin, "send", Place("mine"), load())).done == 20
    assert (await measure(admin, "consume", Place("mine"), load())).messages > 20
    assert "mine" in await admin.topics.names()
    async with PullConsumer(instance=admin.instance) as consumer:
        ends = [await consumer.max_offset(queue) for queue in await consumer.message_queues("mine")]
    assert sum(ends) == 21


async def test_a_cancelled_run_removes_its_topic(autojump_clock: MockClock, admin: Admin) -> None:
    with trio.move_on_after(0.55) as scope:
        await measure(admin, "send", Place(), load())
    assert scope.cancelled_caught
    assert not [name for name in await admin.topics.names() if name.startswith(PREFIX)]
