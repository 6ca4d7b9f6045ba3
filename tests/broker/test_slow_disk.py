"""A disk that takes 100 ms for every call delays only the requests that need it.

On the virtual clock a send of a bystander takes as long as it waited for others. Calls that the event loop
makes itself would stop everybody, whatever the clock says: the simulated disk counts them, and there must be
none.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli import broker
from rmqcli.broker.filters.compiler import LONG
from rmqcli.broker.store.segment import Mappings
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.client import (
    Admin,
    ConsumeContext,
    ConsumeResult,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    PushSettings,
)
from rmqcli.client.produce.transaction import TransactionProducer, TransactionState
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.headers.offsets import ResetOffsetRequestHeader
from rmqcli.codec.headers.send import ConsumerSendMsgBackRequestHeader
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.operations.messages import CONSUMER_SEND_MSG_BACK
from rmqcli.codec.operations.offsets import INVOKE_BROKER_TO_RESET_OFFSET

CALL_SECONDS = 0.1
BYSTANDER = MessageQueue("Bystander", "broker-a", 0)
BUSY = MessageQueue("Busy", "broker-a", 0)
SETTINGS: Any = {
    "mapped_file_size_commit_log": 256 * 1024,
    "mapped_file_size_consume_queue": 600_000,
    "transaction_check_interval": 3000,
    "transaction_time_out": 1000,
    "broker_fast_failure_enable": False,
}


async def sends(producer: Producer, count: int, pause: float, now: Callable[[], float]) -> list[float]:
    """Seconds that each of some sends took."""
    took = []
    for _ in range(count):
        begun = now()
        await producer.send(Message.of(BYSTANDER.topic, bytes(100)), queue=BYSTANDER)
        took.append(now() - begun)
        await trio.sleep(pause)
    return took


def p99(took: list[float]) -> float:
    return statistics.quantiles(took, n=100)[98]


async def keep_busy(cluster: broker.MemoryCluster, disk: SimulatedDisk) -> None:
    """Creates and deletes topics, rolls files, commits offsets, reads and queries cold pages."""
    async with (
        Producer(**cluster.client(), timeout=60, send_timeout=60) as producer,
        PullConsumer("G", **cluster.client(), timeout=60) as consumer,
        Admin(**cluster.client(), timeout=60) as admin,
    ):
        for n in range(1000):
            await producer.send(Message.of(f"Fresh{n}", b"x"))
            for _ in range(20):
                await producer.send(Message.of(BUSY.topic, bytes(3000), keys=f"k{n}"), queue=BUSY)
            disk.forget_pages()
            await trio.sleep(1.1)
            pulled = await consumer.pull(BUSY, n * 10)
            assert pulled.messages
            await consumer.commit(BUSY, n * 10)
            disk.forget_pages()
            await trio.sleep(1.1)
            assert (await admin.messages.query_by_key(BUSY.topic, f"k{n}")).messages
            assert await consumer.search_offset(BUSY, cluster.now_ms()) > 0
            await admin.topics.delete(f"Fresh{n}")


async def deliver_later(cluster: broker.MemoryCluster, disk: SimulatedDisk) -> None:
    """Makes services store messages: delayed and sent-back ones, both ends of transactions, and checks.

    Each begins files of queues, and the large bodies those of the log.
    """
    states = itertools.cycle(TransactionState)
    async with (
        TransactionProducer(
            "TG", lambda _: TransactionState.COMMIT_MESSAGE, **cluster.client(), timeout=60
        ) as producer,
        PullConsumer("Back", **cluster.client(), timeout=60) as consumer,
    ):
        for n in range(1000):
            await producer.send(Message.of(f"Later{n}", bytes(9000), delay_level=1), timeout=60)
            await producer.send_in_transaction(
                Message.of(f"Half{n % 7}", bytes(9000)), lambda _: next(states), timeout=60
            )
            sent = await producer.send(Message.of(BUSY.topic, bytes(9000)), queue=BUSY, timeout=60)
            disk.forget_pages()
            (found,) = (await consumer.pull(BUSY, sent.queue_offset, 1)).messages
            back = ConsumerSendMsgBackRequestHeader(
                offset=found.commit_log_offset, group=f"Back{n}", delay_level=0
            )
            await consumer.instance.ask(
                cluster.broker_address, CONSUMER_SEND_MSG_BACK, back, None, timeout=60
            )
            disk.forget_pages()
            await trio.sleep(0.5)


async def test_nobody_waits_for_the_disk_of_another(autojump_clock: trio.testing.MockClock) -> None:
    disk = SimulatedDisk(loses_power=False)
    async with (
        broker.embedded_in_memory(disk=disk, **SETTINGS) as cluster,
        Producer(**cluster.client()) as bystander,
    ):
        await sends(bystander, 1, 1, trio.current_time)
        quiet = p99(await sends(bystander, 200, 0.05, trio.current_time))
        disk.calls.clear()
        disk.calls_in_loop.clear()
        disk.call_seconds = CALL_SECONDS
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_busy, cluster, disk)
            nursery.start_soon(deliver_later, cluster, disk)
            busy = p99(await sends(bystander, 600, 0.05, trio.current_time))
            nursery.cancel_scope.cancel()
        assert disk.calls_in_loop == {}
        assert disk.calls["unlink"] and disk.calls["load"] and disk.calls["open"] > 10
        assert disk.calls["replace"] > 10
        assert busy <= 2 * quiet


async def test_a_held_pull_is_answered_after_cold_pages_were_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = SimulatedDisk(loses_power=False)
    async with (
        broker.embedded_in_memory(disk=disk, **SETTINGS) as cluster,
        Producer(**cluster.client()) as producer,
        PullConsumer("G", **cluster.client()) as consumer,
        trio.open_nursery() as nursery,
    ):
        await producer.send(Message.of(BUSY.topic, b"first"), queue=BUSY)

        async def hold() -> None:
            result = await consumer.pull(BUSY, 1, expression="wanted", suspend=2)
            assert (result.messages, result.next_begin_offset) == ([], 4)

        nursery.start_soon(hold)
        await trio.sleep(1)
        for _ in range(3):
            await producer.send(Message.of(BUSY.topic, b"other", tags="unwanted"), queue=BUSY)
        await trio.sleep(0.5)
        disk.forget_pages()
        disk.calls.clear()
        disk.calls_in_loop.clear()
        await trio.sleep(1)
        assert disk.calls["load"]
        assert disk.calls_in_loop == {}


async def test_a_pull_outside_its_queue_stores_an_event_behind_the_disk(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = SimulatedDisk(loses_power=False)
    async with (
        broker.embedded_in_memory(disk=disk, **SETTINGS) as cluster,
        Producer(**cluster.client()) as producer,
        PullConsumer("G", **cluster.client()) as consumer,
    ):
        for _ in range(3):
            await producer.send(Message.of(BUSY.topic, b"first"), queue=BUSY)
        disk.calls.clear()
        disk.calls_in_loop.clear()
        disk.call_seconds = CALL_SECONDS
        result = await consumer.pull(BUSY, 9)
        assert result.status is PullStatus.OFFSET_ILLEGAL
        await trio.sleep(3)
        assert disk.calls["open"] == 1
        assert disk.calls_in_loop == {}
        assert await consumer.max_offset(MessageQueue(SystemTopic.OFFSET_MOVED_EVENT, "broker-a", 0)) == 1


async def test_a_check_of_transactions_reads_cold_pages_in_a_worker(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = SimulatedDisk(loses_power=False)
    checked = trio.Event()

    async def undecided(_message: object) -> TransactionState:
        return (
            TransactionState.UNKNOW
        )  # a plain function would run in a thread, for which the clock does not wait

    async def check(_half: object) -> TransactionState:
        checked.set()
        return TransactionState.COMMIT_MESSAGE

    async with (
        broker.embedded_in_memory(disk=disk, **SETTINGS) as cluster,
        TransactionProducer("TG", check, **cluster.client()) as producer,
    ):
        await producer.send_in_transaction(Message.of(BUSY.topic, b"half"), undecided)
        disk.forget_pages()
        disk.calls.clear()
        disk.calls_in_loop.clear()
        await checked.wait()
        assert disk.calls["load"]
        assert disk.calls_in_loop == {}


async def send_with_keys(cluster: broker.MemoryCluster) -> None:
    async with Producer(**cluster.client()) as producer:
        for n in range(40):
            await producer.send(Message.of(BUSY.topic, bytes(100), keys=f"k{n}"), queue=BUSY)
    await trio.sleep(3)


def cold_pages(disk: SimulatedDisk, root: Path) -> dict[Path, int]:
    """The number of pages that are not in memory, for each file that messages of the busy queue go to."""
    folders = (root / "commitlog", root / "consumequeue" / BUSY.topic / "0", root / "index")
    return {path: len(disk.cold_pages(path)) for folder in folders for path in disk.list(folder)}


async def accept(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
    return ConsumeResult.SUCCESS


async def test_a_reset_of_many_queues_by_time_comes_to_an_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The file times of its queues take longer to ask for than they are kept."""
    disk, queues = SimulatedDisk(loses_power=False), 30
    async with (
        broker.embedded_in_memory(disk=disk, **SETTINGS) as cluster,
        Producer(**cluster.client()) as producer,
        Admin(**cluster.client()) as admin,
    ):
        await admin.topics.create("Many", read_queues=queues, write_queues=queues)
        first = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        async with PushConsumer("G", {"Many": "*"}, accept, settings=first, **cluster.client()) as consumer:
            for number in range(queues):
                await producer.send(Message.of("Many", b"x"), queue=MessageQueue("Many", "broker-a", number))
            await trio.sleep(30)
            disk.call_seconds = CALL_SECONDS
            header = ResetOffsetRequestHeader(
                topic="Many", group="G", timestamp=cluster.now_ms() - 3_600_000, is_force=True
            )
            with trio.fail_after(60):
                reply = await consumer.instance.ask(
                    cluster.broker_address, INVOKE_BROKER_TO_RESET_OFFSET, header, None, timeout=60
                )
    assert list(reply.body.offset_table.values()) == [0] * queues


