"""A typed program against the clients of the three styles."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from rmqcli.client import (
    ConsumeContext,
    ConsumeResult,
    Message,
    MessageExt,
    OrderlyContext,
    OrderlyResult,
    SendResult,
    TransactionState,
    aio,
    sync,
)


def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
    return ConsumeResult.SUCCESS


def in_order(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
    return OrderlyResult.SUCCESS


async def listen_async(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
    return ConsumeResult.SUCCESS


def check(half: MessageExt) -> TransactionState:
    return TransactionState.COMMIT_MESSAGE


def commit(half: Message) -> TransactionState:
    return TransactionState.COMMIT_MESSAGE


def threads() -> list[str]:
    message = Message.of("orders", b"x")
    with sync.Producer("shop", namesrv="localhost:9876", retries=3) as producer:
        result: SendResult = producer.send(message, timeout=3.0)
        future: Future[SendResult] = producer.send_soon(message)
        reply: MessageExt = producer.request(message)
        print(result.msg_id, future.result().msg_id, reply.body)
    with sync.TransactionProducer("shop", check) as transactions:
        print(transactions.send_in_transaction(message, commit).state.name)
    with (
        sync.PushConsumer("group", {"orders": "*"}, listen),
        sync.PushConsumer("other", {"orders": "*"}, in_order, orderly=True),
    ):
        pass
    with sync.LitePullConsumer("group") as consumer:
        consumer.subscribe("orders")
        bodies: list[bytes] = [one.body for one in consumer.poll(timeout=1.0)]
        print(bodies)
    with sync.SimpleConsumer("group", {"orders": "*"}) as simple:
        for one in simple.receive(max_messages=16, invisible_duration=30.0):
            simple.ack(one)
    with sync.Admin() as admin:
        admin.topics.create("orders", read_queues=1, write_queues=1)
        return admin.topics.names()


async def on_asyncio() -> list[str]:
    message = Message.of("orders", b"x")
    async with aio.Producer("shop", namesrv="localhost:9876", retries=3) as producer:
        result: SendResult = await producer.send(message, timeout=3.0)
        future: asyncio.Future[SendResult] = await producer.send_soon(message)
        print(result.msg_id, (await future).msg_id)
    async with (
        aio.PushConsumer("group", {"orders": "*"}, listen_async),
        aio.PushConsumer("g", {"orders": "*"}, listen),
    ):
        pass
    async with aio.LitePullConsumer("group") as consumer:
        await consumer.subscribe("orders")
        bodies: list[bytes] = [one.body for one in await consumer.poll(timeout=1.0)]
        print(bodies)
    async with aio.SimpleConsumer("group", {"orders": "*"}) as simple:
        for one in await simple.receive(max_messages=16, invisible_duration=30.0):
            await simple.ack(one)
    async with aio.Admin() as admin:
        return await admin.topics.names()
