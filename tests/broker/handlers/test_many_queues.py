"""Requests that look at many queues while pages of their records are not in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from broker.errors import NotReady
from tests.broker.support import Client, fake_broker

TOPIC, GROUP, QUEUES = "Many", "G", 20


async def _loaded() -> None:
    await trio.lowlevel.checkpoint()


def cold_once(lookup: Callable[[str, int, int], int], calls: Counter[int]) -> Callable[[str, int, int], int]:
    """The look-up of a store time, for which the disk is needed once a queue."""

    def store_time(topic: str, queue_id: int, offset: int) -> int:
        calls[queue_id] += 1
        if calls[queue_id] == 1:
            raise NotReady(_loaded)
        return lookup(topic, queue_id, offset)

    return store_time


async def _fill(client: Client) -> None:
    for queue_id in range(QUEUES):
        await client.send(TOPIC, b"x", queue_id=queue_id)
        fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id), "commitOffset": "1"}
        await client.ask(15, fields)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (202, {"topic": TOPIC}),
        (208, {"consumerGroup": GROUP}),
        (303, {"topic": TOPIC, "group": GROUP}),
        (317, {"isOrder": "false"}),
    ],
)
async def test_a_queue_is_not_looked_at_again_for_the_sake_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fields: dict[str, str]
) -> None:
    calls: Counter[int] = Counter()
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        header = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": QUEUES, "writeQueueNums": QUEUES}
        await client.ask(17, {name: str(value) for name, value in header.items()} | {"perm": "6"})
        await _fill(client)
        await client.ask(200, None, b'{"groupName":"G"}')
        store = broker.context.store
        monkeypatch.setattr(store, "store_time", cold_once(store.store_time, calls))
        assert (await client.ask(code, fields)).code == 0
    assert set(calls) == set(range(QUEUES))
    assert max(calls.values()) <= 3
