"""What a slave deletes after its master, and what it never does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.errors import PeerUnreachable
from rmqcli.broker.ha.deletions import Deletions
from rmqcli.broker.ha.peer import MasterPeer, Tables
from rmqcli.broker.tables import OffsetTable
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.client import Admin, Producer, PullConsumer
from rmqcli.codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue

NAME, GONE, KEPT = "broker-m", "Gone", "Kept"
SETTLED = 45


async def send(cluster: MemoryCluster, topic: str) -> None:
    async with Producer(**cluster.client()) as producer:
        await producer.send(Message.of(topic, b"x"), queue=MessageQueue(topic, NAME, 0))


async def ends(admin: Admin, address: str, *topics: str) -> list[int]:
    """The end of queue 0 of each topic at a broker."""
    found = []
    for topic in topics:
        fields = {"topic": topic, "queueId": "0"}
        reply = await admin.invoke(address, RequestCode.GET_MAX_OFFSET, fields)
        found.append(int((reply.ext_fields or {})["offset"]))
    return found


async def test_topics_and_groups_that_the_master_deleted(autojump_clock: Any) -> None:
    async with (
        broker.embedded_in_memory() as cluster,
        cluster.broker(broker_name=NAME, listen_port=10951) as master,
        cluster.broker(broker_name=NAME, broker_role="SLAVE", broker_id=1, listen_port=10971) as slave,
        Admin(**cluster.client()) as admin,
    ):
        for topic in (GONE, KEPT):
            await admin.topics.create(topic, read_queues=1, write_queues=1, brokers=[NAME])
            await send(cluster, topic)
        for group in ("gone", "kept"):
            async with PullConsumer(group, **cluster.client()) as consumer:
                await consumer.commit(MessageQueue(KEPT, NAME, 0), 1)
                await consumer.commit(MessageQueue(GONE, NAME, 0), 1)
            body = b'{"groupName": "%s"}' % group.encode()
            await admin.invoke(
                master.broker_address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body
            )
        await trio.sleep(SETTLED)
        assert await ends(admin, slave.broker_address, GONE, KEPT) == [1, 1]
        before = await offsets(admin, slave.broker_address)
        assert b"Kept@gone" in before and b"Gone@kept" in before
        await admin.invoke(master.broker_address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": GONE})
        fields = {"groupName": "gone", "cleanOffset": "true", "removeOffset": "true"}
        await admin.invoke(master.broker_address, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
        await trio.sleep(SETTLED)
        assert await ends(admin, slave.broker_address, GONE, KEPT) == [0, 1]
        text = await offsets(admin, slave.broker_address)
        assert b"Kept@kept" in text
        assert b"Kept@gone" not in text and b"Gone@kept" not in text
        await admin.topics.create(GONE, read_queues=1, write_queues=1, brokers=[NAME])
        await send(cluster, GONE)
        await trio.sleep(SETTLED)
        assert await ends(admin, slave.broker_address, GONE, KEPT) == [1, 1]


async def offsets(admin: Admin, address: str) -> bytes:
    return bytes((await admin.invoke(address, RequestCode.GET_ALL_CONSUMER_OFFSET)).body)


class Held:
    """The store of a slave with one topic, whose last record ends at 10."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, int]] = []
        self.commit_log_max_offset = 10
        self.retention = self

    def queued_topics(self) -> set[str]:
        return {GONE}

    def queue_ids(self, topic: str) -> list[int]:
        return [0, 1]

    async def delete_topic(self, topic: str, last: int) -> int:
        self.deleted.append((topic, last))
        return 2


class Saying(MasterPeer):
    """A master whose queues end where `max_of` says."""

    def __init__(self, max_of: Callable[[int], int]) -> None:
        self._max_of = max_of

    async def max_offset(self, topic: str, queue_id: int) -> int:
        return self._max_of(queue_id)


def tables(*topics: str, groups: str = "g") -> Tables:
    return Tables(
        TopicConfigSerializeWrapper(topic_config_table=dict.fromkeys(topics)),  # type: ignore[arg-type]
        ConsumerOffsetSerializeWrapper(),
        DelayOffsetSerializeWrapper(),
        SubscriptionGroupWrapper(subscription_group_table=dict.fromkeys(groups)),  # type: ignore[arg-type]
    )


async def deleted(
    *copies: Tables, max_of: Callable[[int], int] = lambda _: 0, follows: Callable[[], bool] = lambda: True
) -> list[tuple[str, int]]:
    store: Any = Held()
    deletions = Deletions(store, OffsetTable(), follows)
    for copy in copies:
        await deletions.follow(Saying(max_of), copy, deletions.begin())
    return list(store.deleted)


async def test_a_topic_goes_with_the_second_copy_without_it() -> None:
    assert await deleted(tables(KEPT)) == []
    assert await deleted(tables(KEPT), tables(KEPT)) == [(GONE, 10)]


@pytest.mark.parametrize("without", [tables(), tables(KEPT, groups="")])
async def test_an_empty_table_says_nothing(without: Tables) -> None:
    assert await deleted(without, without, without) == []
    assert await deleted(tables(KEPT), without, tables(KEPT)) == []


async def test_a_topic_that_came_back(autojump_clock: Any) -> None:
    assert await deleted(tables(KEPT), tables(KEPT, GONE), tables(KEPT)) == []


async def test_a_queue_that_the_master_still_has() -> None:
    assert await deleted(tables(KEPT), tables(KEPT), max_of=lambda queue_id: queue_id) == []


async def test_a_log_that_is_not_followed() -> None:
    assert await deleted(tables(KEPT), tables(KEPT), follows=lambda: False) == []
    said = iter([True, True, True, False])
    assert await deleted(tables(KEPT), tables(KEPT), follows=lambda: next(said)) == []


async def test_a_master_that_does_not_answer() -> None:
    def lost(_queue_id: int) -> int:
        raise PeerUnreachable("gone")

    with pytest.raises(PeerUnreachable):
        await deleted(tables(KEPT), tables(KEPT), max_of=lost)
