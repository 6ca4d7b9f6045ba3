"""Sending: every check with its code and remark, what is stored, and when the reply comes."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import structs

from rmqcli.broker.net.turns import FIRST_STEPS, Pace
from rmqcli.broker.store.batches import PART_MESSAGES, STEP_BYTES
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_batch import encode_batch
from tests.broker.support import OWN, fake_broker, long_header, send_header

"""Short messages of a batch that are read in a step."""
MISSING = "topic[Nope] not exist, apply first please!\nSee http://rocketmq.apache.org/docs/faq/ for further details."


async def test_a_message_is_stored_as_java_stores_it(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        properties = {"KEYS": "k", "WAIT": "true", "TAGS": "TagA", "UNIQ_KEY": "0A" * 16}
        reply = await client.send("T", b"body", queue_id=2, flag=5, properties=properties)
        assert reply.code == ResponseCode.SUCCESS
        assert dict(reply.ext) == {
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "msgId": "7F00000100002A9F0000000000000000",
            "queueId": "2",
            "queueOffset": "0",
        }
        (message,) = await client.pulled("T", 2)
        assert (message.body, message.flag, message.tags, message.keys) == (b"body", 5, "TagA", ["k"])
        assert message.properties == {
            "KEYS": "k",
            "TAGS": "TagA",
            "UNIQ_KEY": "0A" * 16,
            **OWN,
        }
        assert (message.born_host, message.store_host) == (client.session.peer_text, "127.0.0.1:10911")


@pytest.mark.parametrize(
    ("host", "text", "bit"), [("10.0.0.7", "10.0.0.7:40000", 0), ("2001:db8::7", "[2001:db8::7]:40000", 0x10)]
)
async def test_the_address_of_the_connection_counts_whatever_the_header_says(
    tmp_path: Path, host: str, text: str, bit: int
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        client.session.peer = (host, 40000)
        for sys_flag in (0, 0x30):
            assert (await client.send("T", sys_flag=sys_flag)).code == 0
        messages = await client.pulled("T")
        assert [(one.born_host, one.sys_flag, one.body) for one in messages] == [(text, bit, b"hello")] * 2


async def test_a_peer_without_an_ip_address_is_not_told_of_its_properties(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        client.session.peer = ("/run/socket", 0)
        reply = await client.send("T")
        assert (reply.code, reply.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "cannot pack the host '/run/socket' port 0: '/run/socket' does not appear to be an IPv4 or IPv6 address",
        )


async def test_long_and_short_headers_mean_the_same(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.ask(10, to_ext(long_header(send_header("T"))), b"one")).code == 0
        assert (await client.send("T", b"two")).ext["queueOffset"] == "1"


async def test_an_unknown_topic_is_made_from_the_default_topic(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.send("Few", default_topic_queue_nums=4)).code == 0
        assert (await client.send("Many", default_topic_queue_nums=99)).code == 0
        few, many = broker.context.topics.get("Few"), broker.context.topics.get("Many")
        assert few is not None and many is not None
        assert (few.read_queue_nums, few.write_queue_nums, few.perm) == (4, 4, 6)
        assert many.write_queue_nums == 8
        assert (tmp_path / "config" / "topics.json").read_text().count('"Few"') == 2


@pytest.mark.parametrize(
    ("topic", "fields", "code", "remark"),
    [
        ("", {}, 1, "The specified topic is blank."),
        ("a b", {}, 1, "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("x" * 128, {}, 1, "The specified topic is longer than topic max length."),
        ("SCHEDULE_TOPIC_XXXX", {}, 16, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."),
        ("rmq_sys_wheel_timer", {}, 16, "Sending message to topic[rmq_sys_wheel_timer] is forbidden."),
        ("RMQ_SYS_TRACE_TOPIC", {}, 0, None),
        ("Nope", {"default_topic": "BenchmarkTest"}, 17, MISSING),
        ("Nope", {"default_topic": "Unknown"}, 17, MISSING),
        ("%RETRY%G", {"reconsume_times": 0}, 0, None),
    ],
)
async def test_checks_of_a_send(
    tmp_path: Path, topic: str, fields: dict[str, Any], code: int, remark: str | None
) -> None:
    async with fake_broker(tmp_path) as broker:
        reply = await broker.client().send(topic, **fields)
        assert (reply.code, reply.remark) == (code, remark)
        assert reply.ext["MSG_REGION"] == "DefaultRegion"
        assert reply.ext["TRACE_ON"] == "true"


async def test_queue_numbers(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        reply = await client.send("T", queue_id=99)
        assert reply.code == 1
        assert reply.remark == (
            "request queueId[99] is illegal, TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=4, perm=RW-, "
            f"topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false] Producer: {client.session.peer_text}"
        )
        chosen = {(await client.send("T", queue_id=-1)).ext["queueId"] for _ in range(64)}
        assert chosen == {"0", "1", "2", "3"}


async def test_without_automatic_creation_a_topic_must_be_asked_for(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, auto_create_topic_enable=False) as broker:
        client = broker.client()
        for default in ("TBW102", "DefaultCluster", "broker-a"):
            assert (await client.send("Nope", default_topic=default)).code == 17
        create = {
            "topic": "Nope",
            "defaultTopic": "TBW102",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
        }
        assert (await client.ask(17, create)).code == 0
        assert (await client.send("Nope")).code == 0


async def test_a_batch_becomes_messages_in_a_row(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        body = encode_batch([Message.of("T", f"b{n}", keys=f"k{n}") for n in range(3)])
        reply = await client.send("T", body, code=320, batch=True, properties={"WAIT": "true"})
        ids = reply.ext["msgId"].split(",")
        assert reply.ext["queueOffset"] == "0"
        messages = await client.pulled("T")
        assert [m.body for m in messages] == [b"b0", b"b1", b"b2"]
        assert [m.commit_log_offset for m in messages] == [parse_offset_msg_id(one)[2] for one in ids]
        assert messages[1].properties == {"KEYS": "k1", "WAIT": "true", **OWN}
        assert (await client.send("T")).ext["queueOffset"] == "3"


async def test_a_long_batch_takes_turns_and_lies_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is decoded, its reply written and its keys indexed in steps; others send meanwhile."""
    items = 2 * FIRST_STEPS * STEP_BYTES // len(encode_batch([Message.of("T", "b0", keys="k0")]))
    body = encode_batch([Message.of("T", f"b{n}", keys=f"k{n}") for n in range(items)])
    async with fake_broker(tmp_path) as broker:
        client, other, turns = broker.client(), broker.client(), 0
        await client.send("T")

        async def next_turn() -> None:
            nonlocal turns
            turns += 1
            if turns == 1:
                assert (await other.send("T")).code == 0

        monkeypatch.setattr(client.session.turns, "next", next_turn)
        monkeypatch.setattr(Pace, "is_over", True)
        header = send_header("T", batch=True)
        reply = await client.wait(await client.post_when_ready(320, header, body))
        offsets = [parse_offset_msg_id(one)[2] for one in reply.ext["msgId"].split(",")]
        messages: list[MessageExt] = []
        while len(messages) < items:
            messages += await client.pulled("T", offset=2 + len(messages))
        assert turns > items // PART_MESSAGES
        assert reply.ext["queueOffset"] == "2"
        assert [one.body for one in messages] == [b"b%d" % n for n in range(items)]
        assert [one.commit_log_offset for one in messages] == offsets
        assert broker.context.store.query("T", f"k{items - 1}", 1, 0, 1 << 50).views


