"""Routes and sends through a proxy of two brokers."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import ClientType, Code, MessageType, TransactionResolution, TransactionSource
from tests.broker.proxy.calls import connected, message, of_producer, pulled, topic
from tests.proxy.proxies import BROKERS, create, proxy_of, two_brokers


async def test_a_route_has_the_queues_of_all_brokers_at_the_address_of_the_client(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        await create(cluster, "orders")
        stub = await connected(nursery, cluster)
        queues = (await stub("QueryRoute", topic=topic("orders"))).message_queues
        for name in BROKERS:
            own = [one for one in queues if one.broker.name == name]
            assert [one.id for one in own] == list(range(8)) and {one.broker.id for one in own} == {0}
        addresses = {(a.host, a.port) for one in queues for a in one.broker.endpoints.addresses}
        assert addresses == {("broker.test", 8081)}
        assigned = await stub("QueryAssignment", topic=topic("orders"), group=topic("billing"))
        found = [(one.message_queue.broker.name, one.message_queue.id) for one in assigned.assignments]
        assert found == [("broker-a", -1), ("broker-b", -1)]
        # One that brokers create with its first message.
        new = (await stub("QueryRoute", topic=topic("new"))).message_queues
        assert {one.broker.name for one in new} == BROKERS


async def test_a_topic_that_no_broker_creates(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers(auto_create_topic_enable=False) as cluster:
        stub = await connected(nursery, cluster)
        assert (await stub("QueryRoute", topic=topic("orders"))).status.code == Code.TOPIC_NOT_FOUND
        sent = await stub("SendMessage", messages=[message("orders")])
        assert sent.status.code == Code.TOPIC_NOT_FOUND


async def test_messages_go_to_all_brokers_and_groups_of_messages_to_one_queue(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        await create(cluster, "orders")
        stub = await connected(nursery, cluster)
        for number in range(8):
            one = message("orders", b"%d" % number, tag="t", keys=["k"], user_properties={"a": "b"})
            sent = await stub("SendMessage", messages=[one])
            assert (sent.status.code, sent.entries[0].status.code) == (Code.OK, Code.OK)
            assert sent.entries[0].message_id == one.system_properties.message_id
        for number in range(6):
            one = message("orders", b"f%d" % number, MessageType.FIFO, message_group=f"g{number % 3}")
            assert (await stub("SendMessage", messages=[one])).status.code == Code.OK
        together = [message("orders", b"t%d" % number) for number in range(3)]
        sent = await stub("SendMessage", messages=together)
        assert [one.offset - sent.entries[0].offset for one in sent.entries] == [0, 1, 2]
        found = await pulled(cluster, "orders")
        assert len(found) == 17 and {one.broker_name for one in found} == BROKERS
        plain = next(one for one in found if one.body == b"0")
        assert (plain.tags, plain.keys, plain.properties["a"]) == ("t", ["k"], "b")
        for group in ("g0", "g1", "g2"):
            own = [one for one in found if one.properties.get("__SHARDINGKEY") == group]
            assert len({one.queue for one in own}) == 1 and len(own) == 2
        assert len({one.queue for one in found if one.body.startswith(b"t")}) == 1


async def test_a_delay_and_its_recall(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster:
        await create(cluster, "orders")
        stub = await connected(nursery, cluster)
        due = messages.Timestamp(seconds=cluster.now_ms() // 1000 + 30)
        sent = [
            await stub(
                "SendMessage",
                messages=[message("orders", body, MessageType.DELAY, delivery_timestamp=due)],
            )
            for body in (b"kept", b"recalled")
        ]
        handle = sent[1].entries[0].recall_handle
        recalled = await stub("RecallMessage", topic=topic("orders"), recall_handle=handle)
        assert recalled.message_id == sent[1].entries[0].message_id
        late = messages.Timestamp(seconds=cluster.now_ms() // 1000 + 30 * 86_400)
        too_late = message("orders", b"x", MessageType.DELAY, delivery_timestamp=late)
        refused = await stub("SendMessage", messages=[too_late])
        assert refused.status.code == Code.ILLEGAL_DELIVERY_TIME
        await trio.sleep(20)
        assert await pulled(cluster, "orders") == []
        await trio.sleep(15)
        assert [one.body for one in await pulled(cluster, "orders")] == [b"kept"]


async def begun(stub: Any, body: bytes) -> Any:
    sent = await stub("SendMessage", messages=[message("orders", body, MessageType.TRANSACTION)])
    assert sent.status.code == Code.OK
    return sent.entries[0]


async def ended(stub: Any, entry: Any, name: str = "orders", **more: Any) -> Code:
    fields = {"message_id": entry.message_id, "transaction_id": entry.transaction_id}
    fields |= {"resolution": TransactionResolution.COMMIT, "source": TransactionSource.SOURCE_CLIENT} | more
    answer = await stub("EndTransaction", topic=topic(name), **fields)
    return Code(answer.status.code)


async def test_transactions_end_on_their_broker(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster:
        await create(cluster, "orders", "others")
        stub = await connected(nursery, cluster)
        entries = [await begun(stub, b"%d" % number) for number in range(10)]
        assert {entry.transaction_id[32:] for entry in entries} == BROKERS
        assert await ended(stub, entries[0], "others") == Code.INVALID_TRANSACTION_ID
        elsewhere = entries[0].transaction_id[:32] + "broker-x"
        assert await ended(stub, entries[0], transaction_id=elsewhere) == Code.INVALID_TRANSACTION_ID
        rollback = TransactionResolution.ROLLBACK
        for entry in entries[1:]:
            assert await ended(stub, entry) == Code.OK
        assert await ended(stub, entries[0], resolution=rollback) == Code.OK
        assert sorted(one.body for one in await pulled(cluster, "orders")) == [
            b"%d" % n for n in range(1, 10)
        ]


async def test_orphans_of_all_brokers_are_recovered(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster:
        await create(cluster, "orders")
        stub = await connected(nursery, cluster)
        told = await stub.telemetry(of_producer("orders"))
        assert (await told.next()).status.code == Code.OK
        for number in range(10):
            await begun(stub, b"%d" % number)

        async def beat() -> None:
            while True:
                await trio.sleep(10)
                assert (await stub("Heartbeat", client_type=ClientType.PRODUCER)).status.code == Code.OK

        nursery.start_soon(beat)
        found: dict[bytes, Any] = {}
        while len(found) < 10:
            command = (await told.next()).recover_orphaned_transaction_command
            found[command.message.body] = command
        assert {one.transaction_id[32:] for one in found.values()} == BROKERS
        for command in found.values():
            entry = messages.SendResultEntry(
                message_id=command.message.system_properties.message_id,
                transaction_id=command.transaction_id,
            )
            check = TransactionSource.SOURCE_SERVER_CHECK
            assert await ended(stub, entry, source=check) == Code.OK
        assert sorted(one.body for one in await pulled(cluster, "orders")) == [b"%d" % n for n in range(10)]


async def test_a_broker_that_is_gone_is_left_out(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster:
        await create(cluster, "orders")
        stub = await connected(nursery, cluster)
        assert (await stub("SendMessage", messages=[message("orders")])).status.code == Code.OK
        cluster.cut(cluster.broker_address, 60)
        for _ in range(10):
            assert (await stub("SendMessage", messages=[message("orders")])).status.code == Code.OK
        await trio.sleep(60)
        sent = [await stub("SendMessage", messages=[message("orders")]) for _ in range(8)]
        assert {one.status.code for one in sent} == {Code.OK}
        assert len(await pulled(cluster, "orders")) == 19


@pytest.mark.parametrize("kind", [None, "FIFO"])
async def test_types_are_checked_if_that_is_wanted(
    nursery: trio.Nursery, autojump_clock: MockClock, kind: str | None
) -> None:
    async with (
        embedded_in_memory() as cluster,
        proxy_of(cluster, enable_topic_message_type_check=True),
        Admin(**cluster.client()) as admin,
    ):
        await admin.topics.create("orders", attributes=None if kind is None else f"+message.type={kind}")
        stub = await connected(nursery, cluster)
        queue = (await stub("QueryRoute", topic=topic("orders"))).message_queues[0]
        assert [*queue.accept_message_types] == [MessageType.FIFO if kind else MessageType.NORMAL]
        sent = await stub("SendMessage", messages=[message("orders")])
        expected = Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE if kind else Code.OK
        assert sent.status.code == expected


async def test_a_topic_for_priorities_names_them(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory() as cluster,
        proxy_of(cluster),
        Admin(**cluster.client()) as admin,
    ):
        await admin.topics.create("jobs", attributes="+message.type=PRIORITY")
        stub = await connected(nursery, cluster)
        for name in ("jobs", "others"):
            queue = (await stub("QueryRoute", topic=topic(name))).message_queues[0]
            assert (MessageType.PRIORITY in queue.accept_message_types) == (name == "jobs")
        for number in (1, 6):
            one = message("jobs", b"%d" % number, MessageType.PRIORITY, priority=number)
            assert (await stub("SendMessage", messages=[one])).status.code == Code.OK
        assert {one.body: one.queue_id for one in await pulled(cluster, "jobs")} == {b"1": 1, b"6": 6}


async def test_topics_and_groups_are_bounded(
    nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_in_memory() as cluster, proxy_of(cluster):
        stub = await connected(nursery, cluster)
        assert (await stub("QueryRoute", topic=topic("one"))).status.code == Code.OK
        told = await stub.telemetry(of_producer("one"))
        assert (await told.next()).status.code == Code.OK
        monkeypatch.setattr("rmqcli.proxy.remote.MOST_TOPICS", 1)
        monkeypatch.setattr("rmqcli.proxy.members.MOST_GROUPS", 1)
        for name, code in (("one", Code.OK), ("two", Code.TOO_MANY_REQUESTS)):
            assert (await stub("QueryRoute", topic=topic(name))).status.code == code
            assert (await stub("SendMessage", messages=[message(name)])).status.code == code
            await told.send(settings=of_producer(name))
            assert (await told.next()).status.code == code
