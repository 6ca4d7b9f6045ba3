"""Receives, acknowledgements and their handles through a proxy of two brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.services.pop.engine import Pops
from rmqcli.broker.testing.in_memory import MemoryCluster, embedded_in_memory
from rmqcli.client import Admin, Credentials, Message, Producer
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.running import CMResult
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code, MessageType, QueryOffsetPolicy
from tests.broker.proxy.calls import Stub, connected, message, of_consumer, pulled, topic
from tests.broker.proxy.receives import METHOD, ack, change, handle_of, received, wanted
from tests.broker.proxy.signing import ACCOUNTS, MOMENT, SECRET, signed
from tests.proxy.proxies import BROKERS, create, proxy_of, two_brokers


async def prepared(nursery: trio.Nursery, cluster: MemoryCluster, **group: Any) -> Stub:
    """A client; the topic orders exists, and the group billing has begun."""
    await create(cluster, "orders")
    async with Admin(**cluster.client()) as admin:
        await admin.groups.create(SubscriptionGroupConfig(group_name="billing", **group))
    stub = await connected(nursery, cluster)
    await stub("QueryRoute", topic=topic("orders"))
    return stub


async def send(stub: Stub, *bodies: bytes, **system: Any) -> None:
    for body in bodies:
        sent = await stub("SendMessage", messages=[message("orders", body, **system)])
        assert sent.status.code == Code.OK, sent.status


async def drained(stub: Stub, **more: Any) -> list[Any]:
    """The messages of all receives until one is empty."""
    found: list[Any] = []
    while some := await received(stub, **more):
        found += some
    return found


async def test_messages_of_all_brokers_are_received_and_acknowledged(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        await send(stub, *(b"%d" % number for number in range(12)), tag="t")
        async with Producer("p", **cluster.client()) as producer:
            await producer.send(Message.of("orders", b"z" * 10_000, tags="t"))  # compressed
            await producer.send(Message.of("orders", b"other", tags="o"))
        only = messages.FilterExpression(type=1, expression="t")
        found = await drained(stub, filter_expression=only)
        assert sorted(one.body for one in found) == sorted(
            [*(b"%d" % number for number in range(12)), b"z" * 10_000]
        )
        assert {one.system_properties.delivery_attempt for one in found} == {1}
        handles = [handle_of(one) for one in found]
        assert {handle.split()[5] for handle in handles} == BROKERS
        done = await ack(stub, *handles[1:])
        assert done.status.code == Code.OK
        await trio.sleep(40)
        (again,) = await received(stub)
        assert (again.body, again.system_properties.delivery_attempt) == (found[0].body, 2)
        late = await ack(stub, handles[0])
        assert late.status.code == Code.INVALID_RECEIPT_HANDLE
        for wrong in ("nonsense", handles[0].replace("broker-", "other-")):
            assert (await ack(stub, wrong)).status.code == Code.INVALID_RECEIPT_HANDLE


@pytest.mark.parametrize("broker", [0, 8])
async def test_a_receive_waits_for_all_brokers(
    nursery: trio.Nursery, autojump_clock: MockClock, broker: int
) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        began = trio.current_time()
        assert await received(stub) == []
        assert trio.current_time() - began == pytest.approx(20, abs=0.1)
        async with Producer("p", **cluster.client()) as producer:

            async def later() -> None:
                await trio.sleep(4)
                queues = await producer.message_queues("orders")
                await producer.send(Message.of("orders", b"x"), queue=queues[broker])

            nursery.start_soon(later)
            began = trio.current_time()
            (one,) = await received(stub)
            assert one.body == b"x" and trio.current_time() - began == pytest.approx(4, abs=0.1)


async def test_many_receives_wait_by_one_request_for_each_broker(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        found: list[bytes] = []

        async def receive(number: int) -> None:
            one = await connected(nursery, cluster, client_id=f"c{number}")
            found.extend(message.body for message in await received(one, batch_size=1))

        async with trio.open_nursery() as receiving:
            for number in range(20):
                receiving.start_soon(receive, number)
            await trio.sleep(3)
            await send(stub, *(b"%d" % number for number in range(20)))
        assert sorted(found) == sorted(b"%d" % number for number in range(20))


@pytest.mark.parametrize("has_messages", [True, False])
async def test_a_broker_that_answers_at_once_is_not_asked_without_a_pause(
    nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, has_messages: bool
) -> None:
    asked = 0

    async def at_once(*_arguments: Any) -> bool:
        nonlocal asked
        asked += 1
        return has_messages

    monkeypatch.setattr(Pops, "notified", at_once)
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        assert await received(stub) == []
        assert 20 < asked < 100


async def test_a_receive_whose_call_ends_leaves_its_messages_to_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        number = stub.client.open(METHOD.path)
        await stub.client.send(number, METHOD.request(**wanted()).SerializeToString(), end=True)
        await trio.sleep(1)
        stub.client.h2.reset_stream(number)
        await stub.client.flush()
        await send(stub, b"x")
        began = trio.current_time()
        (one,) = await received(stub)
        assert one.body == b"x" and trio.current_time() - began < 1


async def test_another_invisible_time_even_none(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        await send(stub, b"x")
        (one,) = await received(stub)
        longer = await change(stub, handle_of(one), 60)
        assert longer.status.code == Code.OK and longer.receipt_handle != handle_of(one)
        await trio.sleep(45)
        assert await received(stub, long_polling_timeout=messages.Duration(seconds=5)) == []
        assert (await change(stub, longer.receipt_handle, 0)).status.code == Code.OK
        (again,) = await received(stub)
        assert again.system_properties.delivery_attempt == 2


async def test_a_message_is_forwarded_to_the_dead_letters(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        await send(stub, b"x", keys=["k"])
        (one,) = await received(stub)
        forwarded = await stub(
            "ForwardMessageToDeadLetterQueue",
            group=topic("billing"),
            topic=topic("orders"),
            receipt_handle=handle_of(one),
            message_id=one.system_properties.message_id,
        )
        assert forwarded.status.code == Code.OK
        await trio.sleep(60)
        assert await received(stub) == []
        (dead,) = await pulled(cluster, "%DLQ%billing")
        assert (dead.body, dead.keys) == (b"x", ["k"])


async def test_a_message_whose_attempts_are_used_up_is_a_dead_letter(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster, retry_max_times=2)
        await send(stub, b"x")
        attempts = []
        for _ in range(5):
            found = await received(stub)
            attempts += [one.system_properties.delivery_attempt for one in found]
            await trio.sleep(31)
        assert attempts == [1, 2, 3]
        (dead,) = await pulled(cluster, "%DLQ%billing")
        assert dead.body == b"x"


async def test_a_group_that_consumes_in_order(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster, consume_message_orderly=True)
        for number in range(4):
            await send(stub, b"%d" % number, kind=MessageType.FIFO, message_group="g")
        first = await received(stub, batch_size=2)
        assert [one.body for one in first] == [b"0", b"1"]
        short = messages.Duration(seconds=5)
        assert await received(stub, batch_size=2, long_polling_timeout=short) == []
        assert (await ack(stub, handle_of(first[0]))).status.code == Code.OK
        await trio.sleep(30)
        (second,) = await received(stub, batch_size=1)
        assert (second.body, second.system_properties.delivery_attempt) == (b"1", 2)
        assert (await ack(stub, handle_of(second))).status.code == Code.OK
        rest = await received(stub)
        assert [one.body for one in rest] == [b"2", b"3"]


async def test_renewed_messages_stay_with_a_push_consumer_until_it_leaves(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        told = await stub.telemetry(of_consumer("billing", "orders"))
        assert (await told.next()).status.code == Code.OK
        await send(stub, b"x", b"y")
        held: list[Any] = []
        while len(held) < 2:
            held += await received(stub, auto_renew=True)

        async def beat() -> None:
            while True:
                await trio.sleep(10)
                await stub("Heartbeat", group=topic("billing"), client_type=2)

        async with trio.open_nursery() as beating:
            beating.start_soon(beat)
            await trio.sleep(150)
            other = await connected(nursery, cluster, client_id="c2")
            assert await received(other) == []
            # The handles of the client stay valid, whatever the proxy has renewed.
            done = await ack(stub, *(handle_of(one) for one in held if one.body == b"x"))
            assert done.status.code == Code.OK
            beating.cancel_scope.cancel()
        left = await stub("NotifyClientTermination", group=topic("billing"))
        assert left.status.code == Code.OK
        (one,) = await received(other)
        assert (one.body, one.system_properties.delivery_attempt) == (b"y", 2)


async def test_a_broker_that_dies_and_returns(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        await send(stub, *(b"%d" % number for number in range(16)))
        cluster.cut(cluster.broker_address, 60)
        began = trio.current_time()
        found = await drained(stub)
        assert {handle_of(one).split()[5] for one in found} == {"broker-b"}
        assert trio.current_time() - began < 45
        for one in found:
            assert (await ack(stub, handle_of(one))).status.code == Code.OK
        await trio.sleep(max(0, began + 61 - trio.current_time()))
        rest = await drained(stub)
        assert {handle_of(one).split()[5] for one in rest} == {"broker-a"}
        assert sorted(int(one.body) for one in [*found, *rest]) == list(range(16))


async def test_a_topic_may_come_to_exist_while_a_receive_waits(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with two_brokers() as cluster:
        stub = await connected(nursery, cluster)

        async def later() -> None:
            await trio.sleep(6)
            other = await connected(nursery, cluster, client_id="c2")
            await other("SendMessage", messages=[message("orders", b"x")])

        nursery.start_soon(later)
        (one,) = await received(stub)
        assert one.body == b"x"


async def test_brokers_know_the_proxy_as_a_member(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster, Admin(**cluster.client()) as admin:
        stub = await prepared(nursery, cluster)
        told = await stub.telemetry(of_consumer("billing", "orders", expression="t"))
        assert (await told.next()).status.code == Code.OK
        connection = await admin.clients.consumers("billing")
        (member,) = connection.connection_set
        assert connection.subscription_table["orders"].sub_string == "t"
        await send(stub, b"x")
        (one,) = await pulled(cluster, "orders")

        async def consume() -> None:
            command = (await told.next()).verify_message_command
            assert command.message.body == b"x"
            result = messages.VerifyMessageResult(nonce=command.nonce)
            await told.send(verify_message_result=result, status=messages.Status(code=Code.OK))

        nursery.start_soon(consume)
        asked = await admin.clients.consume_directly("billing", member.client_id, one)
        assert asked.consume_result == CMResult.CR_SUCCESS
        left = await stub("NotifyClientTermination", group=topic("billing"))
        assert left.status.code == Code.OK
        await trio.sleep(1)
        with pytest.raises(Exception, match="not online"):
            await admin.clients.consumers("billing")


async def test_offsets_of_a_named_broker(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster:
        stub = await prepared(nursery, cluster)
        async with Producer("p", **cluster.client()) as producer:
            queue = (await producer.message_queues("orders"))[8]
            for number in range(5):
                await producer.send(Message.of("orders", b"%d" % number), queue=queue)
        named = messages.Broker(name=queue.broker_name)
        place = messages.MessageQueue(topic=topic("orders"), id=queue.queue_id, broker=named)
        ends = [
            (await stub("QueryOffset", message_queue=place, query_offset_policy=policy)).offset
            for policy in (QueryOffsetPolicy.BEGINNING, QueryOffsetPolicy.END)
        ]
        assert ends == [0, 5]
        of_group = {"group": topic("billing"), "message_queue": place}
        assert (await stub("GetOffset", **of_group)).status.code == Code.OFFSET_NOT_FOUND
        assert (await stub("UpdateOffset", offset=3, **of_group)).status.code == Code.OK
        assert (await stub("GetOffset", **of_group)).offset == 3
        replies = await stub.stream("PullMessage", offset=2, batch_size=2, **of_group)
        assert [one.message.body for one in replies[1:-1]] == [b"2", b"3"]
        assert replies[-1].next_offset == 4
        began = trio.current_time()
        poll = {"batch_size": 9, "long_polling_timeout": messages.Duration(seconds=9)}
        replies = await stub.stream("PullMessage", offset=5, **poll, **of_group)
        assert replies[0].status.code == Code.MESSAGE_NOT_FOUND and trio.current_time() - began >= 8
        unnamed = messages.MessageQueue(topic=topic("orders"), id=0)
        refused = await stub("GetOffset", group=topic("billing"), message_queue=unnamed)
        assert refused.status.code == Code.BAD_REQUEST and "2 brokers" in refused.status.message


async def test_accounts_of_the_callers_and_of_the_proxy(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    rules: dict[str, Any] = {"acl_enable": True, "plain_acl_file": str(file)}
    account = Credentials("operator", "secret-of-operator")
    async with (
        embedded_in_memory(store=tmp_path / "store", **rules) as cluster,
        proxy_of(cluster, {"credentials": account}, **rules),
    ):
        stub = await connected(nursery, cluster, date_time=MOMENT)
        for authorization, name, code in [
            ("", "orders", Code.UNAUTHORIZED),
            (signed(secret="wrong"), "orders", Code.UNAUTHORIZED),
            (signed(), "others", Code.UNAUTHORIZED),
            (signed(), "orders", Code.OK),
        ]:
            stub.client.headers["authorization"] = authorization
            assert (await stub("SendMessage", messages=[message(name)])).status.code == code


async def test_what_the_account_of_the_proxy_may_not_do_is_forbidden(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    async with (
        embedded_in_memory(store=tmp_path / "store", acl_enable=True, plain_acl_file=str(file)) as cluster,
        proxy_of(cluster, {"credentials": Credentials("writer-1", SECRET)}),
    ):
        stub = await connected(nursery, cluster)
        for name, code in (("orders", Code.OK), ("others", Code.FORBIDDEN)):
            assert (await stub("SendMessage", messages=[message(name)])).status.code == code


async def test_a_name_server_that_does_not_respond_is_reported(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with embedded_in_memory() as cluster, proxy_of(cluster, {"namesrv": "127.0.0.1:1"}):
        stub = await connected(nursery, cluster)
        route = await stub("QueryRoute", topic=topic("orders"))
        assert route.status.code == Code.INTERNAL_SERVER_ERROR and "127.0.0.1:1" in route.status.message
    (line,) = [one.getMessage() for one in caplog.records if one.name == "rmqcli.proxy"]
    assert "127.0.0.1:1" in line and "until it responds" in line
