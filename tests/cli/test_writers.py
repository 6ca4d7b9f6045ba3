"""Who writes to a topic that is to be deleted, on the in-memory cluster and its virtual clock."""

from __future__ import annotations

from typing import Any

import trio

from rmqcli import broker
from rmqcli.client import Admin, Producer
from rmqcli.codec.message import Message
from rmqcli.plans.topics import ACTIVE_MS, writing

TOPIC = "orders"


async def test_producers_that_sent_lately_are_named(autojump_clock: Any) -> None:
    async with broker.embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:

        async def asked() -> Any:
            return await writing(admin, await admin.topics.stats(TOPIC))

        await admin.topics.create(TOPIC, read_queues=2, write_queues=2)
        assert await asked() is None
        async with (
            Producer("billing", **cluster.client()) as connected,
            Producer("silent", **cluster.client()),
        ):
            await connected.send(Message.of(TOPIC, b"x"))
            async with Producer("audit", **cluster.client()) as gone:
                await gone.send(Message.of(TOPIC, b"y"))
            await trio.sleep(31)
            found = await asked()
            assert found is not None
            assert round(found.ago) == 31
            name = f"{connected.instance.client_id} (billing)"
            assert name in found.by
            (address,) = {*found.by} - {name}
            assert address.rpartition(":")[2].isdigit(), "of one that is not connected any more"
            assert str(found) == f"last 31 s ago, by {found.by[0]}, {found.by[1]}"
        await trio.sleep(ACTIVE_MS / 1000)
        assert await asked() is None