async def test_a_part_that_is_refused_is_the_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before it are stored, and the queue takes messages again."""
    body = encode_batch([Message.of("T", "b")] * 3 * PART_MESSAGES)
    async with fake_broker(tmp_path) as broker:
        client, store = broker.client(), broker.context.store
        await client.send("T")

        async def next_turn() -> None:
            store.stats.set_disk(0.95, full=True)

        opaque = await client.post_when_ready(320, send_header("T", batch=True), body)
        monkeypatch.setattr(client.session.turns, "next", next_turn)
        monkeypatch.setattr(Pace, "is_over", True)
        reply = await client.wait(opaque)
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert reply.ext["MSG_REGION"] == "DefaultRegion"
        store.stats.set_disk(0.1, full=False)
        assert (await client.send("T")).ext["queueOffset"] == str(1 + PART_MESSAGES)


async def test_a_long_batch_of_a_topic_that_is_deleted_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = encode_batch([Message.of("T", "b")] * 3 * PART_MESSAGES)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")

        async def next_turn() -> None:
            broker.context.topics.remove("T")

        monkeypatch.setattr(client.session.turns, "next", next_turn)
        opaque = await client.post_when_ready(320, send_header("T", batch=True), body)
        monkeypatch.setattr(Pace, "is_over", True)
        assert (await client.wait(opaque)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_batch_of_too_many_messages_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.store.batches.MOST_MESSAGES", 4)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        body = encode_batch([Message.of("T", "b")] * 4)
        assert (await client.send("T", body, batch=True)).code == 0
        reply = await client.send("T", encode_batch([Message.of("T", "b")] * 5), batch=True)
        assert (reply.code, reply.remark) == (ResponseCode.MESSAGE_ILLEGAL, "a batch has 4 messages at most")
        assert reply.ext["MSG_REGION"] == "DefaultRegion"
        assert (await client.send("T")).ext["queueOffset"] == "4"


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00\x05", b"x" * 40])
async def test_a_bad_batch_is_refused(tmp_path: Path, body: bytes) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        reply = await client.send("T", body, code=320, batch=True)
        assert reply.code != 0
        assert (await client.pull("T")).code == ResponseCode.PULL_NOT_FOUND


async def test_too_large_bodies_and_properties(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, max_message_size=1000) as broker:
        client = broker.client()
        large = await client.send("T", b"x" * 1001)
        assert large.code == ResponseCode.MESSAGE_ILLEGAL
        assert "msg body length limit 1000B, msg properties length limit 32KB." in (large.remark or "")
        header = to_ext(send_header("T")) | {"i": f"a\x01{'y' * 32770}"}
        assert (await client.ask(310, header, b"x")).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.send("T", b"x" * 1000)).code == 0


async def test_a_consumers_own_retry_ends_in_the_dead_letter_topic(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.send("%RETRY%G", reconsume_times=1, max_reconsume_times=2)).code == 0
        delayed = {"DELAY": "3", "KEYS": "k"}
        assert (
            await client.send("%RETRY%G", reconsume_times=2, max_reconsume_times=2, properties=delayed)
        ).code == 0
        (dead,) = await client.pulled("%DLQ%G")
        assert dead.reconsume_times == 2
        assert "DELAY" not in dead.properties


async def test_retry_sends_need_the_group(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, auto_create_subscription_group=False) as broker:
        reply = await broker.client().send("%RETRY%G")
        assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (reply.remark or "").startswith("subscription group not exist, G ")


async def test_the_store_refuses_when_it_is_not_writable(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        broker.context.store.stats.set_disk(0.95, full=True)
        reply = await broker.client().send("T")
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (reply.remark or "").startswith("service not available now. It may be caused by")


async def test_a_slave_takes_no_messages(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, broker_role="SLAVE", broker_id=1) as broker:
        assert (await broker.client().send("T")).code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_synchronous_flush_answers_when_the_bytes_are_on_the_disk(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, flush_disk_type="SYNC_FLUSH") as broker:
        client = broker.client()
        posted = [client.post(310, send_header("T"), b"x") for _ in range(5)]
        assert not any(client.replies(opaque) for opaque in posted)
        replies = [await client.wait(opaque) for opaque in posted]
        assert [reply.ext["queueOffset"] for reply in replies] == ["0", "1", "2", "3", "4"]
        assert {reply.code for reply in replies} == {0}
        assert broker.context.store.flushed_offset == broker.context.store.commit_log_max_offset
        assert (await client.send("T", properties={"WAIT": "false"})).code == 0


async def test_nothing_is_accepted_before_its_time(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        opens = broker.context.now_ms() + 5000
        assert (await client.ask(25, None, f"startAcceptSendRequestTimeStamp={opens}".encode())).code == 0
        refused = await client.send("T")
        moment = datetime.fromtimestamp(opens // 1000)
        until = f"{moment:%Y-%m-%d %H:%M:%S},{opens % 1000:03d}"
        assert (refused.code, refused.remark) == (1, f"broker unable to service, until {until}")
        await client.ask(25, None, f"startAcceptSendRequestTimeStamp={2**63 - 1}".encode())
        assert ((await client.send("T")).remark or "").startswith("broker unable to service, until 9999-")
        await client.ask(25, None, f"startAcceptSendRequestTimeStamp={opens}".encode())
        await trio.sleep(5)
        assert (await client.send("T")).code == 0


async def test_a_one_way_send_is_stored_and_not_answered(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        opaque = client.post(310, send_header("T"), b"x", flag=2)
        assert client.replies(opaque) == []
        assert [m.body for m in await client.pulled("T")] == [b"x"]


async def test_a_topic_of_several_tags_says_so_in_its_messages(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        topics = broker.context.topics
        for topic, kind in (("One", "SINGLE_TAG"), ("Many", "MULTI_TAG")):
            made, _ = topics.ensure(topic, 4)
            topics.put(structs.replace(made, topic_filter_type=kind))
            assert (await client.send(topic, properties={"TAGS": "a"})).code == 0
            assert (await client.send(topic, encode_batch([Message.of(topic, "b")]), batch=True)).code == 0
        flags = {
            topic: [message.sys_flag for message in await client.pulled(topic)] for topic in ("One", "Many")
        }
        assert flags == {"One": [0, 0], "Many": [2, 2]}
