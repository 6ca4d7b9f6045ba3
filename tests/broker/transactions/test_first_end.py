"""The first end of a transaction has to wait for a file of the op queue; the message is stored once."""

from __future__ import annotations

import trio

from rmqcli import broker
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.client import PullConsumer, TransactionProducer, TransactionState
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.remoting.command import RemotingCommand


async def commit(_message: Message) -> TransactionState:
    return TransactionState.COMMIT_MESSAGE


async def never(_message: MessageExt) -> TransactionState:
    raise AssertionError("every transaction was decided")


async def test_the_first_commit_is_stored_once(autojump_clock: trio.abc.Clock) -> None:
    ends: list[RemotingCommand] = []

    async def watch(_address: str, request: RemotingCommand) -> None:
        if request.code == RequestCode.END_TRANSACTION:
            ends.append(request)

    async with broker.embedded_in_memory(on_request=watch) as cluster:
        async with TransactionProducer("bank", never, **cluster.client()) as producer:
            for body in (b"1", b"2"):
                await producer.send_in_transaction(Message.of("transfers", body), commit)
            await trio.sleep(300)
        async with PullConsumer("reader", **cluster.client()) as consumer:
            queues = await consumer.message_queues("transfers")
            assert sum([await consumer.max_offset(queue) for queue in queues]) == 2
    assert len(ends) == 2


async def test_a_producer_that_disconnects_at_once_ends_its_transaction(
    autojump_clock: trio.abc.Clock,
) -> None:
    disk = SimulatedDisk()

    async def watch(_address: str, request: RemotingCommand) -> None:
        if request.code == RequestCode.END_TRANSACTION:
            disk.call_seconds = 1  # the op queue has no file yet

    async with broker.embedded_in_memory(on_request=watch, disk=disk) as cluster:
        async with TransactionProducer("bank", never, **cluster.client()) as producer:
            await producer.send_in_transaction(Message.of("transfers", b"1"), commit)
        await trio.sleep(30)
        async with PullConsumer("reader", **cluster.client()) as consumer:
            queues = await consumer.message_queues("transfers")
            assert sum([await consumer.max_offset(queue) for queue in queues]) == 1
            ops = MessageQueue(SystemTopic.TRANS_OP_HALF, queues[0].broker_name, 0)
            assert await consumer.max_offset(ops) == 1
