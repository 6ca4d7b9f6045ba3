"""An application that is cancelled at every point in turn: nothing acknowledged is lost, nothing goes on."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from codec.message import MessageExt
from rmqcli.client import OrderlyResult
from tests.client.push.consuming import DONE, GROUP, TOPIC, consumer
from tests.client.push.model_broker import ModelCluster

MESSAGES = 6
BOUND = 10.0
ORDERLY, CONCURRENT = True, False


class CancelAt(trio.abc.Instrument):
    """Cancels a scope before the n-th step that any task takes from now on."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope = scope
        self._left = step

    def before_task_step(self, task: Any) -> None:
        self._left -= 1
        if self._left == 0:
            trio.lowlevel.current_trio_token().run_sync_soon(self._scope.cancel)


async def application(orderly: bool, step: int) -> bool:
    """One run, cancelled at `step`; whether it was still running then."""
    async with trio.open_nursery() as nursery:
        cluster = ModelCluster(nursery, {TOPIC: 2})
        cluster.put_many(cluster.queue(TOPIC), [b"%d" % number for number in range(MESSAGES)])
        acknowledged: set[int] = set()
        enough = trio.Event()

        async def listener(messages: list[MessageExt], context: Any) -> Any:
            await trio.sleep(0.01)
            acknowledged.add(int(messages[0].body))
            if len(acknowledged) == MESSAGES:
                enough.set()
            return DONE_OF[orderly]

        begun = trio.current_time()
        before = set(trio.lowlevel.current_root_task().child_nurseries)
        with trio.CancelScope() as scope:
            instrument = CancelAt(scope, step)
            trio.lowlevel.add_instrument(instrument)
            try:
                async with consumer(cluster, listener, orderly=orderly, consumers=2, persist_interval=0.1):
                    await enough.wait()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        assert set(trio.lowlevel.current_root_task().child_nurseries) == before
        await trio.testing.wait_all_tasks_blocked()
        stored = cluster.offsets.get((GROUP, cluster.queue(TOPIC)), 0)
        prefix = next(number for number in range(MESSAGES + 1) if number not in acknowledged)
        assert stored == prefix, (
            f"cancelled at step {step}: {sorted(acknowledged)} acknowledged, {stored} stored"
        )
        assert not cluster.locks
        assert not cluster.members["a"].get(GROUP)
        # The other ends of all connections have seen them end
        assert not [task for task in nursery.child_tasks if "_serve" in task.name], f"at step {step}"
        assert trio.current_time() - begun < BOUND
        nursery.cancel_scope.cancel()
    return scope.cancelled_caught


DONE_OF: dict[bool, Any] = {CONCURRENT: DONE, ORDERLY: OrderlyResult.SUCCESS}


@pytest.mark.parametrize("orderly", [CONCURRENT, ORDERLY])
async def test_cancelled_at_every_step(autojump_clock: Any, orderly: bool) -> None:
    step = 1
    while await application(orderly, step):
        step += 1
    assert step > 100
