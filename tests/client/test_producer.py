"""Sends: queues, retries, timeouts, one-way, batches, compression, fields of the request."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.client import (
    BrokerRefused,
    ClientInstance,
    ConnectionFailed,
    ConnectionLost,
    InvalidRequest,
    NoNameServer,
    NoRoute,
    NotFound,
    NotPermitted,
    Producer,
    RequestTimeout,
    SendStatus,
    split_batch,
)
from rmqcli.client.produce.targets import RoundRobin, by_hash, by_queue_id
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.compression import compress, decompress
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import decode_batch
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import Network, refuse, route, sent, silent
from tests.client.sending import NAMESRV, SEND, TOPIC, A, B, Cluster, producing


@pytest.fixture
def cluster(network: Network) -> Cluster:
    return Cluster(network)


def header(request: RemotingCommand) -> SendMessageRequestHeaderV2:
    return from_ext(SendMessageRequestHeaderV2, request.ext_fields)


async def test_result_of_a_send(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as producer:
        result = await producer.send(Message.of(TOPIC, b"hi", tags="TagA", keys=["k1", "k2"], delay_level=3))
    request = cluster.sends()[0]
    fields = header(request)
    properties = decode_properties(fields.properties or "")
    assert result.status is SendStatus.SEND_OK
    assert result.msg_id == properties["UNIQ_KEY"]
    assert len(result.msg_id) == 32
    assert result.offset_msg_id == "0A0000010000277A0000000000000000"
    assert (result.queue_offset, result.region_id) == (7, "R1")
    assert result.message_queue == MessageQueue(TOPIC, fields.bname or "", fields.queue_id)
    assert (fields.producer_group, fields.default_topic, fields.default_topic_queue_nums) == (
        "PG",
        "TBW102",
        4,
    )
    assert (fields.sys_flag, fields.batch, fields.reconsume_times) == (0, False, 0)
    assert properties | {"UNIQ_KEY": ""} == {"TAGS": "TagA", "KEYS": "k1 k2", "DELAY": "3", "UNIQ_KEY": ""}
    assert request.body == b"hi"
    assert request.language == 3


async def test_messages_go_round_all_queues(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as producer:
        queues = [(await producer.send(Message.of(TOPIC, b"x"))).message_queue for _ in range(8)]
    assert sorted(set(queues)) == sorted(MessageQueue(TOPIC, f"broker-{n}", i) for n in "ab" for i in (0, 1))
    assert all(queues.count(queue) == 2 for queue in queues)


async def test_no_try_begins_when_asking_for_the_route_again_took_the_time(
    cluster: Cluster, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    async with producing(cluster.network) as producer:
        for _ in range(4):
            await producer.send(Message.of(TOPIC, b"x"))
        await trio.sleep(5)
        for server in (cluster.a, cluster.b):
            server.replies[SEND] = silent
        cluster.namesrv.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = silent

        async def lose_both() -> None:
            await trio.sleep(0.9)
            await cluster.a.drop()
            await cluster.b.drop()

        nursery.start_soon(lose_both)
        with pytest.raises(ConnectionLost) as caught:
            await producer.send(Message.of(TOPIC, b"x"), timeout=1.0)
    assert (caught.value.tries, len(cluster.sends())) == (1, 5)


async def test_route_is_asked_once(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as producer, trio.open_nursery() as senders:
        for _ in range(20):
            senders.start_soon(producer.send, Message.of(TOPIC, b"x"))
    assert cluster.namesrv.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 1
    assert cluster.a.opened == cluster.b.opened == 1


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, "SEND_OK"), (10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE"), (12, "FLUSH_SLAVE_TIMEOUT")],
)
async def test_stored_but_not_as_promised_is_a_status(
    cluster: Cluster, code: int, status: str, autojump_clock: Any
) -> None:
    def reply(command: RemotingCommand) -> RemotingCommand:
        answer = sent(command)
        answer.code = code
        return answer

    cluster.a.replies[SEND] = cluster.b.replies[SEND] = reply
    async with producing(cluster.network) as producer:
        assert (await producer.send(Message.of(TOPIC, b"x"))).status is SendStatus[status]


@pytest.mark.parametrize("code", [1, 14, 16, 17, 204, 205])
async def test_refusals_that_another_broker_may_not_have(
    cluster: Cluster, code: int, autojump_clock: Any
) -> None:
    cluster.a.replies[SEND] = refuse(code)
    async with producing(cluster.network) as producer:
        results = [await producer.send(Message.of(TOPIC, b"x")) for _ in range(4)]
    assert {result.message_queue.broker_name for result in results} == {"broker-b"}
    assert cluster.a.count(SEND) > 0


@pytest.mark.parametrize("code", [2, 13, 23])
async def test_refusals_that_are_final(cluster: Cluster, code: int, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = refuse(code, "because")
    async with producing(cluster.network) as producer:
        with pytest.raises(BrokerRefused) as caught:
            await producer.send(Message.of(TOPIC, b"x"))
    assert caught.value.code == code
    assert ResponseCode(code).name in str(caught.value)
    assert len(cluster.sends()) == 1


async def test_access_control_refusal_is_not_retried(cluster: Cluster, autojump_clock: Any) -> None:
    remark = "org.apache.rocketmq.acl.common.AclException: No acl config for X, here"
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = refuse(1, remark)
    async with producing(cluster.network) as producer:
        with pytest.raises(NotPermitted, match="No acl config for X"):
            await producer.send(Message.of(TOPIC, b"x"))
    assert len(cluster.sends()) == 1


async def test_a_refused_permission_is_not_asked_for_twice(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = refuse(16, "the broker's permission is 4")
    async with producing(cluster.network, retries=5) as producer:
        with pytest.raises(NotPermitted, match="the broker's permission is 4"):
            await producer.send(Message.of(TOPIC, b"x"))
    assert (cluster.a.count(SEND), cluster.b.count(SEND)) == (1, 1)


async def test_giving_up_names_tries_and_brokers(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = refuse(14, "disk full\nsecond line")
    async with producing(cluster.network) as producer:
        with pytest.raises(BrokerRefused) as caught:
            await producer.send(Message.of(TOPIC, b"x"))
    text = str(caught.value)
    assert "SERVICE_NOT_AVAILABLE (14): disk full (after 3 tries on broker-" in text
    assert "\n" not in text
    assert len(cluster.sends()) == 3


async def test_unreachable_broker_is_left_for_another(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.refuses = True
    async with producing(cluster.network) as producer:
        for _ in range(4):
            assert (await producer.send(Message.of(TOPIC, b"x"))).message_queue.broker_name == "broker-b"


async def test_broker_that_hangs_while_connecting_leaves_time_for_another(
    cluster: Cluster, autojump_clock: Any
) -> None:
    cluster.a.hangs = True
    async with producing(cluster.network, send_timeout=3.0) as producer:
        started = trio.current_time()
        for _ in range(2):
            assert (await producer.send(Message.of(TOPIC, b"x"))).message_queue.broker_name == "broker-b"
    assert trio.current_time() - started < 2.5


async def test_connection_lost_in_flight_is_tried_on_another_broker(
    cluster: Cluster, autojump_clock: Any
) -> None:
    def drop(command: RemotingCommand) -> bytes:
        return b"\x00\x00\x00\x00"  # a frame that is none: the client hangs up

    cluster.a.replies[SEND] = drop
    async with producing(cluster.network) as producer:
        results = [await producer.send(Message.of(TOPIC, b"x")) for _ in range(2)]
    assert {result.message_queue.broker_name for result in results} == {"broker-b"}


async def test_all_brokers_unreachable(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.refuses = cluster.b.refuses = True
    async with producing(cluster.network) as producer:
        with pytest.raises(
            ConnectionFailed, match=r"cannot connect to [ab]:10911: Connection refused \(after 3 tries"
        ):
            await producer.send(Message.of(TOPIC, b"x"))


async def test_timeout_covers_everything(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = silent
    async with producing(cluster.network, send_timeout=2.0) as producer:
        started = trio.current_time()
        with pytest.raises(RequestTimeout):
            await producer.send(Message.of(TOPIC, b"x"))
        assert trio.current_time() - started == pytest.approx(2.0)
    assert len(cluster.sends()) == 1  # a request that was sent is not sent again for want of time


async def test_explicit_queue_has_one_try(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = refuse(14)
    async with producing(cluster.network) as producer:
        with pytest.raises(BrokerRefused):
            await producer.send(Message.of(TOPIC, b"x"), queue=MessageQueue(TOPIC, "broker-a", 1))
        result = await producer.send(Message.of(TOPIC, b"x"), queue=MessageQueue(TOPIC, "broker-b", 1))
    assert cluster.a.count(SEND) == 1
    assert result.message_queue == MessageQueue(TOPIC, "broker-b", 1)


@pytest.mark.parametrize(
    ("queue", "error"),
    [(MessageQueue("Other", "broker-a", 0), InvalidRequest), (MessageQueue(TOPIC, "broker-x", 0), NotFound)],
)
async def test_queue_that_cannot_be(
    cluster: Cluster, queue: MessageQueue, error: type[Exception], autojump_clock: Any
) -> None:
    async with producing(cluster.network) as producer:
        with pytest.raises(error):
            await producer.send(Message.of(TOPIC, b"x"), queue=queue)
    assert not cluster.sends()


async def test_selector_chooses_and_is_not_overruled(cluster: Cluster, autojump_clock: Any) -> None:
    seen: list[Sequence[MessageQueue]] = []

    def last(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        seen.append(queues)
        return queues[-1]

    cluster.b.replies[SEND] = refuse(14)
    async with producing(cluster.network) as producer:
        with pytest.raises(BrokerRefused):
            await producer.send(Message.of(TOPIC, b"x"), selector=last)
        with pytest.raises(InvalidRequest, match="no writable queue 9"):
            await producer.send(Message.of(TOPIC, b"x"), selector=by_queue_id(9))
    assert [queue.queue_id for queue in seen[0]] == [0, 1, 0, 1]
    assert len(cluster.sends()) == 1


async def test_a_topic_without_the_permission_to_write(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.namesrv.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route(
        {TOPIC: {"broker-a": 2}}, {"broker-a": {0: A}}, perm=4
    )
    async with producing(cluster.network) as producer:
        with pytest.raises(
            NotPermitted, match=rf"^topic {TOPIC} has no writable queue .* rmq topic route {TOPIC}$"
        ):
            await producer.send(Message.of(TOPIC, b"x"))
    assert not cluster.sends()


async def test_same_key_same_queue(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as producer:
        queues = {
            (await producer.send(Message.of(TOPIC, b"x"), selector=by_hash("order-1"))).message_queue
            for _ in range(5)
        }
    assert len(queues) == 1


async def test_unknown_topic_is_created_through_tbw102(network: Network, autojump_clock: Any) -> None:
    cluster = Cluster(network, {"TBW102": {"broker-a": 8}})
    async with producing(network) as producer:
        queues = await producer.message_queues("New")
        result = await producer.send(Message.of("New", b"x"))
    assert [queue.queue_id for queue in queues] == [0, 1, 2, 3]
    assert result.message_queue.topic == "New"
    assert header(cluster.sends()[0]).topic == "New"


async def test_no_route_at_all(network: Network, autojump_clock: Any) -> None:
    Cluster(network, {})
    async with producing(network) as producer:
        with pytest.raises(
            NoRoute, match=r"topic New not found on .*, and no broker creates topics by itself"
        ):
            await producer.send(Message.of("New", b"x"))


async def test_no_name_server(network: Network, autojump_clock: Any) -> None:
    async with producing(network) as producer:
        with pytest.raises(
            NoNameServer, match=r"cannot connect to name server ns:9876: .*Connection refused"
        ):
            await producer.send(Message.of(TOPIC, b"x"))


@pytest.mark.parametrize(("kind", "bits"), [("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)])
async def test_large_bodies_are_compressed(
    cluster: Cluster, kind: str, bits: int, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 30  # compressing in a thread takes real time
    body = b"abc " * 1024
    async with producing(cluster.network, compression=kind) as producer:
        await producer.send(Message.of(TOPIC, body))
        await producer.send(Message.of(TOPIC, body[:-1]))
        await producer.send(Message.of(TOPIC, body * 100))
    requests = {len(decompress(c.body, header(c).sys_flag)): c for c in cluster.sends()}
    large, small, huge = requests[4096], requests[4095], requests[409600]
    assert header(large).sys_flag == header(huge).sys_flag == bits
    assert decompress(large.body, bits) == body
    assert header(small).sys_flag == 0
    if kind == "zlib":
        assert zlib.decompress(large.body) == body


@pytest.mark.parametrize("kind", ["zlib", "zstd"])
async def test_bodies_are_compressed_at_the_level_that_was_asked_for(
    cluster: Cluster, kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    body = b"".join(b"%d:%d," % (number, number * number % 1013) for number in range(2000))
    for level in (1, 9):
        async with producing(cluster.network, compression=kind, compress_level=level) as producer:
            await producer.send(Message.of(TOPIC, body))
    wanted = {compress(body, kind, level)[0] for level in (1, 9)}
    assert len(wanted) == 2
    assert {bytes(command.body) for command in cluster.sends()} == wanted


@pytest.mark.parametrize("level", [0, 10])
def test_levels_there_are_not(level: int) -> None:
    with pytest.raises(InvalidRequest, match=rf"compress_level is {level}, out of range \[1, 9\]"):
        Producer(compress_level=level)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Message.of("bad topic", b"x"), "illegal characters"),
        (Message.of("", b"x"), "blank"),
        (Message.of(TOPIC, b""), "empty body"),
        (Message.of(TOPIC, bytes((4 << 20) + 1)), "4194305 bytes, more than 4194304"),
        (Message.of(TOPIC, b"x", properties={"p": "a\x02b"}), "separates properties"),
        (Message.of(TOPIC, b"x", properties={"p": "v" * 40000}), "limit is 32767"),
    ],
)
async def test_messages_that_are_not_sent(
    cluster: Cluster, message: Message, text: str, autojump_clock: Any
) -> None:
    async with producing(cluster.network) as producer:
        with pytest.raises(InvalidRequest, match=text):
            await producer.send(message)
    assert not cluster.sends()


async def test_empty_body_on_request(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network, allow_empty=True) as producer:
        await producer.send(Message.of(TOPIC, b""))
    assert cluster.sends()[0].body == b""


async def test_retry_topic_counts_travel_in_the_header(network: Network, autojump_clock: Any) -> None:
    cluster = Cluster(network, {"%RETRY%G": {"broker-a": 1}})
    properties = {"RECONSUME_TIME": "4", "MAX_RECONSUME_TIMES": "16", "UNIQ_KEY": "MINE"}
    async with producing(network) as producer:
        result = await producer.send(Message.of("%RETRY%G", b"x", properties=properties))
    fields = header(cluster.sends()[0])
    assert (fields.reconsume_times, fields.max_reconsume_times) == (4, 16)
    assert decode_properties(fields.properties or "") == {"UNIQ_KEY": "MINE"}
    assert result.msg_id == "MINE"


async def test_oneway(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as producer:
        msg_id = await producer.send_oneway(Message.of(TOPIC, b"x"))
        await trio.testing.wait_all_tasks_blocked()
    request = cluster.sends()[0]
    assert request.is_oneway
    assert decode_properties(header(request).properties or "")["UNIQ_KEY"] == msg_id


async def test_batch(cluster: Cluster, autojump_clock: Any) -> None:
    messages = [Message.of(TOPIC, f"m{i}".encode(), tags="t") for i in range(3)]
    async with producing(cluster.network) as producer:
        result = await producer.send_batch(messages)
    request = cluster.sends()[0]
    items = decode_batch(bytes(request.body))
    assert request.code == RequestCode.SEND_BATCH_MESSAGE
    assert header(request).batch is True
    assert [item.body for item in items] == [b"m0", b"m1", b"m2"]
    assert ",".join(decode_properties(item.properties)["UNIQ_KEY"] for item in items) == result.msg_id
    assert len(set(result.msg_id.split(","))) == 3


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], "at least one"),
        ([Message.of("T", b"x"), Message.of("U", b"x")], "one topic"),
        ([Message.of("T", b"x", delay_level=1)], "delay level"),
        ([Message.of("%RETRY%G", b"x")], "retry topic"),
        ([Message.of("T", b"x"), Message.of("T", b"x", properties={"WAIT": "false"})], "agree on WAIT"),
        ([Message.of("T", bytes(3 << 20)), Message.of("T", bytes(3 << 20))], "use split_batch"),
    ],
)
async def test_messages_that_cannot_travel_together(
    cluster: Cluster, messages: list[Message], text: str, autojump_clock: Any
) -> None:
    async with producing(cluster.network) as producer:
        with pytest.raises(InvalidRequest, match=text):
            await producer.send_batch(messages)


def test_split_batch_cuts_at_size_count_and_topic() -> None:
    messages = [Message.of("T", bytes(400)) for _ in range(10)] + [Message.of("U", b"x")]
    parts = list(split_batch(messages, 2048))
    exactly = sum(22 + 400 + 1 + 66 for _ in range(4))
    assert [[len(part) for part in split_batch(messages[:5], size)] for size in (exactly, exactly - 1)] == [
        [4, 1],
        [3, 2],
    ]
    assert [message for part in parts for message in part] == messages
    assert [len(part) for part in parts] == [4, 4, 2, 1]
    assert [len(part) for part in split_batch(messages, max_count=3)] == [3, 3, 3, 1, 1]
    assert [len(part) for part in split_batch([Message.of("T", bytes(5000))], 2048)] == [1]
    assert list(split_batch([])) == []


async def test_split_batches_fit(cluster: Cluster, autojump_clock: Any) -> None:
    messages = [Message.of(TOPIC, bytes(997)) for _ in range(50)]
    async with producing(cluster.network, max_message_size=8192) as producer:
        for part in split_batch(messages, 8192):
            await producer.send_batch(part)
    assert sum(len(decode_batch(bytes(c.body))) for c in cluster.sends()) == 50


async def test_heartbeats_and_farewell(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as producer:
        await producer.send(Message.of(TOPIC, b"x"))
        await trio.sleep(65)
        beats = cluster.a.count(RequestCode.HEART_BEAT)
    await trio.testing.wait_all_tasks_blocked()
    assert beats == 3
    beat = next(c for c in cluster.a.asked if c.code == RequestCode.HEART_BEAT)
    assert b'"producerDataSet":[{"groupName":"PG"}]' in bytes(beat.body)
    farewell = next(c for c in cluster.a.asked if c.code == RequestCode.UNREGISTER_CLIENT)
    assert (farewell.ext_fields or {})["producerGroup"] == "PG"


async def test_producers_of_a_shared_instance_unregister_when_the_last_of_the_group_leaves(
    cluster: Cluster, autojump_clock: Any
) -> None:
    def farewells() -> int:
        return cluster.a.count(RequestCode.UNREGISTER_CLIENT)

    async with ClientInstance(NAMESRV, open_stream=cluster.network.open_stream) as instance:
        async with Producer("PG", instance=instance) as one:
            async with Producer("PG", instance=instance) as other:
                await one.send(Message.of(TOPIC, b"x"))
                await other.send(Message.of(TOPIC, b"x"))
                await trio.sleep(31)
            assert farewells() == 0
            await one.send(Message.of(TOPIC, b"x"))
        await trio.testing.wait_all_tasks_blocked()
        assert farewells() == 1


@pytest.mark.parametrize("group", ["", "a b", "x" * 256])
def test_a_group_name_that_brokers_refuse(group: str) -> None:
    with pytest.raises(InvalidRequest):
        Producer(group)


async def test_the_time_for_the_route_is_that_of_the_send(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.namesrv.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = silent
    await trio.sleep(1000)
    async with producing(cluster.network, send_timeout=2.0) as producer:
        started = trio.current_time()
        with pytest.raises((RequestTimeout, NoNameServer)):
            await producer.send(Message.of(TOPIC, b"x"))
        assert trio.current_time() - started == pytest.approx(2.0, abs=0.1)


async def test_routes_are_refreshed(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as producer:
        await producer.send(Message.of(TOPIC, b"x"))
        cluster.namesrv.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route(
            {TOPIC: {"broker-b": 1}}, {"broker-b": {0: B}}
        )
        await trio.sleep(31)
        queues = await producer.message_queues(TOPIC)
    assert queues == [MessageQueue(TOPIC, "broker-b", 0)]


async def test_name_server_failover_is_sticky(cluster: Cluster, autojump_clock: Any) -> None:
    addresses = f"dead:9876;{NAMESRV}"
    async with Producer("PG", namesrv=addresses, open_stream=cluster.network.open_stream) as producer:
        await producer.send(Message.of(TOPIC, b"x"))
        assert producer.instance.name_servers.current == NAMESRV


async def test_exception_of_the_block_comes_out_as_it_is(cluster: Cluster, autojump_clock: Any) -> None:
    with pytest.raises(KeyError):
        async with producing(cluster.network) as producer:
            await producer.send(Message.of(TOPIC, b"x"))
            raise KeyError("mine")


async def test_cancelling_ends_everything(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = silent
    with trio.move_on_after(1.0) as scope:
        async with producing(cluster.network, send_timeout=60) as producer:
            await producer.send(Message.of(TOPIC, b"x"))
    assert scope.cancelled_caught
    assert trio.current_time() < 2.0


async def test_used_outside_its_block(cluster: Cluster, autojump_clock: Any) -> None:
    producer = Producer("PG", namesrv=NAMESRV, open_stream=cluster.network.open_stream)
    with pytest.raises(InvalidRequest, match="inside its `async with` block"):
        await producer.send(Message.of(TOPIC, b"x"))
    async with producer:
        await producer.send(Message.of(TOPIC, b"x"))
    with pytest.raises(InvalidRequest, match="inside its `async with` block"):
        await producer.send(Message.of(TOPIC, b"x"))


async def test_two_producers_share_an_instance(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as first, Producer("Other", instance=first.instance) as second:
        await first.send(Message.of(TOPIC, b"x"))
        await second.send(Message.of(TOPIC, b"x"))
    assert cluster.a.opened + cluster.b.opened <= 2


async def test_reply_without_its_fields(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = lambda command: command.reply(0)
    async with producing(cluster.network) as producer:
        with pytest.raises(Exception, match="answered SEND_MESSAGE_V2 with something unreadable"):
            await producer.send(Message.of(TOPIC, b"x"))


def test_round_robin_avoids_the_broker_that_failed() -> None:
    import random

    queues = [MessageQueue(TOPIC, name, i) for name in ("a", "b") for i in (0, 1)]
    choice = RoundRobin(random.Random(7))
    assert {choice.choose(queues, "a").broker_name for _ in range(8)} == {"b"}
    assert choice.choose(queues[:2], "a").broker_name == "a"


@pytest.mark.parametrize("error", [ConnectionLost("x:1"), NoNameServer(("x:1",))])
def test_errors_are_one_line(error: Exception) -> None:
    assert str(error)
    assert "\n" not in str(error)
