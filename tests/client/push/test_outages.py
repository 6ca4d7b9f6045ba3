"""What a consumer says of brokers that are lost for a while: a line for the loss, and one for the return."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from rmqcli import broker
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.client import Admin, ConsumeContext, ConsumeResult, Producer, PushConsumer
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.remoting.command import RemotingCommand


async def consume(_: list[MessageExt], __: ConsumeContext) -> ConsumeResult:
    return ConsumeResult.SUCCESS


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING and "rmqcli" in one.name
    ]


async def test_a_broker_that_cannot_be_reached_is_one_line(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker.embedded_in_memory() as cluster:
        async with Admin(**cluster.client()) as admin:
            await admin.topics.create("orders", read_queues=16, write_queues=16)
        async with PushConsumer("g", {"orders": "*"}, consume, **cluster.client()):
            await trio.sleep(30)
            cluster.cut(cluster.broker_address, 10)
            await trio.sleep(40)
    lost, back = lines(caplog)
    assert lost.startswith("broker broker-a is lost, its queues wait: ")
    assert back.startswith("broker broker-a is back after ")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_broker_that_the_name_server_forgets_is_one_line(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    """Nobody is advised to create a topic, not even for messages that are to be consumed again."""

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER if fails else ConsumeResult.SUCCESS

    async with broker.embedded_in_memory() as cluster, trio.open_nursery() as nursery:
        disk = SimulatedDisk(now_ms=cluster.now_ms, loses_power=False)

        async def run_b(
            stop: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
        ) -> None:
            async with cluster.broker(broker_name="broker-b", disk=disk, listen_port=11911):
                task_status.started()
                await stop.wait()

        await nursery.start(run_b, stop := trio.Event())
        async with Admin(**cluster.client()) as admin, Producer("p", **cluster.client()) as producer:
            await admin.topics.create("orders", read_queues=8, write_queues=8, brokers=["broker-b"])
            for _ in range(8):
                await producer.send(Message(topic="orders", body=b"x"))
        async with PushConsumer("g", {"orders": "*"}, listen, **cluster.client()):
            await trio.sleep(30)
            caplog.clear()
            stop.set()
            await trio.sleep(60)
            await nursery.start(run_b, stop := trio.Event())
            await trio.sleep(60)
        stop.set()
    found = lines(caplog)
    assert not [line for line in found if "create" in line]
    assert len([line for line in found if "broker-b is lost" in line]) == 1
    assert len([line for line in found if "broker-b is back" in line]) == 1
    assert len(found) == 2, found


async def test_a_refusal_is_told_once_for_each_queue_until_it_works(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = [True]

    async def refused(_: str, request: RemotingCommand) -> RemotingCommand | None:
        pulls = request.code == RequestCode.PULL_MESSAGE and (request.ext_fields or {})["topic"] == "orders"
        return request.reply(ResponseCode.NO_PERMISSION, "no") if pulls and refusing[0] else None

    async with broker.embedded_in_memory(on_request=refused) as cluster:
        async with Admin(**cluster.client()) as admin:
            await admin.topics.create("orders", read_queues=2, write_queues=2)
        async with PushConsumer("g", {"orders": "*"}, consume, **cluster.client()):
            await trio.sleep(60)
            refusing[0] = False
            await trio.sleep(60)
            refusing[0] = True
            await trio.sleep(60)
    found = lines(caplog)
    assert sorted(found) == sorted([found[0], found[1]] * 2) and len(set(found)) == 2
