"""Receives, acknowledgements and their handles, as the official consumers use them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import h2.errors
import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.proxy.calling import Caller
from rmqcli.broker.proxy.embedded import EmbeddedBackend
from rmqcli.broker.proxy.http2 import Call
from rmqcli.client import Message, Producer
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code, Encoding
from tests.broker.proxy.calls import cluster_with_grpc, connected, message, of_consumer, topic
from tests.broker.proxy.receives import METHOD, ack, change, handle_of, received, wanted


async def test_status_messages_and_time_come_in_this_order(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        await stub(
            "SendMessage",
            messages=[message("orders", b"x", tag="paid", keys=["k"], user_properties={"a": "b"})],
        )
        replies = await stub.stream("ReceiveMessage", **wanted())
        assert [one.WhichOneof("content") for one in replies] == ["status", "message", "delivery_timestamp"]
        assert replies[0].status.code == Code.OK
        one, system = replies[1].message, replies[1].message.system_properties
        assert (one.body, system.tag, [*system.keys], dict(one.user_properties)) == (
            b"x",
            "paid",
            ["k"],
            {"a": "b"},
        )
        # What clients cannot do without.
        assert system.body_digest.checksum == hashlib.md5(b"x").hexdigest().upper()
        assert (system.body_encoding, system.delivery_attempt) == (Encoding.IDENTITY, 1)
        assert system.invisible_duration.seconds == 30 and one.topic.name == "orders"


async def test_an_empty_receive_waits_and_then_has_a_status_only(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        began = trio.current_time()
        replies = await stub.stream("ReceiveMessage", **wanted())
        assert [one.status.code for one in replies] == [Code.MESSAGE_NOT_FOUND]
        assert trio.current_time() - began == pytest.approx(20, abs=0.5)
        # Its answer leaves before the deadline of the client.
        stream = stub.client.open(METHOD.path, [("grpc-timeout", "8S")])
        await stub.client.send(stream, METHOD.request(**wanted()).SerializeToString(), end=True)
        assert (
            METHOD.reply.FromString(await stub.client.message(stream)).status.code == Code.MESSAGE_NOT_FOUND
        )
        assert (await stub.client.end(stream)).status == 0


async def test_a_receive_is_woken_by_a_message_of_remoting(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster, Producer("p", **cluster.client()) as producer:
        stub = await connected(nursery, cluster)
        await stub("QueryRoute", topic=topic("orders"))
        began = trio.current_time()

        async def later() -> None:
            await trio.sleep(4)
            await producer.send(Message.of("orders", b"z" * 10_000, tags="t", keys=["k1", "k2"]))

        nursery.start_soon(later)
        (one,) = await received(stub)
        assert trio.current_time() - began == pytest.approx(4, abs=0.5)
        assert (one.body, one.system_properties.tag, [*one.system_properties.keys]) == (
            b"z" * 10_000,
            "t",
            ["k1", "k2"],
        )


async def test_acknowledged_messages_never_return_and_others_do(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        await stub("SendMessage", messages=[message("orders", b"%d" % n) for n in range(4)])
        first = {one.body: one for one in await received(stub)}
        assert len(first) == 4
        done = await ack(stub, handle_of(first[b"0"]), handle_of(first[b"1"]))
        assert (done.status.code, [one.status.code for one in done.entries]) == (Code.OK, [Code.OK] * 2)
        twice = await ack(stub, handle_of(first[b"0"]), handle_of(first[b"2"]))
        assert twice.status.code == Code.MULTIPLE_RESULTS
        assert [one.status.code for one in twice.entries] == [Code.INVALID_RECEIPT_HANDLE, Code.OK]
        assert (await ack(stub, "nonsense")).status.code == Code.INVALID_RECEIPT_HANDLE
        await trio.sleep(35)
        (again,) = await received(stub)
        assert (again.body, again.system_properties.delivery_attempt) == (b"3", 2)
        assert again.topic.name == "orders"
        await ack(stub, handle_of(again))
        await trio.sleep(60)
        assert await received(stub) == []


async def test_another_invisible_time_even_none(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """The Node client asks for 0 when its listener fails."""
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        await stub("SendMessage", messages=[message("orders")])
        (one,) = await received(stub)
        longer = await change(stub, handle_of(one), 300)
        assert longer.status.code == Code.OK
        assert (await ack(stub, handle_of(one))).status.code == Code.INVALID_RECEIPT_HANDLE
        await trio.sleep(60)
        assert await received(stub) == []
        assert (await change(stub, longer.receipt_handle, 0)).status.code == Code.OK
        (again,) = await received(stub)
        assert again.system_properties.message_id == one.system_properties.message_id
        assert (await change(stub, handle_of(again), 50_000)).status.code == Code.ILLEGAL_INVISIBLE_TIME
        short = wanted(invisible_duration=messages.Duration(seconds=1))
        replies = await stub.stream("ReceiveMessage", **short)
        assert replies[0].status.code == Code.ILLEGAL_INVISIBLE_TIME


async def test_a_message_is_forwarded_to_the_dead_letters(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        await stub("SendMessage", messages=[message("orders", b"bad")])
        (one,) = await received(stub)
        place = {"group": topic("billing"), "topic": topic("orders"), "receipt_handle": handle_of(one)}
        assert (await stub("ForwardMessageToDeadLetterQueue", **place)).status.code == Code.OK
        again = await stub("ForwardMessageToDeadLetterQueue", **place)
        assert again.status.code == Code.INVALID_RECEIPT_HANDLE
        (letter,) = await received(stub, name="%DLQ%billing", group="readers")
        assert letter.body == b"bad"
        await trio.sleep(60)
        assert await received(stub) == []


async def test_tags_select(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        await stub("SendMessage", messages=[message("orders", b"%d" % n, tag="abc"[n % 3]) for n in range(9)])
        expression = messages.FilterExpression(type=1, expression="a || c")
        found = await received(stub, filter_expression=expression)
        assert {one.system_properties.tag for one in found} == {"a", "c"} and len(found) == 6


async def test_a_renewed_message_stays_with_its_client_until_it_leaves(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        told = await stub.telemetry(of_consumer("billing", "orders"))
        await told.next()
        await stub("SendMessage", messages=[message("orders", b"%d" % n) for n in range(2)])
        lent = {one.body: one for one in await received(stub, auto_renew=True)}
        assert len(lent) == 2
        for _ in range(60):
            await trio.sleep(10)
            await stub("Heartbeat", group=topic("billing"), client_type=2)
        other = await connected(nursery, cluster, client_id="other")  # connections without calls are closed
        assert await received(other) == []
        # The handle is still the one that the client got.
        assert (await ack(stub, handle_of(lent[b"0"]))).status.code == Code.OK
        await stub("NotifyClientTermination", group=topic("billing"))
        began = trio.current_time()
        (again,) = await received(other)
        assert (again.body, again.system_properties.delivery_attempt) == (b"1", 2)
        assert trio.current_time() - began < 2


async def test_a_client_that_dies_loses_its_messages_to_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        other = await connected(nursery, cluster, client_id="other")
        await (await stub.telemetry(of_consumer("billing", "orders"))).next()
        await stub("SendMessage", messages=[message("orders")])
        assert len(await received(stub, auto_renew=True)) == 1
        await stub.client.stream.aclose()
        began = trio.current_time()
        while not await received(other):
            assert trio.current_time() - began < 60
        assert trio.current_time() - began < 30


async def test_the_end_of_a_client_ends_its_receives(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The Node client waits for its long polls when it shuts down."""
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        await (await stub.telemetry(of_consumer("billing", "orders"))).next()
        began = trio.current_time()

        async def later() -> None:
            await trio.sleep(3)
            await stub("NotifyClientTermination", group=topic("billing"))

        nursery.start_soon(later)
        replies = await stub.stream("ReceiveMessage", **wanted())
        assert [one.status.code for one in replies] == [Code.MESSAGE_NOT_FOUND]
        assert trio.current_time() - began == pytest.approx(3, abs=0.5)


