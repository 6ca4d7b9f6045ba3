"""Push consumers against a broker of this project, over real sockets and the real clock."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.client import (
    Admin,
    ConsumeContext,
    ConsumeResult,
    OrderlyContext,
    OrderlyResult,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
    ResetTarget,
)
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rmqcli.codec.bodies.running import ConsumerRunningInfo
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.compression import MAX_DECOMPRESSED, compress
from rmqcli.codec.headers.send import SendMessageRequestHeader
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from tests.support import PATIENCE

TOPIC, GROUP = "PushTest", "PushGroup"
FIRST = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A cluster whose consumers store their offsets when they leave, however long that takes."""
    monkeypatch.setattr("rmqcli.client.push.consumer.LEAVE", PATIENCE)
    async with broker.embedded() as running:
        yield running


@pytest.fixture
async def producer(cluster: Any) -> AsyncIterator[Producer]:
    async with Producer(namesrv=cluster.namesrv, timeout=PATIENCE, send_timeout=PATIENCE) as running:
        yield running


class Taken:
    """Counts bodies; `until` waits for a condition that a new message may fulfil."""

    def __init__(self) -> None:
        self.bodies: Counter[bytes] = Counter()
        self.messages: list[MessageExt] = []
        self._changed = trio.Event()

    async def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        self.take(messages)
        return ConsumeResult.SUCCESS

    def take(self, messages: list[MessageExt]) -> None:
        self.messages += messages
        self.bodies.update(message.body for message in messages)
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
        with trio.fail_after(timeout):
            while not condition():
                await self._changed.wait()


async def send(producer: Producer, numbers: range, *, queue: MessageQueue | None = None) -> None:
    for number in numbers:
        await producer.send(Message.of(TOPIC, str(number)), queue=queue)


async def test_members_share_and_resume(cluster: Any, producer: Producer) -> None:
    await send(producer, range(100))
    taken = Taken()
    async with PushConsumer(
        GROUP, {TOPIC: "*"}, taken, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE
    ):
        await taken.until(lambda: len(taken.bodies) == 100)
        async with PushConsumer(
            GROUP, {TOPIC: "*"}, taken, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE
        ):
            await send(producer, range(100, 200))
            await taken.until(lambda: len(taken.bodies) == 200)
        await send(producer, range(200, 300))
        await taken.until(lambda: len(taken.bodies) == 300)
    async with Admin(instance=producer.instance) as admin:
        assert all(lag.lag == 0 for lag in await admin.offsets.lags(GROUP, TOPIC))
    again = Taken()
    async with PushConsumer(
        GROUP, {TOPIC: "*"}, again, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE
    ):
        await send(producer, range(300, 301))
        await again.until(lambda: b"300" in again.bodies)
    assert set(again.bodies) == {b"300"}


