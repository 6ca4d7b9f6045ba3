"""A slave broker and its master in one cluster: what is copied, served and refused, and what a loss of the master
leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.testing.embedded import Cluster
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.client import (
    Admin,
    ConsumeResult,
    Producer,
    PullConsumer,
    PushConsumer,
    SendStatus,
)
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue

NAME, TOPIC = "broker-m", "T"
SETTLED = 45
"""Seconds in which a slave learns of its master and copies all."""


class Pair(NamedTuple):
    """A cluster with a broker of its own, and a slave without a master."""

    cluster: MemoryCluster
    slave: Cluster

    def master(self, **settings: Any) -> Any:
        return self.cluster.broker(broker_name=NAME, listen_port=10951, **settings)


@asynccontextmanager
async def pair(**settings: Any) -> AsyncIterator[Pair]:
    async with (
        broker.embedded_in_memory(auto_create_topic_enable=False) as cluster,
        cluster.broker(
            broker_name=NAME, broker_role="SLAVE", broker_id=1, listen_port=10971, **settings
        ) as slave,
    ):
        yield Pair(cluster, slave)


async def send(cluster: MemoryCluster, count: int) -> list[SendStatus]:
    async with Producer(**cluster.client()) as producer:
        return [
            (
                await producer.send(Message.of(TOPIC, b"%d" % number), queue=MessageQueue(TOPIC, NAME, 0))
            ).status
            for number in range(count)
        ]


async def create(cluster: MemoryCluster) -> None:
    async with Admin(**cluster.client()) as admin:
        await admin.topics.create(TOPIC, read_queues=1, write_queues=1, brokers=[NAME])


async def test_a_slave_has_what_its_master_has(autojump_clock: Any) -> None:
    queue = MessageQueue(TOPIC, NAME, 0)
    async with pair() as both, both.master(broker_role="SYNC_MASTER") as master:
        cluster, slave = both.cluster, both.slave.broker_address
        await trio.sleep(SETTLED)
        await create(cluster)
        assert set(await send(cluster, 50)) == {SendStatus.SEND_OK}
        async with PullConsumer("G", **cluster.client()) as consumer:
            await consumer.commit(queue, 20)
        await trio.sleep(SETTLED)
        async with Admin(**cluster.client()) as admin:
            seats = await admin.brokers.seats(brokers=[NAME])
            assert seats == {NAME: master.broker_address, f"{NAME}:1": slave}
            states = await admin.replication.states(seats)
            end = states[NAME].master_commit_log_max_offset
            client = states[f"{NAME}:1"].ha_client_runtime_info
            assert client is not None
            assert client.activated
            assert client.max_offset == end > 0
            assert states[NAME].in_sync_slave_nums == 1
            for code in (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET):
                one, other = [(await admin.invoke(seat, code)).body for seat in seats.values()]
                assert bytes(one) == bytes(other)


async def test_a_topic_of_a_moment_ago_is_read_when_the_master_dies(autojump_clock: Any) -> None:
    async with pair() as both:
        cluster = both.cluster
        async with both.master(broker_role="SYNC_MASTER"):
            await trio.sleep(SETTLED)
            await create(cluster)
            assert set(await send(cluster, 5)) == {SendStatus.SEND_OK}
            await trio.sleep(2)
        async with Admin(**cluster.client()) as admin:
            code, *_ = await pulled(admin, both.slave.broker_address, 0)
        assert code == ResponseCode.SUCCESS


async def test_a_slave_that_just_connected_knows_the_topics(autojump_clock: Any) -> None:
    async with (
        broker.embedded_in_memory(auto_create_topic_enable=False) as cluster,
        cluster.broker(broker_name=NAME, listen_port=10951),
    ):
        await create(cluster)
        async with (
            cluster.broker(broker_name=NAME, broker_role="SLAVE", broker_id=1, listen_port=10971) as slave,
            Admin(**cluster.client()) as admin,
        ):
            await trio.sleep(1)
            reply = await admin.invoke(slave.broker_address, RequestCode.GET_ALL_TOPIC_CONFIG)
            assert f'"{TOPIC}"'.encode() in bytes(reply.body)


async def test_consumers_go_on_with_the_slave(autojump_clock: Any) -> None:
    heard: list[bytes] = []

    async def listen(messages: list[Any], context: Any) -> ConsumeResult:
        heard.extend(message.body for message in messages)
        return ConsumeResult.SUCCESS

    async with pair() as both:
        cluster = both.cluster
        async with both.master():
            await trio.sleep(SETTLED)
            await create(cluster)
            await send(cluster, 30)
            await trio.sleep(SETTLED)
        async with PushConsumer("G", {TOPIC: "*"}, listen, **cluster.client()):
            await trio.sleep(SETTLED)
        assert sorted(map(int, heard)) == list(range(30))


async def test_a_master_that_comes_back_is_followed(autojump_clock: Any) -> None:
    from rmqcli.broker.testing.disk import SimulatedDisk

    async with pair() as both:
        cluster = both.cluster
        disk = SimulatedDisk(now_ms=cluster.now_ms, loses_power=False)
        ends: list[int] = []
        for _ in range(3):
            async with both.master(disk=disk) as master:
                await trio.sleep(SETTLED)
                if not ends:
                    await create(cluster)
                await send(cluster, 20)
                await trio.sleep(5)
                async with Admin(**cluster.client()) as admin:
                    seats = {"m": master.broker_address, "s": both.slave.broker_address}
                    states = await admin.replication.states(seats)
                ends.append(states["m"].master_commit_log_max_offset)
                assert states["s"].master_commit_log_max_offset == ends[-1]
        assert ends[0] < ends[1] < ends[2]


NEW_TOPIC = {
    "topic": "X",
    "defaultTopic": "TBW102",
    "readQueueNums": "1",
    "writeQueueNums": "1",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}
END = {
    "producerGroup": "P",
    "tranStateTableOffset": "0",
    "commitLogOffset": "0",
    "commitOrRollback": "8",
    "fromTransactionCheck": "false",
    "msgId": "",
}
REFUSED = (
    (RequestCode.UPDATE_AND_CREATE_TOPIC, NEW_TOPIC, ResponseCode.SYSTEM_ERROR, "Can't modify topic"),
    (RequestCode.END_TRANSACTION, END, ResponseCode.SLAVE_NOT_AVAILABLE, "not set any response code"),
)


async def test_a_slave_refuses_to_write(autojump_clock: Any) -> None:
    async with pair() as both, both.master():
        cluster, slave = both.cluster, both.slave.broker_address
        await trio.sleep(SETTLED)
        await create(cluster)
        await send(cluster, 3)
        await trio.sleep(SETTLED)
        async with Admin(**cluster.client()) as admin:
            fields = {
                "a": "P",
                "b": TOPIC,
                "c": "TBW102",
                "d": "4",
                "e": "0",
                "f": "0",
                "g": "1",
                "h": "0",
                "i": "",
            }
            back = {"group": "G", "offset": "0", "delayLevel": "0", "originMsgId": "", "originTopic": TOPIC}
            for code, ext, refusal, remark in (
                (RequestCode.SEND_MESSAGE_V2, fields, ResponseCode.SERVICE_NOT_AVAILABLE, "put to the slave"),
                (
                    RequestCode.CONSUMER_SEND_MSG_BACK,
                    back,
                    ResponseCode.SYSTEM_ERROR,
                    "SERVICE_NOT_AVAILABLE",
                ),
                *REFUSED,
            ):
                reply = await admin.invoke(slave, code, ext, b"x")
                assert reply.code == refusal
                assert remark in (reply.remark or "")


async def pulled(admin: Admin, address: str, offset: int) -> tuple[int, str, str, str]:
    """Code, remark, next offset and suggested broker of a pull."""
    fields = {
        "consumerGroup": "G",
        "topic": TOPIC,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    reply = await admin.invoke(address, RequestCode.PULL_MESSAGE, fields)
    ext = reply.ext_fields or {}
    return reply.code, reply.remark or "", ext["nextBeginOffset"], ext["suggestWhichBrokerId"]


@pytest.mark.parametrize(("checks", "expected"), [(False, (20, "77")), (True, (21, "3"))])
async def test_pulls_of_a_slave(autojump_clock: Any, checks: bool, expected: tuple[int, str]) -> None:
    """A slave may lag behind: it keeps the offset of a reader who is ahead of it."""
    async with pair(offset_check_in_slave=checks) as both, both.master() as master:
        cluster, slave = both.cluster, both.slave.broker_address
        await trio.sleep(SETTLED)
        await create(cluster)
        await send(cluster, 3)
        await trio.sleep(SETTLED)
        async with Admin(**cluster.client()) as admin:
            assert await pulled(admin, slave, 0) == (0, "FOUND", "3", "0")
            code, remark, following, _ = await pulled(admin, slave, 77)
            assert remark == "OFFSET_OVERFLOW_BADLY"
            assert (code, following) == expected
            assert (await pulled(admin, master.broker_address, 77))[::2] == (21, "3")


async def test_a_slave_goes_on_with_the_timers_of_its_master(tmp_path: Path, autojump_clock: Any) -> None:
    """Each message is delivered once: by the master, or by its slave that has become the master."""
    delays = [30, 60, 60, 90, 150, 200, 200, 300]
    async with broker.embedded_in_memory(auto_create_topic_enable=False) as cluster:
        store = tmp_path / "slave"
        async with cluster.broker(
            store=store, broker_name=NAME, broker_role="SLAVE", broker_id=1, listen_port=10971
        ):
            async with cluster.broker(broker_name=NAME, listen_port=10951, broker_role="SYNC_MASTER"):
                await trio.sleep(SETTLED)
                await create(cluster)
                async with Producer(**cluster.client()) as producer:
                    for number, delay in enumerate(delays):
                        message = Message.of(TOPIC, b"%d" % number, delay=delay)
                        sent = await producer.send(message, queue=MessageQueue(TOPIC, NAME, 0))
                        assert sent.status is SendStatus.SEND_OK
                await trio.sleep(120)
            await trio.sleep(SETTLED)
        async with cluster.broker(broker_name=NAME, listen_port=10951, store=store):
            queue = MessageQueue(TOPIC, NAME, 0)
            async with PullConsumer("G", **cluster.client()) as consumer:
                await trio.sleep(300)
                found = (await consumer.pull(queue, 0)).messages
            assert Counter(int(one.body) for one in found) == Counter(range(len(delays)))
            late = {delays[int(one.body)]: one.store_timestamp - one.born_timestamp for one in found}
            by_master = {delay for delay, ms in late.items() if 0 <= ms - delay * 1000 < 1000}
            assert by_master == {30, 60, 90, 200, 300} and late[150] >= 165_000
