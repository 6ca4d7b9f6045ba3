"""Cancellation at every step of an application: no acknowledgement is lost, no task survives."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import trio
from trio._core import _run

from rmqcli.client import ClientInstance, ConsumeResult, InvalidRequest, OrderlyResult
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import MessageExt
from tests.client.push.consuming import DONE, GROUP, LATER, TOPIC, Taken, consumer
from tests.client.tasks import CancelAt, tasks
from tests.client.watched_cluster import NAMESRV, WatchedCluster, now_ms, open_cluster
from tests.scheduling import seed_scheduler

MESSAGES = 6
REFUSED = 3
"""The message that the listener refuses at first."""
BOUND = 10.0
NEVER = sys.maxsize
"""A step that no run reaches."""


class Listener:
    """Refuses one message, and consumes all others after a moment."""

    def __init__(self, orderly: bool) -> None:
        self.acknowledged: set[int] = set()
        self.enough = trio.Event()
        self._done: Any = OrderlyResult.SUCCESS if orderly else DONE
        self._later: Any = OrderlyResult.SUSPEND if orderly else LATER

    async def __call__(self, messages: list[MessageExt], context: Any) -> Any:
        await trio.sleep(0.01)
        number = int(messages[0].body)
        if number == REFUSED and not messages[0].reconsume_times:
            return self._later
        self.acknowledged.add(number)
        if len(self.acknowledged) == MESSAGES:
            self.enough.set()
        return self._done


def first_missing(numbers: set[int]) -> int:
    return next(number for number in range(MESSAGES + 1) if number not in numbers)


def check(cluster: WatchedCluster, listener: Listener, orderly: bool) -> None:
    stored = cluster.committed(GROUP, TOPIC).get(0, 0)
    sent_back = {REFUSED} if cluster.count(RequestCode.CONSUMER_SEND_MSG_BACK) else set[int]()
    # A message may have been sent back without an answer yet: then it comes twice, but it comes.
    assert first_missing(listener.acknowledged) <= stored or (not orderly and REFUSED in sent_back)
    assert stored <= first_missing(listener.acknowledged | sent_back)
    if not sent_back:
        assert stored == first_missing(listener.acknowledged)
    assert not cluster.locked(GROUP, *(cluster.queue(TOPIC, number) for number in range(2)))
    assert not cluster.members(GROUP)


async def rest_of(cluster: WatchedCluster, listener: Listener, orderly: bool) -> None:
    """The next member of the group receives every unacknowledged message: none is lost or stuck."""
    if not listener.enough.is_set():
        async with consumer(cluster, listener, "c2", orderly=orderly, consumers=2):
            with trio.fail_after(60):
                await listener.enough.wait()
    assert listener.acknowledged == set(range(MESSAGES))


async def run_until(step: int | str, cluster: WatchedCluster, listener: Listener, orderly: bool) -> list[str]:
    """Runs a consumer, cancelled at `step` of its tasks.

    Returns the task of each step until then; none if the consumer left by itself.
    """
    with trio.CancelScope() as scope:
        instrument = CancelAt(scope, step, trio.lowlevel.current_task())
        trio.lowlevel.add_instrument(instrument)
        try:
            async with consumer(cluster, listener, orderly=orderly, consumers=2, persist_interval=0.1):
                with trio.move_on_after(25):
                    await listener.enough.wait()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return instrument.steps if scope.cancelled_caught or step == NEVER else []


async def application(orderly: bool, step: int | str) -> list[str]:
    """Cancels a run at `step` and checks what it leaves behind; returns what `run_until` does."""
    _run._r.seed(7)
    taken: list[str] = []
    async with open_cluster({TOPIC: 2}) as cluster:
        cluster.put_many(cluster.queue(TOPIC), [b"%d" % number for number in range(MESSAGES)])
        await trio.testing.wait_all_tasks_blocked()
        before, sessions = tasks(), cluster.sessions()
        listener, begun = Listener(orderly), trio.current_time()

        async def run() -> None:
            nonlocal taken
            taken = await run_until(step, cluster, listener, orderly)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
        ended = trio.current_time()
        await trio.testing.wait_all_tasks_blocked()
        # The other ends of all connections have seen them end
        assert cluster.sessions() == sessions
        assert tasks() == before
        if step != NEVER:
            assert ended - begun < BOUND + 25
        check(cluster, listener, orderly)
        await rest_of(cluster, listener, orderly)
    return taken


KINDS = {
    "_persist_for_ever",
    "_read",
    "_run",
    "_sample_for_ever",
    "_shelter",
    "_watch",
    "_write",
    "heartbeats",
    "pulls",
    "rebalance",
}
"""Tasks of a consumer, each of which must have been cancelled at least once."""
STRIDE = 5


def kinds_of(names: list[str]) -> set[str]:
    """Returns the names of tasks without their numbers."""
    return {re.sub(r" [0-9]+$", "", name) for name in names}


@pytest.mark.parametrize("orderly", [False, True])
async def test_cancelled_at_every_step(
    autojump_clock: Any, orderly: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """`make crash` takes every step, other runs one in `STRIDE` and the first of each task."""
    seed_scheduler(monkeypatch, 7)
    stride = min(request.config.getoption("--errors-step"), STRIDE)
    steps = await application(orderly, NEVER)
    kinds = set[str]()
    for step in range(1, len(steps) + 1, stride):
        taken = await application(orderly, step)
        # A consumer that leaves by itself is not disturbed any more.
        assert len(taken) == step or (not taken and step > len(steps) / 2)
        kinds |= kinds_of(taken[-1:])
    # Runs differ in the order of what is ready at the same time, so a task is not always at the same step.
    for task in steps:
        if not kinds >= kinds_of([task]):
            kinds |= kinds_of((await application(orderly, task))[-1:])
    assert kinds >= KINDS | ({"order", "queue locks"} if orderly else {"consumer", "_send"})


async def test_cancelled_while_a_listener_runs_it_ends_within_the_grace(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    running = trio.Event()

    async def forever(messages: list[MessageExt], context: Any) -> ConsumeResult:
        running.set()
        await trio.sleep_forever()

    with trio.CancelScope() as scope:
        async with consumer(cluster, forever):
            await running.wait()
            scope.cancel()
            await trio.sleep_forever()
    assert trio.current_time() == pytest.approx(3.0, abs=0.1)
    assert cluster.committed(GROUP, TOPIC).get(0, 0) == 0


async def test_cancelled_while_all_brokers_are_silent(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with trio.open_nursery() as nursery:
        made = consumer(cluster, Taken(), orderly=True)

        async def application() -> None:
            async with made:
                await trio.sleep_forever()

        nursery.start_soon(application)
        await trio.sleep(10)
        cluster.put(cluster.queue(TOPIC), b"x")
        await trio.sleep(1)
        cluster.silent = True
        nursery.cancel_scope.cancel()
    assert trio.current_time() < 11 + BOUND


async def test_a_failure_inside_ends_the_block(cluster: WatchedCluster, autojump_clock: Any) -> None:
    def clock() -> int:
        if trio.current_time() >= 5:
            raise RuntimeError("broken")
        return now_ms()

    with pytest.raises(BaseExceptionGroup) as caught:
        async with consumer(cluster, Taken(), clock=clock, long_poll=1.0):
            await trio.sleep_forever()
    assert caught.group_contains(RuntimeError, match="broken")
    assert trio.current_time() < 5 + BOUND


async def test_entered_once(cluster: WatchedCluster, autojump_clock: Any) -> None:
    made = consumer(cluster, Taken())
    async with made:
        await trio.sleep(1)
    with pytest.raises(InvalidRequest, match="once"):
        async with made:
            pytest.fail("entered twice")


async def test_cancelled_while_it_starts_it_leaves_no_group_in_a_shared_instance(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async with ClientInstance(NAMESRV, open_stream=cluster.open_stream) as instance:
        entered = False
        for step in range(1, 1000):
            with trio.CancelScope() as scope:
                instrument = CancelAt(scope, step, trio.lowlevel.current_task())
                trio.lowlevel.add_instrument(instrument)
                try:
                    async with consumer(cluster, Taken(), instance=instance):
                        entered = True
                finally:
                    trio.lowlevel.remove_instrument(instrument)
            await trio.sleep(1)
            beats = cluster.count(RequestCode.HEART_BEAT)
            await trio.sleep(61)
            assert cluster.count(RequestCode.HEART_BEAT) == beats, step
            if entered:
                break
        assert step > 10
