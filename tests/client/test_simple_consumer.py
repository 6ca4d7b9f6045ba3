"""Messages that are received for a time, on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker import embedded_in_memory
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.client import (
    Admin,
    BrokerBusy,
    BrokerRefused,
    ConnectionFailed,
    ConnectionLost,
    ConsumeFromWhere,
    InvalidRequest,
    Message,
    MessageExt,
    MessageQueue,
    MessageSelector,
    NoRoute,
    NotFound,
    NotPermitted,
    NotSupported,
    Producer,
    SimpleConsumer,
    UnexpectedReply,
)
from rmqcli.client.pop.lent import add_handles
from rmqcli.client.produce.targets import by_queue_id
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.pop import (
    AckMessageRequestHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.receipt_handle import ReceiptHandle
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame
from tests.broker.auth.support import ORDINARY, guarded
from tests.client.scripted import Network, Reply, ok, refuse, route
from tests.codec.samples import make_record
from tests.codec.wire import load_wire

TOPIC, GROUP = "orders", "packers"
POP, ACK, CHANGE, NOTIFICATION = 200050, 200051, 200053, 200054
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def consuming(cluster: MemoryCluster, topics: Any = None, **options: Any) -> SimpleConsumer:
    given: dict[str, Any] = {"consume_from": FIRST, "await_duration": 5, **cluster.client(), **options}
    return SimpleConsumer(GROUP, topics or {TOPIC: "*"}, **given)


async def send(cluster: MemoryCluster, *bodies: str, topic: str = TOPIC, **options: Any) -> None:
    async with Producer("shop", **cluster.client()) as producer:
        for body in bodies:
            await producer.send(Message.of(topic, body, **options))


def to(queue: MessageQueue) -> Callable[..., MessageQueue]:
    return lambda _queues, _message: queue


def texts(messages: list[MessageExt]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


async def all_of(consumer: SimpleConsumer) -> list[MessageExt]:
    """Receives and acknowledges until there are no more messages."""
    found: list[MessageExt] = []
    while messages := await consumer.receive():
        for message in messages:
            await consumer.ack(message)
        found += messages
    return found


async def test_what_is_acknowledged_does_not_come_again(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster:
        await send(cluster, *"abcdefgh")
        async with consuming(cluster) as consumer:
            found = await all_of(consumer)
            assert texts(found) == list("abcdefgh")
            assert {message.queue_id for message in found} == {0, 1, 2, 3}
            assert {message.reconsume_times for message in found} == {0}
            await trio.sleep(100)
            assert await consumer.receive() == []


async def test_what_is_not_acknowledged_comes_again_under_its_topic(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster:
        await send(cluster, "a", tags="paid", keys=["k"])
        async with consuming(cluster, {TOPIC: "paid"}, await_duration=30) as consumer:
            for times in range(3):
                begun = trio.current_time()
                (message,) = await consumer.receive(1, 20)
                assert (message.topic, message.body, message.keys) == (TOPIC, b"a", ["k"])
                assert (message.reconsume_times, message.broker_name) == (times, "broker-a")
                assert not times or 19 < trio.current_time() - begun < 21
                assert ReceiptHandle.decode(message.properties[PropertyName.POP_CK]).retry == str(
                    min(1, times)
                )
            await consumer.ack(message)
            assert await consumer.receive() == []


async def test_a_receive_waits_for_messages(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, consuming(cluster) as consumer:
        await send(cluster, "a")
        await all_of(consumer)
        begun = trio.current_time()
        assert await consumer.receive() == [] and 4 < trio.current_time() - begun < 6
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_later, cluster, "b")
            begun = trio.current_time()
            assert texts(await consumer.receive()) == ["b"] and trio.current_time() - begun < 2.5


async def send_later(cluster: MemoryCluster, body: str, topic: str = TOPIC, **options: Any) -> None:
    await trio.sleep(2)
    await send(cluster, body, topic=topic, **options)


async def test_the_changed_duration_begins_at_the_change(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, consuming(cluster, await_duration=60) as consumer:
        await send(cluster, "a")
        (message,) = await consumer.receive(1, 10)
        await trio.sleep(8)
        before = message.properties[PropertyName.POP_CK]
        await consumer.change_invisible_duration(message, 30)
        assert message.properties[PropertyName.POP_CK] != before
        await trio.sleep(8)  # the first duration is over
        begun = trio.current_time()
        (again,) = await consumer.receive(1, 10)
        assert again.reconsume_times == 1 and 21 < trio.current_time() - begun < 23
        await consumer.change_invisible_duration(again, 0)
        begun = trio.current_time()
        (again,) = await consumer.receive(1, 10)
        assert again.reconsume_times == 2 and trio.current_time() - begun < 1
        await consumer.change_invisible_duration(again, 20)
        await trio.sleep(15)
        await consumer.ack(again)
        assert await consumer.receive() == []


async def test_several_brokers_and_topics_are_asked_in_turn(autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory(default_topic_queue_nums=1) as cluster,
        cluster.broker(broker_name="broker-b", default_topic_queue_nums=1),
        Admin(**cluster.client()) as admin,
        Producer("shop", **cluster.client()) as producer,
    ):
        topics = (TOPIC, "parcels")
        for topic in topics:
            await admin.topics.create(topic, read_queues=1, write_queues=1)
        queues = [MessageQueue(topic, f"broker-{name}", 0) for topic in topics for name in "ab"]
        for queue in queues * 3:
            await producer.send(Message.of(queue.topic, "x"), selector=to(queue))
        async with consuming(cluster, dict.fromkeys(topics, "*")) as consumer:
            first = [await consumer.receive(1) for _ in range(4)]
            assert sorted(message.queue for (message,) in first) == sorted(queues)
            rest = await all_of(consumer)
            assert sorted(message.queue for message in rest) == sorted(queues * 2)
            for (message,) in first:
                await consumer.ack(message)
            begun = trio.current_time()
            assert await consumer.receive() == [] and 4 < trio.current_time() - begun < 6
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_later, cluster, "y", "parcels")
                begun = trio.current_time()
                assert texts(await consumer.receive()) == ["y"] and trio.current_time() - begun < 2.5


@pytest.mark.parametrize("topics", [(TOPIC,), (TOPIC, "parcels")])
@pytest.mark.parametrize(
    "selector", ["new || paid", MessageSelector.by_sql("TAGS IN ('new', 'paid') AND kind IS NOT NULL")]
)
async def test_selectors(selector: Any, topics: tuple[str, ...], autojump_clock: MockClock) -> None:
    async with embedded_in_memory(enable_property_filter=True) as cluster:
        for tag in ("new", "old", "paid"):
            for topic in topics:
                await send(cluster, tag, topic=topic, tags=tag, properties={"kind": "x"})
        async with consuming(cluster, dict.fromkeys(topics, selector)) as consumer:
            found = await all_of(consumer)
            assert texts(found) == sorted(["new", "paid"] * len(topics))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_later, cluster, "no")
                begun = trio.current_time()
                assert await consumer.receive() == [] and 4 < trio.current_time() - begun < 6
            await consumer.subscribe(TOPIC, "no")
            await send(cluster, "no", tags="no")
            assert texts(await consumer.receive()) == ["no"]
            for topic in topics:
                await consumer.unsubscribe(topic)
            with pytest.raises(InvalidRequest, match="no topic is subscribed"):
                await consumer.receive()


async def test_a_condition_that_a_broker_refuses(autojump_clock: MockClock) -> None:
    async with embedded_in_memory(enable_property_filter=True) as cluster:
        await send(cluster, "a")
        async with consuming(cluster, {TOPIC: MessageSelector.by_sql("price >")}) as consumer:
            with pytest.raises(BrokerRefused, match="SUBSCRIPTION_PARSE_FAILED"):
                await consumer.receive()


async def test_a_compressed_body_in_a_namespace(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster:
        named = cluster.client() | {"namespace": "berlin"}
        async with (
            Producer("shop", **named) as producer,
            consuming(cluster, await_duration=30, **named) as consumer,
            Admin(**cluster.client()) as admin,
        ):
            await producer.send(Message.of(TOPIC, "long " * 2000))
            for times in range(2):
                (message,) = await consumer.receive(1, 10)
                assert (message.topic, message.body) == (TOPIC, b"long " * 2000)
                assert message.reconsume_times == times
            assert f"%RETRY%berlin%{GROUP}_berlin%{TOPIC}" in await admin.topics.names()
            await consumer.ack(message)
            assert await consumer.receive() == []


async def test_an_orderly_consumer_gets_nothing_more_of_a_queue(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster:
        await send(cluster)
        async with Producer("shop", **cluster.client()) as producer:
            for body in "xyz":
                await producer.send(Message.of("fifo", body), selector=by_queue_id(1))
        async with consuming(cluster, {"fifo": "*"}, orderly=True, await_duration=20) as consumer:
            first = await consumer.receive(2, 60)
            assert texts(first) == ["x", "y"] and [one.reconsume_times for one in first] == [0, 0]
            assert await consumer.receive() == []
            await consumer.ack(first[0])
            await trio.sleep(45)
            (again,) = await consumer.receive(1, 60)
            assert (again.body, again.reconsume_times) == (b"y", 1)
            await consumer.ack(again)
            assert texts(await consumer.receive()) == ["z"]


async def test_a_cancelled_receive_loses_nothing(autojump_clock: MockClock) -> None:
    delays: list[float] = []

    async def on_request(_address: str, command: RemotingCommand) -> None:
        if command.code == POP and delays:
            await trio.sleep(delays.pop())

    async with embedded_in_memory(on_request=on_request) as cluster:
        await send(cluster, "a")
        async with consuming(cluster, await_duration=60) as consumer:
            delays.append(1.0)  # the broker lends it to a request that is cancelled
            with trio.move_on_after(0.5) as scope:
                await consumer.receive(1, 10)
            assert scope.cancelled_caught
            await trio.sleep(1)
            begun = trio.current_time()
            (message,) = await consumer.receive(1, 10)
            assert (message.body, message.reconsume_times) == (b"a", 1)
            assert 8 < trio.current_time() - begun < 11


async def test_a_cancelled_wait_for_several_brokers_is_lent_nothing(autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory() as cluster,
        cluster.broker(broker_name="broker-b"),
        Admin(**cluster.client()) as admin,
        consuming(cluster) as consumer,
    ):
        await admin.topics.create(TOPIC)
        with trio.move_on_after(2):
            await consumer.receive()
        await send(cluster, "a")
        (message,) = await consumer.receive()
        assert message.reconsume_times == 0


async def test_a_broker_that_is_killed_and_comes_back(autojump_clock: MockClock) -> None:
    disk = SimulatedDisk()
    back: dict[str, Any] = {"broker_name": "broker-b", "listen_port": 10_921}
    async with (
        embedded_in_memory() as cluster,
        Admin(**cluster.client()) as admin,
        Producer("shop", **cluster.client()) as producer,
        consuming(cluster, await_duration=30) as consumer,
    ):
        async with cluster.broker(disk=disk, **back):
            await admin.topics.create(TOPIC, read_queues=1, write_queues=1)
            for name in ("broker-a", "broker-b"):
                queue = MessageQueue(TOPIC, name, 0)
                await producer.send(Message.of(TOPIC, name), selector=to(queue))
            lent = {m.broker_name: m for _ in range(2) for m in await consumer.receive(1, 60)}
            await trio.sleep(10)  # the broker saves its tables
            copy = disk.killed()
        assert set(lent) == {"broker-a", "broker-b"}
        with pytest.raises(ConnectionFailed):
            await consumer.ack(lent["broker-b"])
        await consumer.ack(lent["broker-a"])
        await producer.send(Message.of(TOPIC, "more"))
        assert texts(await consumer.receive(1, 200)) == ["more"]
        async with cluster.broker(disk=copy, **back):
            await trio.sleep(70)
            (again,) = await consumer.receive()
            assert (again.body, again.reconsume_times) == (b"broker-b", 1)
            await consumer.ack(again)


async def test_a_lost_connection_while_waiting(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, consuming(cluster, await_duration=30) as consumer:
        await send(cluster, "a")
        await all_of(consumer)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def cut() -> None:
                await trio.sleep(3)
                cluster.cut(cluster.broker_address)

            with pytest.raises(ConnectionLost):
                await consumer.receive()
        await send(cluster, "b")
        assert texts(await consumer.receive()) == ["b"]


async def test_members_and_running_info(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        await send(cluster, "a")
        async with consuming(cluster) as consumer:
            await consumer.receive()
            connection = await admin.clients.consumers(GROUP)
            assert [one.client_id for one in connection.connection_set] == [consumer.instance.client_id]
            info = await admin.clients.running_info(GROUP, consumer.instance.client_id)
            assert [one.topic for one in info.subscription_set] == [TOPIC]


# --- misuse


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda one: one.receive(0), r"max_messages is 0, out of range \[1, 32\]"),
        (lambda one: one.receive(33), r"max_messages is 33"),
        (lambda one: one.receive(1, 9.9), r"invisible_duration is 9.9, out of range \[10, 43200\]"),
        (lambda one: one.receive(1, 43_201), r"invisible_duration is 43201"),
    ],
)
async def test_values_out_of_range(call: Callable[[Any], Any], text: str, autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, consuming(cluster) as consumer:
        with pytest.raises(InvalidRequest, match=text):
            await call(consumer)


def test_wrong_options() -> None:
    for options, text in (
        ({"await_duration": -1}, "await_duration is -1"),
        ({"consume_from": ConsumeFromWhere.CONSUME_FROM_TIMESTAMP}, "not at a time"),
    ):
        with pytest.raises(InvalidRequest, match=text):
            SimpleConsumer(GROUP, {TOPIC: "*"}, **options)
    with pytest.raises(InvalidRequest, match="a consumer needs at least one topic"):
        SimpleConsumer(GROUP, {})


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000, -3_600_000])
async def test_an_expired_handle(ahead_ms: int, autojump_clock: MockClock) -> None:
    """Whatever the difference of the clocks of client and broker."""
    async with embedded_in_memory() as cluster:
        await send(cluster, "a", "b")
        skewed = cluster.client() | {"now_ms": lambda: cluster.now_ms() + ahead_ms}
        async with consuming(cluster, **skewed) as consumer:
            (late,), (early,) = await consumer.receive(1, 10), await consumer.receive(1, 12)
            await trio.sleep(11)
            with pytest.raises(
                InvalidRequest, match=r"handle of message .* has expired, .* duration of 10 s is"
            ):
                await consumer.ack(late)
            with pytest.raises(InvalidRequest, match="has expired"):
                await consumer.change_invisible_duration(late, 10)
            with pytest.raises(InvalidRequest, match=r"invisible_duration is -1"):
                await consumer.change_invisible_duration(early, -1)
            await consumer.ack(early)
            assert texts(await consumer.receive()) == texts([late])


async def test_a_message_that_was_not_received(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, consuming(cluster) as consumer:
        await send(cluster, "a")
        (message,) = await consumer.receive()
        message.properties[PropertyName.POP_CK] = "nonsense"
        with pytest.raises(InvalidRequest, match="'nonsense' is no receipt handle"):
            await consumer.ack(message)
        del message.properties[PropertyName.POP_CK]
        with pytest.raises(InvalidRequest, match="has no receipt handle: it was not received"):
            await consumer.ack(message)


async def test_an_unknown_topic_hides_no_other(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster:
        await send(cluster, "a")
        async with consuming(cluster, {"nowhere": "*", TOPIC: "*"}) as consumer:
            assert texts(await consumer.receive()) == ["a"]
            with pytest.raises(NoRoute, match="topic nowhere not found"):
                await consumer.receive()


# --- scripted brokers


NAMESRV, A, SLAVE = "ns:9876", "a:10911", "s:10911"


def scripted(network: Network, **replies: Reply) -> SimpleConsumer:
    table: dict[str, dict[int, str]] = {"broker-a": {0: A, 1: SLAVE}}
    network.server(NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: route({TOPIC: {"broker-a": 2}}, table)})
    codes = {"pop": POP, "ack": ACK, "change": CHANGE}
    network.server(A, {codes[name]: reply for name, reply in replies.items()})
    network.server(SLAVE)
    topics = {TOPIC: "Aa"}
    return SimpleConsumer(GROUP, topics, namesrv=NAMESRV, open_stream=network.open_stream, await_duration=5)


def record(offset: int, topic: str = TOPIC, queue_id: int = 0, **properties: str) -> bytes:
    named = {"UNIQ_KEY": f"id{offset}", "TAGS": "Aa", **properties}
    return make_record(
        topic=topic.encode(),
        queue_id=queue_id,
        queue_offset=offset,
        body=b"hi",
        sys_flag=0,
        properties=encode_properties(named),
    )


def lent(*records: bytes, starts: str | None, offsets: str | None, counts: str | None = None) -> Reply:
    ext = {"popTime": "1700000000000", "invisibleTime": "60000", "reviveQid": "3", "restNum": "0"}
    named = {"startOffsetInfo": starts, "msgOffsetInfo": offsets, "orderCountInfo": counts}
    return ok({**ext, **{name: text for name, text in named.items() if text is not None}}, b"".join(records))


async def received(network: Network, reply: Reply, count: int) -> list[tuple[str, int, str]]:
    """The topic, times and handle of each message; they are acknowledged."""
    async with scripted(network, pop=reply, ack=ok()) as consumer:
        found = await consumer.receive()
        for message in found:
            await consumer.ack(message)
    assert len(found) == count
    return [(one.topic, one.reconsume_times, one.properties[PropertyName.POP_CK]) for one in found]


async def test_handles_are_made_of_the_texts_of_the_reply(
    network: Network, autojump_clock: MockClock
) -> None:
    given = "5 1700000000000 60000 3 1 broker-a 0 6"
    reply = lent(
        record(7),
        record(9),
        record(2, queue_id=1),
        record(6, POP_CK=given),
        record(4, topic=f"%RETRY%{GROUP}+{TOPIC}"),
        starts="0 0 7;0 1 2;1 0 5;2 0 4",
        offsets="0 0 7,9;0 1 2;1 0 6;2 0 4",
        counts="0 qo0%9 2;0 0 0",
    )
    times = "1700000000000 60000 3"
    assert await received(network, reply, 5) == [
        (TOPIC, 0, f"7 {times} 0 broker-a 0 7"),
        (TOPIC, 2, f"7 {times} 0 broker-a 0 9"),
        (TOPIC, 0, f"2 {times} 0 broker-a 1 2"),
        (TOPIC, 0, given),
        (TOPIC, 0, f"4 {times} 2 broker-a 0 4"),
    ]
    broker = network.servers[A]
    (asked,) = [one for one in broker.asked if one.code == POP]
    header = from_ext(PopMessageRequestHeader, asked.ext_fields)
    assert (header.queue_id, header.max_msg_nums, header.invisible_time) == (-1, 32, 60_000)
    assert (header.exp, header.exp_type, header.init_mode, header.born_time) == ("Aa", "TAG", 1, 0)
    acks = [from_ext(AckMessageRequestHeader, one.ext_fields) for one in broker.asked if one.code == ACK]
    assert [(ack.topic, ack.queue_id, ack.offset) for ack in acks] == [
        (TOPIC, 0, 7),
        (TOPIC, 0, 9),
        (TOPIC, 1, 2),
        (f"%RETRY%{GROUP}_{TOPIC}", 0, 6),
        (f"%RETRY%{GROUP}+{TOPIC}", 0, 4),
    ]


async def test_a_broker_that_names_no_offsets(network: Network, autojump_clock: MockClock) -> None:
    found = await received(network, lent(record(7), record(8), starts=None, offsets=None), 2)
    assert [handle.split()[0] + handle.split()[-1] for _, _, handle in found] == ["77", "78"]


async def test_a_handle_that_the_producer_sent_is_replaced(
    network: Network, autojump_clock: MockClock
) -> None:
    for text in ("nonsense", "9 9 9 9 0 other 9 9"):
        reply = lent(record(7, POP_CK=text), starts="0 0 7", offsets="0 0 7")
        ((_, _, handle),) = await received(network, reply, 1)
        assert handle == "7 1700000000000 60000 3 0 broker-a 0 7"


async def test_an_offset_that_cannot_be_is_not_believed(network: Network, autojump_clock: MockClock) -> None:
    """No CRC covers it."""
    reply = lent(record(1 << 40), record(9), starts="0 0 7", offsets="0 0 7,9")
    found = await received(network, reply, 2)
    assert [handle.split()[-1] for _, _, handle in found] == ["7", "9"]


async def test_messages_of_an_inner_batch_have_its_handle(
    network: Network, autojump_clock: MockClock
) -> None:
    """The reply names only the offset of the batch."""
    records = map(record, (7, 8, 9, 10))
    found = await received(network, lent(*records, starts="0 0 7", offsets="0 0 7,10"), 4)
    assert [handle.split()[-1] for _, _, handle in found] == ["7", "7", "7", "10"]


async def test_a_broker_that_tells_of_messages_and_lends_none(
    network: Network, autojump_clock: MockClock
) -> None:
    """It is not asked again at once."""
    pops: list[float] = []

    def nothing(command: RemotingCommand) -> RemotingCommand:
        pops.append(trio.current_time())
        return command.reply(210 if len(pops) < 200 else 1, "no")

    consumer = scripted(network)
    brokers = {f"broker-{name}": {0: f"{name}:10911"} for name in "ab"}
    topics = {TOPIC: dict.fromkeys(brokers, 1)}
    network.server(NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: route(topics, brokers)})
    for name in "ab":
        network.server(
            f"{name}:10911", {POP: nothing, NOTIFICATION: ok({"hasMsg": "true", "pollingFull": "false"})}
        )
    async with consumer:
        begun = trio.current_time()
        assert await consumer.receive() == []
        assert 5 <= trio.current_time() - begun < 5.1
    assert 10 < len(pops) < 100


async def test_tags_are_compared_again(network: Network, autojump_clock: MockClock) -> None:
    """ "Aa" and "BB" have the same hash. What nobody wants is acknowledged, or it would come for ever."""
    reply = lent(record(7), record(8, TAGS="BB"), starts="0 0 7", offsets="0 0 7,8")
    async with scripted(network, pop=reply, ack=ok()) as consumer:
        (message,) = await consumer.receive()
        assert message.queue_offset == 7
    (ack,) = [one for one in network.servers[A].asked if one.code == ACK]
    assert (ack.ext_fields or {})["offset"] == "8"


async def test_texts_that_cannot_be_read(network: Network, autojump_clock: MockClock) -> None:
    async with scripted(network, pop=lent(record(7), starts="0 0", offsets="x")) as consumer:
        with pytest.raises(UnexpectedReply, match="answered POP_MESSAGE with something unreadable"):
            await consumer.receive()


async def test_a_broker_of_4_9(network: Network, autojump_clock: MockClock) -> None:
    async with scripted(network) as consumer:
        with pytest.raises(NotSupported) as caught:
            await consumer.receive()
    assert str(caught.value) == (
        "a:10911 refused POP_MESSAGE: REQUEST_CODE_NOT_SUPPORTED (3): request type 200050 not supported; "
        "SimpleConsumer needs a broker of 5.x, PushConsumer does not"
    )


async def test_too_many_waiting_requests(network: Network, autojump_clock: MockClock) -> None:
    async with scripted(network, pop=refuse(209)) as consumer:
        with pytest.raises(
            BrokerBusy, match="a:10911 holds too many requests that wait for messages; slow down"
        ):
            await consumer.receive()


async def test_a_topic_without_a_master(network: Network, autojump_clock: MockClock) -> None:
    consumer = scripted(network)
    table = {"broker-a": {1: SLAVE}}
    network.server(NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: route({TOPIC: {"broker-a": 2}}, table)})
    async with consumer:
        with pytest.raises(NotFound, match=r"topic orders has no master on broker broker-a"):
            await consumer.receive()


async def test_an_acknowledgement_follows_the_master(network: Network, autojump_clock: MockClock) -> None:
    def masters(table: dict[int, str]) -> None:
        reply = route({TOPIC: {"broker-a": 2}}, {"broker-a": table})
        network.servers[NAMESRV].replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = reply

    new = network.server("new:10911", {ACK: ok()})
    async with scripted(network, pop=lent(record(7), starts="0 0 7", offsets="0 0 7")) as consumer:
        (message,) = await consumer.receive()
        network.servers[A].refuses = True
        await network.servers[A].drop()
        masters({1: SLAVE})
        await trio.sleep(2)
        with pytest.raises(ConnectionFailed):
            await consumer.ack(message)
        with pytest.raises(NotFound, match=r"topic orders has no master on broker broker-a"):
            await consumer.ack(message)
        masters({0: "new:10911", 1: SLAVE})
        await trio.sleep(2)
        await consumer.ack(message)
    assert new.count(ACK) == 1 and network.servers[SLAVE].count(ACK) == 0


def test_handles_are_those_that_the_client_of_java_made() -> None:
    wire = load_wire("pop")
    made, told = set(), set()
    for row, frame in zip(wire.index, wire.frames, strict=True):
        command = decode_frame(frame[4:])
        if row["code"] == ACK:
            made.add((command.ext_fields or {})["extraInfo"])
        elif row.get("reqcode") == POP and command.code == 0:
            messages = decode_records(command.body)
            header = from_ext(PopMessageResponseHeader, command.ext_fields)
            add_handles(messages, header, MessageQueue(TOPIC, "broker-a", -1))
            told |= {message.properties[PropertyName.POP_CK] for message in messages}
    assert len(made) >= 100 and len(made & told) >= 100


async def test_an_account_that_may_receive_may_acknowledge_what_is_retried(autojump_clock: MockClock) -> None:
    """Its retry topic has no permission of its own."""
    async with guarded() as cluster:
        options = cluster.client() | {"credentials": ORDINARY}
        async with Producer("shop", **options) as producer:
            await producer.send(Message.of(TOPIC, "a"))
        for group, error in (("readers", None), ("shut", NotPermitted)):
            async with SimpleConsumer(group, {TOPIC: "*"}, consume_from=FIRST, **options) as consumer:
                if error is not None:
                    with pytest.raises(error):
                        await consumer.receive(1, 10)
                    continue
                await consumer.receive(1, 10)
                (message,) = await consumer.receive(1, 10)
                assert message.reconsume_times == 1
                await consumer.change_invisible_duration(message, 20)
                await consumer.ack(message)
                assert await consumer.receive() == []