@pytest.mark.parametrize("idle_seconds", [0, 61])
async def test_pages_that_the_next_message_goes_on_are_read_in_a_worker(
    autojump_clock: trio.testing.MockClock, idle_seconds: int
) -> None:
    """After a restart, and when the memory was needed for something else while nobody sent."""
    disk = SimulatedDisk(loses_power=False)
    async with broker.embedded_in_memory(disk=disk, **SETTINGS) as cluster:
        await send_with_keys(cluster)
    async with broker.embedded_in_memory(disk=disk, **SETTINGS) as cluster:
        if idle_seconds:
            await send_with_keys(cluster)
            await trio.sleep(idle_seconds)
        disk.forget_pages()
        before = cold_pages(disk, cluster.store_path)
        disk.calls.clear()
        disk.calls_in_loop.clear()
        await send_with_keys(cluster)
        assert disk.calls["load"] == 4, "the log, the queue, slots and items of the index"
        assert disk.calls_in_loop == {}
        after = cold_pages(disk, cluster.store_path)
        read = [path.parent.name for path, count in before.items() if after[path] < count]
        assert sorted(read) == ["0", "commitlog", "index"]


async def test_a_pull_reads_cold_pages_in_a_worker_after_its_expression_was_compiled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = SimulatedDisk(loses_power=False)
    async with (
        broker.embedded_in_memory(disk=disk, enable_property_filter=True, **SETTINGS) as cluster,
        Producer(**cluster.client()) as producer,
        PullConsumer("G", **cluster.client()) as consumer,
    ):
        await producer.send(Message.of(BUSY.topic, b"found", properties={"a": "7"}), queue=BUSY)
        expression = " OR ".join(f"a = {n}" for n in range(LONG))
        disk.forget_pages()
        await trio.sleep(1.1)
        disk.calls.clear()
        disk.calls_in_loop.clear()
        result = await consumer.pull(BUSY, 0, expression=expression, expression_type="SQL92")
        assert [message.body for message in result.messages] == [b"found"]
        assert disk.calls["load"]
        assert disk.calls_in_loop == {}