async def test_a_refused_message_comes_back_from_the_retry_topic(cluster: Any, producer: Producer) -> None:
    taken = Taken()

    async def once(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        taken.take(messages)
        context.delay_level = 1
        return ConsumeResult.SUCCESS if messages[0].reconsume_times else ConsumeResult.RECONSUME_LATER

    await send(producer, range(1))
    async with PushConsumer(
        GROUP, {TOPIC: "*"}, once, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE
    ):
        await taken.until(lambda: taken.bodies[b"0"] == 2)
    first, second = taken.messages
    assert (second.topic, second.reconsume_times, second.msg_id) == (TOPIC, 1, first.msg_id)
    assert second.properties["ORIGIN_MESSAGE_ID"] == first.offset_msg_id


async def test_in_the_order_of_the_queue_by_a_plain_function(cluster: Any, producer: Producer) -> None:
    taken, seen = Taken(), list[int]()
    token = trio.lowlevel.current_trio_token()

    def listener(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
        seen.extend(int(message.body) for message in messages)
        token.run_sync_soon(taken.take, messages)
        return OrderlyResult.SUCCESS

    queue = (await producer.message_queues(TOPIC))[0]
    await send(producer, range(50), queue=queue)
    options: Any = {"orderly": True, "settings": FIRST, "namesrv": cluster.namesrv, "timeout": PATIENCE}
    async with PushConsumer(GROUP, {TOPIC: "*"}, listener, **options):
        await taken.until(lambda: len(taken.bodies) == 50)
    assert seen == list(range(50))


async def test_administrators_move_and_ask_running_consumers(cluster: Any, producer: Producer) -> None:
    await send(producer, range(20))
    taken = Taken()
    settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, persist_interval=0.1)
    async with (
        PushConsumer(
            GROUP, {TOPIC: "*"}, taken, settings=settings, namesrv=cluster.namesrv, timeout=PATIENCE
        ) as running,
        Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin,
    ):
        await taken.until(lambda: len(taken.bodies) == 20)
        client = running.instance.client_id
        ext = {"consumerGroup": GROUP, "clientId": client, "jstackEnable": "false"}
        reply = await admin.invoke(
            cluster.broker_address, RequestCode.GET_CONSUMER_RUNNING_INFO, ext, timeout=PATIENCE
        )
        info = decode_body(ConsumerRunningInfo, reply.body)
        assert sum(held.commit_offset for queue, held in info.mq_table.items() if queue.topic == TOPIC) == 20
        # A broker moves a group only when it has an offset of every queue
        with trio.fail_after(PATIENCE):
            for queue in await producer.message_queues(TOPIC):
                while await admin.offsets.committed(queue, GROUP) != 5:
                    await trio.lowlevel.checkpoint()
        # They are soon at the end again: there is nothing to wait for
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        result = await admin.offsets.reset(plan, settle=0.1)
        assert result.online
        await taken.until(lambda: all(times == 2 for times in taken.bodies.values()))


async def test_cancelled_applications_leave_their_offsets(cluster: Any, producer: Producer) -> None:
    await send(producer, range(10))
    taken = Taken()
    with trio.CancelScope() as scope:
        async with PushConsumer(
            GROUP, {TOPIC: "*"}, taken, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE
        ):
            await taken.until(lambda: len(taken.bodies) == 10)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    async with Admin(instance=producer.instance) as admin:
        assert all(lag.lag == 0 for lag in await admin.offsets.lags(GROUP, TOPIC))
        assert not (await admin.groups.describe(GROUP)).online


def open_files(folder: Path) -> int:
    """Open sockets, and open files of this folder; the others belong to the broker's store."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            target = str(entry.readlink())
            count += target.startswith(("socket:", str(folder)))
    return count


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files where Linux lists them")
async def test_an_application_that_is_cancelled_leaves_no_open_file(
    cluster: Any, producer: Producer, tmp_path: Path
) -> None:
    """Cancellation over real sockets, at times from before the first connection to long after the last
    message.
    """
    await send(producer, range(20))
    before = open_files(tmp_path)
    ended = 0
    for model in MessageModel:
        for moment in range(24):
            settings = replace(FIRST, message_model=model, offsets_folder=tmp_path, persist_interval=0.1)
            with trio.move_on_after(moment**2 * 0.0005) as scope:
                async with PushConsumer(
                    f"{GROUP}-{model}-{moment}",
                    {TOPIC: "*"},
                    Taken(),
                    settings=settings,
                    namesrv=cluster.namesrv,
                    timeout=PATIENCE,
                ):
                    await trio.sleep_forever()
            ended += scope.cancelled_caught
            with trio.fail_after(PATIENCE):
                # The broker closes its ends when it has read ours
                while open_files(tmp_path) > before:  # noqa: ASYNC110
                    await trio.sleep(0.005)
    assert ended == 48


@pytest.mark.parametrize("kind", ["zlib", "zstd"])
async def test_honest_messages_behind_bombs_arrive_plain(cluster: Any, producer: Producer, kind: str) -> None:
    """Messages of one reply that expand to more than 256 MiB together come with several pulls."""
    queue = MessageQueue(TOPIC, cluster.broker_name, 0)
    await producer.send(Message.of(TOPIC, "first"), queue=queue, timeout=PATIENCE)
    bomb, bits = compress(bytes(MAX_DECOMPRESSED), kind)
    honest = b"honest " * 1000
    packed, _ = compress(honest, kind)
    header = SendMessageRequestHeader(
        producer_group="P",
        topic=TOPIC,
        default_topic=TOPIC,
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=bits,
        born_timestamp=1,
        flag=0,
    )
    for body in [bomb] * 5 + [packed] * 3:
        reply = await producer.instance.call(cluster.broker_address, RequestCode.SEND_MESSAGE, header, body)
        assert reply.code == ResponseCode.SUCCESS
    lengths = [5] + [MAX_DECOMPRESSED] * 5 + [len(honest)] * 3
    bodies: list[bytes] = []
    done = trio.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        bodies.extend(message.body for message in messages)
        if len(bodies) == len(lengths):
            done.set()
        return ConsumeResult.SUCCESS

    with trio.fail_after(PATIENCE):
        async with PushConsumer(
            GROUP, {TOPIC: "*"}, listen, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE
        ):
            await done.wait()
    assert sorted(map(len, bodies)) == sorted(lengths)
    assert bodies.count(honest) == 3
    bodies.clear()
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as puller:
        pulled = await puller.pull(queue, 0)
        assert [len(message.body) for message in pulled.messages] == lengths[:5]
        assert pulled.next_begin_offset == 5
