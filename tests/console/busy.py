"""An in-memory cluster with something of everything that the console shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import trio

from rmqcli.broker.testing.in_memory import MemoryCluster, embedded_in_memory
from rmqcli.client import Admin, ConsumeResult, Producer, PushConsumer
from rmqcli.client.group.settings import PushSettings
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue

FIRST = MessageQueue("orders", "broker-a", 0)


class Busy(NamedTuple):
    """Group `billing` has consumed all of `orders`, which `audit` has not and has no client for. `mailers` has a dead
    letter. The sends are traced.
    """

    cluster: MemoryCluster
    admin: Admin
    producer: Producer
    message_id: str


@asynccontextmanager
async def busy(orders: int = 12, **settings: Any) -> AsyncIterator[Busy]:
    """Run the cluster inside the block, with settings of the broker."""
    done = trio.Event()
    consumed = 0

    async def bill(messages: list[MessageExt], _: Any) -> ConsumeResult:
        nonlocal consumed
        consumed += len(messages)
        if consumed == orders:
            done.set()
        return ConsumeResult.SUCCESS

    async def fail(_: list[MessageExt], __: Any) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER

    async with (
        embedded_in_memory(**settings) as cluster,
        Admin(**cluster.client() | {"timeout": 1.0}) as admin,
        Producer("shops", **cluster.client(), trace=True) as producer,
    ):
        for topic in ("orders", "mails"):
            await admin.topics.create(topic)
        for number in range(orders):
            body = b'{"order": %d, "customer": "Ann Lee"}' % number
            message = Message.of(
                "orders", body, keys=f"order-{number}", tags="paid", properties={"shop": "berlin"}
            )
            sent = await producer.send(message, queue=FIRST)
        await admin.offsets.commit(FIRST, 3, "audit")
        await producer.send(Message.of("mails", b"to nobody", keys="mail-1"))
        first = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        letters = replace(first, max_reconsume_times=0)
        async with (
            PushConsumer("billing", {"orders": "*"}, bill, **cluster.client(), settings=first),
            PushConsumer("mailers", {"mails": "*"}, fail, **cluster.client(), settings=letters),
        ):
            with trio.fail_after(60):
                await done.wait()
                while "%DLQ%mailers" not in await admin.topics.names():  # noqa: ASYNC110
                    await trio.sleep(0.1)
            yield Busy(cluster, admin, producer, sent.msg_id)