async def test_queues_are_mapped_in_workers(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few files may be mapped, so that each send and pull finds its queue cold."""
    monkeypatch.setattr(Mappings, "most", 3)
    disk = SimulatedDisk(loses_power=False)
    queues = [MessageQueue("Many", "broker-a", n % 4) for n in range(4)]
    queues += [MessageQueue(f"Topic{n}", "broker-a", 0) for n in range(8)]
    async with (
        broker.embedded_in_memory(disk=disk, **SETTINGS) as cluster,
        Producer(**cluster.client(), timeout=60, send_timeout=60) as producer,
        PullConsumer("G", **cluster.client(), timeout=60) as consumer,
    ):
        for queue in queues:
            await producer.send(Message.of(queue.topic, b"0"), queue=queue)
        disk.calls.clear()
        disk.calls_in_loop.clear()
        disk.call_seconds = CALL_SECONDS
        for number in range(1, 6):
            for queue in queues:
                await producer.send(Message.of(queue.topic, b"%d" % number), queue=queue)
            await trio.sleep(number)  # files that were not used are unmapped
        for queue in queues:
            found = (await consumer.pull(queue, 0)).messages
            assert [message.body for message in found] == [b"%d" % number for number in range(6)]
        assert disk.calls["open"] > 4 * len(queues)
        assert disk.calls_in_loop == {}
