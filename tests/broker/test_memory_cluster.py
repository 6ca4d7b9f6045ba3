"""Clusters in memory on the virtual clock: real clients and brokers, and injected faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.errors import ConfigError
from rmqcli.client import (
    Admin,
    BrokerRefused,
    ConnectionFailed,
    ConnectionLost,
    ConsumeResult,
    Producer,
    PullConsumer,
    PushConsumer,
    RequestTimeout,
    SendStatus,
)
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand

TOPIC = "T"
SEND = RequestCode.SEND_MESSAGE_V2
QUEUE = MessageQueue(TOPIC, "broker-a", 0)


def fate(code: int, verdict: Callable[[RemotingCommand], Awaitable[Any]]) -> broker.OnRequest:
    """Decides what happens to the requests of one code."""

    async def on_request(address: str, request: RemotingCommand) -> Any:
        return await verdict(request) if request.code == code else None

    return on_request


async def test_half_an_hour_passes_at_once(autojump_clock: Any) -> None:
    heard: list[tuple[float, bytes]] = []
    came = trio.Event()

    async def listen(messages: list[Any], context: Any) -> ConsumeResult:
        heard.extend((trio.current_time(), message.body) for message in messages)
        came.set()
        return ConsumeResult.SUCCESS

    async with broker.embedded_in_memory() as cluster:
        async with PushConsumer("G", {TOPIC: "*"}, listen, **cluster.client()):
            async with Producer(**cluster.client()) as producer:
                await producer.send(Message.of(TOPIC, b"later", delay_level=16))
            await came.wait()
        ((at, body),) = heard
        assert body == b"later"
        assert at == pytest.approx(1800, abs=1)
        assert cluster.now_ms() == 1_700_000_000_000 + round(trio.current_time() * 1000)


async def test_a_program_repeats_with_the_same_times(autojump_clock: Any) -> None:
    """Only times are compared: trio shuffles tasks that run at the same time."""

    async def run() -> set[tuple[float, str, int]]:
        begun = trio.current_time()
        seen: set[tuple[float, str, int]] = set()

        async def watch(address: str, request: RemotingCommand) -> None:
            seen.add((round(trio.current_time() - begun, 3), address, request.code))

        async def listen(messages: list[Any], context: Any) -> ConsumeResult:
            return ConsumeResult.RECONSUME_LATER

        async with broker.embedded_in_memory(on_request=watch) as cluster:
            async with Producer(**cluster.client()) as producer:
                await producer.send(Message.of(TOPIC, b"x"))
            async with PushConsumer("G", {TOPIC: "*"}, listen, **cluster.client()):
                await trio.sleep(100.5)
        return seen

    first = await run()
    assert len(first) > 20
    assert await run() == first


async def test_a_lost_request_gets_no_reply(autojump_clock: Any) -> None:
    waiting = [broker.LOST]

    async def lost(request: RemotingCommand) -> Any:
        return waiting.pop() if waiting else None

    async with (
        broker.embedded_in_memory(on_request=fate(SEND, lost)) as cluster,
        Producer(send_timeout=2.5, **cluster.client()) as producer,
    ):
        begun = trio.current_time()
        with pytest.raises(RequestTimeout):
            await producer.send(Message.of(TOPIC, b"x"))
        assert trio.current_time() - begun == pytest.approx(2.5)
        # what is behind it on the connection goes on
        assert (await producer.send(Message.of(TOPIC, b"x"))).queue_offset == 0


async def test_a_reply_replaces_that_of_the_broker(autojump_clock: Any) -> None:
    async def busy(request: RemotingCommand) -> Any:
        return request.reply(ResponseCode.SYSTEM_BUSY, "not now")

    async with (
        broker.embedded_in_memory(on_request=fate(SEND, busy)) as cluster,
        Producer(**cluster.client()) as producer,
    ):
        with pytest.raises(BrokerRefused, match="not now"):
            await producer.send(Message.of(TOPIC, b"x"))
        async with PullConsumer(instance=producer.instance) as consumer:
            assert await consumer.max_offset(QUEUE) == 0


async def test_a_delayed_request(autojump_clock: Any) -> None:
    async def slow(request: RemotingCommand) -> Any:
        await trio.sleep(2)

    async with (
        broker.embedded_in_memory(on_request=fate(SEND, slow)) as cluster,
        Producer(**cluster.client()) as producer,
    ):
        begun = trio.current_time()
        assert (await producer.send(Message.of(TOPIC, b"x"))).status is SendStatus.SEND_OK
        assert trio.current_time() - begun == pytest.approx(2)


async def test_replies_of_the_test_are_sent_between_complete_replies(autojump_clock: Any) -> None:
    """Pulls transfer megabytes over the connection that carries the other replies."""
    answered = 0

    async def answer(request: RemotingCommand) -> Any:
        nonlocal answered
        answered += 1
        return request.reply(ResponseCode.SUCCESS, None, {"offset": "77"})

    body = bytes(range(256)) * 8192
    async with (
        broker.embedded_in_memory(on_request=fate(RequestCode.GET_MAX_OFFSET, answer)) as cluster,
        Producer(compression=None, **cluster.client()) as producer,
    ):
        for _ in range(4):
            await producer.send(Message.of(TOPIC, body), queue=QUEUE)
        async with PullConsumer(instance=producer.instance) as consumer, trio.open_nursery() as nursery:

            async def ask() -> None:
                while True:
                    assert await consumer.max_offset(QUEUE) == 77

            nursery.start_soon(ask)
            for offset in range(4):
                result = await consumer.pull(QUEUE, offset, 1)
                assert [message.body == body for message in result.messages] == [True]
            nursery.cancel_scope.cancel()
    assert answered > 4


@pytest.mark.parametrize("hears", [False, True])
async def test_a_cut_breaks_connections_and_refuses_new_ones(autojump_clock: Any, hears: bool) -> None:
    async def watch(address: str, request: RemotingCommand) -> None:
        return None

    async with (
        broker.embedded_in_memory(on_request=watch if hears else None) as cluster,
        Producer(**cluster.client()) as producer,
    ):
        await producer.send(Message.of(TOPIC, b"x"), queue=QUEUE)
        async with PullConsumer(instance=producer.instance) as consumer, trio.open_nursery() as nursery:

            async def wait_for_a_message() -> None:
                with pytest.raises(ConnectionLost):
                    await consumer.pull_block_if_not_found(QUEUE, 1)
                assert trio.current_time() == pytest.approx(cut_at)

            nursery.start_soon(wait_for_a_message)
            await trio.sleep(1)
            cut_at = trio.current_time()
            cluster.cut(cluster.broker_address, 10)
        with pytest.raises(ConnectionFailed):
            await producer.send(Message.of(TOPIC, b"x"), queue=QUEUE)
        await trio.sleep(10.001)
        assert (await producer.send(Message.of(TOPIC, b"x"), queue=QUEUE)).queue_offset == 1


async def test_a_cut_of_an_unknown_address_is_an_error(autojump_clock: Any) -> None:
    async with broker.embedded_in_memory() as cluster:
        with pytest.raises(KeyError):
            cluster.cut("127.0.0.1:1")


async def test_a_second_broker_can_stop_and_return(autojump_clock: Any, tmp_path: Path) -> None:
    b: Any = {"broker_name": "broker-b", "store": tmp_path}
    async with (
        broker.embedded_in_memory(broker_name="broker-a") as cluster,
        Producer(**cluster.client()) as p,
    ):
        async with cluster.broker(**b) as second:
            assert second.broker_address != cluster.broker_address
            async with Admin(instance=p.instance) as admin:
                await admin.topics.create(TOPIC, read_queues=1, write_queues=1)
            sent = {(await p.send(Message.of(TOPIC, b"x"))).message_queue.broker_name for _ in range(4)}
            assert sent == {"broker-a", "broker-b"}
        await trio.sleep(31)
        sent = {(await p.send(Message.of(TOPIC, b"x"))).message_queue.broker_name for _ in range(4)}
        assert sent == {"broker-a"}
        async with cluster.broker(**b, listen_port=int(second.broker_address.split(":")[1])) as again:
            assert again.broker_address == second.broker_address
            await trio.sleep(31)
            result = await p.send(Message.of(TOPIC, b"x"), queue=MessageQueue(TOPIC, "broker-b", 0))
            assert result.queue_offset == 2


async def test_a_disk_that_takes_long(autojump_clock: Any) -> None:
    settings: Any = {"flush_disk_type": "SYNC_FLUSH", "sync_flush_timeout": 1000}
    settings["broker_fast_failure_enable"] = False
    async with (
        broker.embedded_in_memory(disk_seconds=2.0, **settings) as cluster,
        Producer(**cluster.client(), send_timeout=60) as producer,
    ):
        for _ in range(4):
            await producer.send(Message.of(TOPIC, b"creates the topic, and the file of a queue"))
        begun = trio.current_time()
        result = await producer.send(Message.of(TOPIC, b"x"))
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
        assert trio.current_time() - begun == pytest.approx(1)


async def test_an_exception_is_not_grouped(autojump_clock: Any) -> None:
    with pytest.raises(ConfigError, match="no broker property is called nonsense"):
        async with broker.embedded_in_memory(nonsense=1):
            pytest.fail("entered")
    with pytest.raises(LookupError, match="mine"):
        async with broker.embedded_in_memory():
            raise LookupError("mine")
    async with broker.embedded_in_memory() as cluster:
        port = int(cluster.broker_address.split(":")[1])
        with pytest.raises(OSError, match="in use"):
            async with cluster.broker(broker_name="broker-b", listen_port=port):
                pytest.fail("entered")


async def test_filters_are_had_without_threads(autojump_clock: Any) -> None:
    """The grammar is loaded at the start, while the clock stands still."""
    async with broker.embedded_in_memory(enable_property_filter=True):
        assert trio.current_time() == 0