async def test_messages_that_a_reset_kept_back_are_received_at_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        other = await connected(nursery, cluster, client_id="other")
        for n in range(4):
            await stub("SendMessage", messages=[message("orders", bytes([n]) * 60_000)])
        stub.client.reads = False
        stream = stub.client.open(METHOD.path)
        await stub.client.send(stream, METHOD.request(**wanted()).SerializeToString(), end=True)
        await trio.sleep(1)
        stub.client.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        await stub.client.flush()
        began = trio.current_time()
        found = await received(other)
        assert len(found) >= 3 and trio.current_time() - began < 2
        assert {one.system_properties.delivery_attempt for one in found} == {1}


def reset(call: Call) -> None:
    frame = b"\0\0\4\3\0" + call.number.to_bytes(4, "big") + b"\0\0\0\x08"
    for _ in call.session.http2.receive(frame):
        pass


def expire(call: Call) -> None:
    call.deadline = trio.current_time()


@pytest.mark.parametrize("end", [reset, expire])
async def test_messages_that_were_lent_to_a_call_that_ends_are_received_at_once(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Call], None],
) -> None:
    """The client gives up between the pop and the reply, without a checkpoint in between."""
    receive = EmbeddedBackend.receive

    async def ending(backend: EmbeddedBackend, caller: Caller, *more: Any) -> Any:
        lent = await receive(backend, caller, *more)
        end(caller.call)
        return lent

    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        other = await connected(nursery, cluster, client_id="other")
        await (await stub.telemetry(of_consumer("billing", "orders"))).next()
        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedBackend, "receive", ending)
            stream = stub.client.open(METHOD.path)
            request = METHOD.request(**wanted(auto_renew=True)).SerializeToString()
            await stub.client.send(stream, request, end=True)
            await trio.sleep(1)
            await stub("SendMessage", messages=[message("orders")])
            await trio.sleep(1)
        began = trio.current_time()
        assert len(await received(other)) == 1
        assert trio.current_time() - began < 2
