"""Calls of the gRPC front that need no POP, beside the client of remoting."""

from __future__ import annotations

import gzip
import hashlib
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.proxy.routes import accepted_types
from rmqcli.broker.tables.attributes import message_type
from rmqcli.client import Admin
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import (
    AddressScheme,
    ClientType,
    Code,
    Encoding,
    MessageType,
    Permission,
    QueryOffsetPolicy,
    TransactionResolution,
    TransactionSource,
)
from rmqcli.codec.proxy.framing import GrpcStatus
from tests.broker.proxy.calls import (
    cluster_with_grpc,
    connected,
    message,
    of_consumer,
    of_producer,
    pulled,
    topic,
)


async def test_a_route_names_the_address_that_the_client_used(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        used = messages.Endpoints(
            scheme=AddressScheme.DOMAIN_NAME, addresses=[messages.Address(host="forward.test", port=17_881)]
        )
        route = await stub("QueryRoute", topic=topic("orders"), endpoints=used)
        assert route.status.code == Code.OK
        assert [queue.id for queue in route.message_queues] == list(range(8))
        first = route.message_queues[0]
        assert (first.permission, first.broker.name, first.broker.id) == (
            Permission.READ_WRITE,
            "broker-a",
            0,
        )
        assert first.broker.endpoints == used
        assert {*first.accept_message_types} == {1, 2, 3, 4}
        without = await stub("QueryRoute", topic=topic("orders"))
        (address,) = without.message_queues[0].broker.endpoints.addresses
        assert (address.host, address.port) == ("broker.test", 8081)


async def test_a_topic_that_is_missing(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc(auto_create_topic_enable=False) as cluster:
        stub = await connected(nursery, cluster)
        assert (await stub("QueryRoute", topic=topic("orders"))).status.code == Code.TOPIC_NOT_FOUND
        sent = await stub("SendMessage", messages=[message("orders")])
        assert sent.status.code == Code.TOPIC_NOT_FOUND
        assert (await stub("QueryRoute", topic=topic("a b"))).status.code == Code.ILLEGAL_TOPIC


async def test_a_call_without_client_id_and_an_unknown_method(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster, client_id="")
        assert (await stub("Heartbeat")).status.code == Code.CLIENT_ID_REQUIRED
        answer = await stub.client.ask("/apache.rocketmq.v2.MessagingService/SyncLiteSubscription", b"")
        assert answer.status == GrpcStatus.UNIMPLEMENTED
        answer = await stub.client.ask("/apache.rocketmq.v2.MessagingService/QueryRoute", b"\xff\xff")
        assert answer.status == GrpcStatus.INTERNAL


async def test_a_message_reaches_a_consumer_of_remoting_whole(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        one = message("orders", b"x", tag="paid", keys=["k1", "k2"], user_properties={"colour": "red"})
        packed = message("orders", gzip.compress(b"y" * 100_000), body_encoding=Encoding.GZIP)
        for each in (one, packed):
            sent = await stub("SendMessage", messages=[each])
            assert (sent.status.code, sent.entries[0].status.code) == (Code.OK, Code.OK)
            assert sent.entries[0].message_id == each.system_properties.message_id
            assert not sent.entries[0].transaction_id and not sent.entries[0].recall_handle
        found = {found.msg_id: found for found in await pulled(cluster, "orders")}
        got = found[one.system_properties.message_id]
        assert (got.body, got.tags, got.keys, got.properties["colour"]) == (b"x", "paid", ["k1", "k2"], "red")
        assert found[packed.system_properties.message_id].body == b"y" * 100_000


async def test_messages_sent_together_stay_together(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        sent = await stub("SendMessage", messages=[message("orders", b"%d" % n) for n in range(20)])
        assert sent.status.code == Code.OK
        assert [entry.offset for entry in sent.entries] == list(range(20))
        assert [one.body for one in await pulled(cluster, "orders")] == [b"%d" % n for n in range(20)]
        mixed = await stub("SendMessage", messages=[message("orders"), message("others")])
        assert mixed.status.code == Code.BAD_REQUEST
        fifo = [message("orders", kind=MessageType.FIFO, message_group="g") for _ in range(2)]
        assert (await stub("SendMessage", messages=fifo)).status.code == Code.BAD_REQUEST


async def test_messages_of_a_group_go_to_one_queue(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        for n in range(60):
            one = message("orders", b"%d" % n, MessageType.FIFO, message_group=f"group-{n % 6}")
            assert (await stub("SendMessage", messages=[one])).status.code == Code.OK
        queues: dict[str, set[int]] = {}
        for got in await pulled(cluster, "orders"):
            queues.setdefault(got.properties["__SHARDINGKEY"], set()).add(got.queue_id)
        assert len(queues) == 6 and all(len(ids) == 1 for ids in queues.values())
        assert len(set.union(*queues.values())) > 2


async def test_a_delay_and_its_recall(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        due = messages.Timestamp(seconds=cluster.now_ms() // 1000 + 90)
        sent = [
            await stub(
                "SendMessage", messages=[message("orders", body, MessageType.DELAY, delivery_timestamp=due)]
            )
            for body in (b"kept", b"recalled")
        ]
        handle = sent[1].entries[0].recall_handle
        recalled = await stub("RecallMessage", topic=topic("orders"), recall_handle=handle)
        assert (recalled.status.code, recalled.message_id) == (Code.OK, sent[1].entries[0].message_id)
        assert (
            await stub("RecallMessage", topic=topic("orders"), recall_handle="x")
        ).status.code == Code.BAD_REQUEST
        await stub("QueryRoute", topic=topic("orders"))
        assert await pulled(cluster, "orders") == []
        await trio.sleep(95)
        assert [one.body for one in await pulled(cluster, "orders")] == [b"kept"]


BAD = [
    ({"tag": "a|b"}, Code.ILLEGAL_MESSAGE_TAG),
    ({"tag": " "}, Code.ILLEGAL_MESSAGE_TAG),
    ({"tag": "a\1b"}, Code.ILLEGAL_MESSAGE_TAG),
    ({"keys": ["ok", " "]}, Code.ILLEGAL_MESSAGE_KEY),
    ({"keys": ["a\2TAGS\1x"]}, Code.ILLEGAL_MESSAGE_KEY),
    ({"message_group": "g" * 64, "message_type": 2}, Code.ILLEGAL_MESSAGE_GROUP),
    ({"message_group": "", "message_type": 2}, Code.ILLEGAL_MESSAGE_GROUP),
    ({"message_id": ""}, Code.ILLEGAL_MESSAGE_ID),
    ({"user_properties": {"UNIQ_KEY": "x"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ({"user_properties": {"TIMER_DELIVER_MS": "1"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ({"user_properties": {"a": "b\2TAGS\1forged"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ({"user_properties": {str(n): "" for n in range(129)}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ({"user_properties": {"a": "x" * 16_384}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ({"keys": ["k" * 33_000]}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ({"body": b""}, Code.MESSAGE_BODY_EMPTY),
    ({"body": bytes(4 * 1024 * 1024 + 1)}, Code.MESSAGE_BODY_TOO_LARGE),
    ({"body": b"not gzip", "body_encoding": 2}, Code.MESSAGE_CORRUPTED),
    ({"body": gzip.compress(bytes(10**6))[:-20], "body_encoding": 2}, Code.MESSAGE_CORRUPTED),
    ({"body": gzip.compress(bytes(10**7)), "body_encoding": 2}, Code.MESSAGE_BODY_TOO_LARGE),
    ({"delivery_timestamp": messages.Timestamp(seconds=2_000_000_000)}, Code.ILLEGAL_DELIVERY_TIME),
    ({"message_type": 5}, Code.UNSUPPORTED),
]


@pytest.mark.parametrize(("wrong", "code"), BAD)
async def test_a_message_that_cannot_be_sent(
    nursery: trio.Nursery, autojump_clock: MockClock, wrong: dict[str, Any], code: Code
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        sent = await stub("SendMessage", messages=[message("orders", **wrong)])
        assert (sent.status.code, bool(sent.status.message)) == (code, True)
        await stub("QueryRoute", topic=topic("orders"))
        assert await pulled(cluster, "orders") == []


# Transactions


async def begun(stub: Any, body: bytes = b"half") -> Any:
    one = message("orders", body, MessageType.TRANSACTION)
    sent = await stub("SendMessage", messages=[one])
    assert sent.status.code == Code.OK
    return sent.entries[0]


@pytest.mark.parametrize("resolution", [TransactionResolution.COMMIT, TransactionResolution.ROLLBACK])
async def test_the_end_of_a_transaction(
    nursery: trio.Nursery, autojump_clock: MockClock, resolution: TransactionResolution
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        entry = await begun(stub)
        ended = await stub(
            "EndTransaction",
            topic=topic("orders"),
            message_id=entry.message_id,
            transaction_id=entry.transaction_id,
            resolution=resolution,
            source=TransactionSource.SOURCE_CLIENT,
        )
        assert ended.status.code == Code.OK
        is_commit = resolution is TransactionResolution.COMMIT
        assert [one.body for one in await pulled(cluster, "orders")] == [b"half"] * is_commit
        await trio.sleep(300)  # it is not checked
        assert [one.body for one in await pulled(cluster, "orders")] == [b"half"] * is_commit


async def test_transaction_ids_that_are_not_ours(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        entry = await begun(stub)
        place = entry.transaction_id[:16]
        commit = {"message_id": "x", "resolution": TransactionResolution.COMMIT}
        for name, text in [
            ("orders", ""),
            ("orders", "0" * 31),
            ("orders", "7" + "F" * 31),
            ("orders", f"{int(place, 16) + 1:016X}{0:016X}"),
            ("others", entry.transaction_id),
        ]:
            ended = await stub("EndTransaction", topic=topic(name), transaction_id=text, **commit)
            assert ended.status.code == Code.INVALID_TRANSACTION_ID, text
        wrong = f"{place}{5:016X}"
        ended = await stub("EndTransaction", topic=topic("orders"), transaction_id=wrong, **commit)
        assert ended.status.code == Code.INTERNAL_SERVER_ERROR
        unsure = await stub("EndTransaction", topic=topic("orders"), transaction_id=entry.transaction_id)
        assert unsure.status.code == Code.BAD_REQUEST
        assert await pulled(cluster, "orders") == []


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        (b"\xff", GrpcStatus.INTERNAL, "decoded"),
        (bytes(1 << 18) + b"\0", GrpcStatus.RESOURCE_EXHAUSTED, "bytes"),
    ],
)
async def test_a_telemetry_command_that_cannot_be_ends_the_stream(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    command: bytes,
    status: GrpcStatus,
    text: str,
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        told = await stub.telemetry(of_producer("orders"))
        assert (await told.next()).status.code == Code.OK
        await stub.client.send(told.number, command)
        answer = await stub.client.end(told.number)
        assert (answer.status, text in answer.trailers["grpc-message"]) == (status, True)
        assert not caplog.records


async def test_an_orphan_is_recovered_by_telemetry(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        told = await stub.telemetry(of_producer("orders"))
        assert (await told.next()).status.code == Code.OK
        entry = await begun(stub, b"orphan")

        async def beat() -> None:
            while True:
                await trio.sleep(10)
                assert (await stub("Heartbeat", client_type=ClientType.PRODUCER)).status.code == Code.OK

        nursery.start_soon(beat)
        command = (await told.next()).recover_orphaned_transaction_command
        assert command.message.system_properties.message_id == entry.message_id
        assert (command.message.body, command.message.topic.name) == (b"orphan", "orders")
        # The two rules without which the Node client never ends it.
        system = command.message.system_properties
        assert system.body_digest.checksum == hashlib.md5(b"orphan").hexdigest().upper()
        assert system.body_encoding == Encoding.IDENTITY
        ended = await stub(
            "EndTransaction",
            topic=topic("orders"),
            message_id=entry.message_id,
            transaction_id=command.transaction_id,
            resolution=TransactionResolution.COMMIT,
            source=TransactionSource.SOURCE_SERVER_CHECK,
        )
        assert ended.status.code == Code.OK
        assert [one.body for one in await pulled(cluster, "orders")] == [b"orphan"]


# Clients


async def test_settings_of_a_producer(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        told = await stub.telemetry(of_producer("orders", "others"))
        command = await told.next()
        settings = command.settings
        assert (command.status.code, settings.client_type) == (Code.OK, ClientType.PRODUCER)
        assert settings.publishing.max_body_size == 4 * 1024 * 1024
        assert [one.name for one in settings.publishing.topics] == ["orders", "others"]
        assert settings.backoff_policy.WhichOneof("strategy") == "exponential_backoff"
        assert (settings.backoff_policy.max_attempts, settings.metric.on) == (3, False)


@pytest.mark.parametrize(
    ("language", "form"), [("PYTHON", "customized_backoff"), ("HTTP", "exponential_backoff")]
)
async def test_settings_of_a_consumer(
    nursery: trio.Nursery, autojump_clock: MockClock, language: str, form: str
) -> None:
    """Node has no customized backoff, Python ignores the number of attempts of an exponential one."""
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster, language=language)
        told = await stub.telemetry(of_consumer("billing", "orders"))
        settings = (await told.next()).settings
        assert settings.backoff_policy.WhichOneof("strategy") == form
        assert settings.backoff_policy.max_attempts == 17
        subscription = settings.subscription
        assert (subscription.group.name, subscription.fifo, subscription.receive_batch_size) == (
            "billing",
            False,
            32,
        )
        assert subscription.long_polling_timeout.seconds == 20


async def test_settings_reach_node_after_its_last_route(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster, language="HTTP")
        began = trio.current_time()
        told = await stub.telemetry(of_producer("a", "b", "c"))
        for n in range(3):
            await trio.sleep(1)
            await stub("QueryRoute", topic=topic("abc"[n]))
        assert (await told.next()).HasField("settings")
        assert trio.current_time() - began == pytest.approx(4.5, abs=0.1)


async def test_a_client_whose_settings_are_unknown_is_served(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        assert (await stub("Heartbeat", group=topic("billing"), client_type=2)).status.code == Code.OK
        assigned = await stub("QueryAssignment", topic=topic("orders"), group=topic("billing"))
        assert [one.message_queue.id for one in assigned.assignments] == [-1]
        ended = await stub("NotifyClientTermination", group=topic("billing"))
        assert ended.status.code == Code.OK


async def test_members_come_and_go(nursery: trio.Nursery, autojump_clock: MockClock) -> None:

    async with cluster_with_grpc() as cluster, Admin(**cluster.client()) as admin:
        stubs = [await connected(nursery, cluster, client_id=f"c{n}") for n in range(3)]
        for stub in stubs:
            told = await stub.telemetry(of_consumer("billing", "orders"))
            await told.next()

        async def members() -> set[str]:
            found = await admin.clients.consumers("billing")
            return {one.client_id for one in found.connection_set}

        assert await members() == {"c0", "c1", "c2"}
        await stubs[0]("NotifyClientTermination", group=topic("billing"))
        assert await members() == {"c1", "c2"}
        await stubs[1].client.stream.aclose()  # it dies
        for _ in range(4):
            await trio.sleep(10)
            await stubs[2]("Heartbeat", group=topic("billing"), client_type=2)
        assert await members() == {"c2"}


# Pull


async def test_a_queue_is_read_by_offsets(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc(default_topic_queue_nums=1) as cluster:
        stub = await connected(nursery, cluster)
        await stub("SendMessage", messages=[message("orders", b"%d" % n, tag="ab"[n % 2]) for n in range(40)])
        queue = messages.MessageQueue(topic=topic("orders"), id=0)
        place = {"group": topic("billing"), "message_queue": queue}
        replies = await stub.stream("PullMessage", offset=10, batch_size=20, **place)
        assert replies[0].status.code == Code.OK and replies[-1].next_offset == 30
        assert [one.message.body for one in replies[1:-1]] == [b"%d" % n for n in range(10, 30)]
        wanted = messages.FilterExpression(type=1, expression="b")
        replies = await stub.stream("PullMessage", offset=0, batch_size=32, filter_expression=wanted, **place)
        assert {one.message.system_properties.tag for one in replies[1:-1]} == {"b"}
        assert (await stub("GetOffset", **place)).status.code == Code.OFFSET_NOT_FOUND
        assert (await stub("UpdateOffset", offset=17, **place)).status.code == Code.OK
        assert (await stub("GetOffset", **place)).offset == 17
        offsets = [
            (await stub("QueryOffset", message_queue=queue, query_offset_policy=policy)).offset
            for policy in (QueryOffsetPolicy.BEGINNING, QueryOffsetPolicy.END)
        ]
        assert offsets == [0, 40]
        wrong = messages.MessageQueue(topic=topic("orders"), id=7)
        assert (await stub("QueryOffset", message_queue=wrong)).status.code == Code.BAD_REQUEST
        replies = await stub.stream("PullMessage", offset=99, batch_size=1, **place)
        assert (replies[0].status.code, replies[-1].next_offset) == (Code.ILLEGAL_OFFSET, 40)


async def test_a_pull_waits_for_a_message_that_it_wants(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc(default_topic_queue_nums=1) as cluster:
        stub, other = await connected(nursery, cluster), await connected(nursery, cluster, client_id="c2")
        await stub("QueryRoute", topic=topic("orders"))
        place = {
            "group": topic("billing"),
            "message_queue": messages.MessageQueue(topic=topic("orders"), id=0),
        }
        poll = {"batch_size": 9, "long_polling_timeout": messages.Duration(seconds=20), **place}
        wanted = messages.FilterExpression(type=1, expression="b")
        began = trio.current_time()
        replies = await stub.stream("PullMessage", filter_expression=wanted, **poll)
        assert [replies[0].status.code, replies[-1].next_offset] == [Code.MESSAGE_NOT_FOUND, 0]
        assert trio.current_time() - began == pytest.approx(20, abs=0.2)
        async with trio.open_nursery() as sending:

            async def send() -> None:
                await trio.sleep(5)
                await other("SendMessage", messages=[message("orders", b"no", tag="a")])
                await trio.sleep(5)
                await other("SendMessage", messages=[message("orders", b"yes", tag="b")])

            sending.start_soon(send)
            began = trio.current_time()
            replies = await stub.stream("PullMessage", filter_expression=wanted, **poll)
        assert [one.message.body for one in replies[1:-1]] == [b"yes"]
        assert trio.current_time() - began == pytest.approx(10, abs=0.2)


KINDS = {
    MessageType.NORMAL: {},
    MessageType.FIFO: {"message_group": "g"},
    MessageType.DELAY: {"delivery_timestamp": messages.Timestamp(seconds=2_000_000_000)},
    MessageType.TRANSACTION: {},
    MessageType.PRIORITY: {"priority": 3},
}


@pytest.mark.parametrize("attribute", [None, "FIFO", "UNSPECIFIED", "PRIORITY"])
async def test_types_of_messages_are_checked_if_that_is_wanted(
    nursery: trio.Nursery, autojump_clock: MockClock, attribute: str | None
) -> None:
    async with cluster_with_grpc(
        enable_topic_message_type_check=True, timer_max_delay_sec=2**31 - 1
    ) as cluster:
        async with Admin(**cluster.client()) as admin:
            given: Any = {} if attribute is None else {"attributes": f"+message.type={attribute}"}
            await admin.topics.create("orders", **given)
        stub = await connected(nursery, cluster)
        name = attribute or "NORMAL"
        allowed = {kind for kind in KINDS if name == kind.name}
        route = await stub("QueryRoute", topic=topic("orders"))
        assert {*route.message_queues[0].accept_message_types} == allowed
        for kind, system in KINDS.items():
            sent = await stub("SendMessage", messages=[message("orders", kind=kind, **system)])
            if kind in allowed:
                assert sent.status.code == Code.OK, sent.status
            else:
                assert sent.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
                assert f"the expected type is {name}, but actual type is {kind.name}" in sent.status.message
        recalled = await stub("RecallMessage", topic=topic("orders"), recall_handle="no")
        is_refused = recalled.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert is_refused == (MessageType.DELAY not in allowed)


def test_a_topic_of_a_java_store_may_have_mixed_types() -> None:
    backend: Any = SimpleNamespace(checks_types=True)
    config = TopicConfig(topic_name="orders", attributes={"message.type": "MIXED"})
    assert set(accepted_types(backend, message_type(config))) == set(KINDS) - {MessageType.PRIORITY}


async def test_only_a_topic_for_priorities_names_them(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        async with Admin(**cluster.client()) as admin:
            await admin.topics.create("jobs", attributes="+message.type=PRIORITY")
        stub = await connected(nursery, cluster)
        route = await stub("QueryRoute", topic=topic("jobs"))
        assert {*route.message_queues[0].accept_message_types} == set(KINDS)
        route = await stub("QueryRoute", topic=topic("orders"))
        assert {*route.message_queues[0].accept_message_types} == set(KINDS) - {MessageType.PRIORITY}
        for n in (2, 9, 0):
            sent = await stub(
                "SendMessage", messages=[message("jobs", b"%d" % n, MessageType.PRIORITY, priority=n)]
            )
            assert sent.status.code == Code.OK, sent.status
        refused = await stub(
            "SendMessage", messages=[message("jobs", kind=MessageType.PRIORITY, priority=-1)]
        )
        assert refused.status.code == Code.BAD_REQUEST
        assert {one.body: one.queue_id for one in await pulled(cluster, "jobs")} == {
            b"0": 0,
            b"2": 2,
            b"9": 7,
        }
