"""Request-reply: replies that the broker pushes to the requester."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.errors import RemoteClosed
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.send import ReplyMessageRequestHeader
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.support import (
    START_MS,
    Client,
    FakeBroker,
    Reply,
    fake_broker,
    long_header,
    send_header,
    virtual_now,
)
from tests.broker.transactions.support import (
    REPLY_PROPERTIES,
    REPLY_TOPIC,
    REQUESTER,
    log,
    of_topic,
    producer,
)


async def requester(broker: FakeBroker, code: int | None = 0) -> Client:
    """The requester: it acknowledges a pushed reply with `code`, or never when that is None."""
    client = await producer(broker, "asking", REQUESTER)
    if code is not None:
        client.session.answers[326] = lambda command: command.reply(code)
    return client


async def reply_to(client: Client, body: bytes = b"answer", code: int = 325, **fields: Any) -> Reply:
    values = {"topic": REPLY_TOPIC, "properties": REPLY_PROPERTIES, "producer_group": "answering", **fields}
    header = send_header(**values)
    return await client.wait(client.post(code, long_header(header) if code == 324 else header, body))


@pytest.mark.parametrize("code", [324, 325])
async def test_a_reply_is_pushed_to_the_requester_and_stored(
    tmp_path: Path, autojump_clock: trio.abc.Clock, code: int
) -> None:
    async with fake_broker(tmp_path) as broker:
        asking, answering = await requester(broker), broker.client()
        await trio.sleep(5)
        reply = await reply_to(answering, code=code, sys_flag=0x305, flag=7)
        (stored,) = log(broker.context.store)
        assert (reply.code, reply.remark) == (0, None)
        assert reply.ext == {
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "queueId": "0",
            "queueOffset": "0",
            "msgId": stored.offset_msg_id,
        }
        (pushed,) = [one for one in asking.session.pushed if one.code == 326]
        header = from_ext(ReplyMessageRequestHeader, pushed.ext_fields)
        assert decode_properties(header.properties or "") == REPLY_PROPERTIES | {
            "PUSH_REPLY_TIME": str(START_MS + 5000)
        }
        assert header == ReplyMessageRequestHeader(
            producer_group="answering",
            topic=REPLY_TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0x305,
            born_timestamp=START_MS,
            flag=7,
            born_host=answering.session.peer_text,
            store_host="127.0.0.1:10911",
            store_timestamp=virtual_now(),
            properties=header.properties,
            reconsume_times=0,
        )
        assert pushed.body == b"answer"
        assert (stored.topic, stored.body, stored.flag, stored.sys_flag) == (REPLY_TOPIC, b"answer", 7, 0x301)
        assert stored.properties == REPLY_PROPERTIES


async def test_a_reply_without_a_requester_is_stored(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        reply = await reply_to(broker.client())
        assert (reply.code, reply.remark) == (
            1,
            f"push reply message fail, channel of <{REQUESTER}> not found.",
        )
        (stored,) = of_topic(broker, REPLY_TOPIC)
        assert reply.ext["msgId"] == stored.offset_msg_id


async def test_a_reply_without_an_address_is_refused(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        await requester(broker)
        reply = await reply_to(broker.client(), properties={"CORRELATION_ID": "1"})
        assert (reply.code, reply.remark) == (1, "reply message properties[REPLY_TO_CLIENT] is null")


@pytest.mark.parametrize(("code", "seconds"), [(1, 0), (None, 10)])
async def test_the_requester_fails_or_is_silent(
    tmp_path: Path, autojump_clock: trio.abc.Clock, code: int | None, seconds: int
) -> None:
    async with fake_broker(tmp_path) as broker:
        await requester(broker, code)
        start = trio.current_time()
        reply = await reply_to(broker.client())
        assert (reply.code, reply.remark) == (1, f"push reply message to {REQUESTER}fail.")
        assert trio.current_time() - start == seconds


async def test_the_requester_disconnects(tmp_path: Path) -> None:
    def leave(_command: RemotingCommand) -> RemotingCommand:
        raise RemoteClosed("gone")

    async with fake_broker(tmp_path) as broker:
        asking = await requester(broker)
        asking.session.answers[326] = leave
        assert (await reply_to(broker.client())).remark == f"push reply message to {REQUESTER}fail."
        asking.session.close()
        assert "not found" in ((await reply_to(broker.client())).remark or "")


async def test_the_newest_connection_of_a_client_gets_the_reply(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        old, new = await requester(broker), await requester(broker)
        old.session.close()
        assert (await reply_to(broker.client())).code == 0
        assert [one.code for one in new.session.pushed] == [326]
        assert (await new.ask(35, {"clientID": REQUESTER, "producerGroup": "asking"})).code == 0
        assert "not found" in ((await reply_to(broker.client())).remark or "")


async def test_a_client_with_two_groups_is_found_until_it_leaves_both(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await requester(broker)
        table = broker.context.producers
        (channel,) = table.clients("asking") or []
        table.register("second", channel)
        await client.ask(35, {"clientID": REQUESTER, "producerGroup": "asking"})
        assert table.find(REQUESTER) is channel
        await client.ask(35, {"clientID": REQUESTER, "producerGroup": "second"})
        assert table.find(REQUESTER) is None


async def test_storing_replies_can_be_switched_off(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, store_reply_message_enable=False) as broker:
        await requester(broker)
        reply = await reply_to(broker.client(), queue_id=-1)
        assert (reply.code, reply.ext["msgId"], reply.ext["queueOffset"]) == (0, "0", "0")
        assert log(broker.context.store) == []


async def test_a_reply_that_cannot_be_stored_is_pushed(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, max_message_size=100) as broker:
        asking = await requester(broker)
        reply = await reply_to(broker.client(), b"x" * 101)
        assert (reply.code, reply.ext["msgId"]) == (0, "0")
        assert len(asking.session.pushed[-1].body) == 101
        long = await reply_to(
            broker.client(), properties=REPLY_PROPERTIES | {"x": "y" * 32_600, "DELAY": "1"}
        )
        assert long.remark == f"push reply message to {REQUESTER}fail.", "its properties are too long"


async def test_topics_are_checked_as_for_a_send(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, auto_create_topic_enable=False) as broker:
        client = broker.client()
        for fields, code in (
            ({"topic": "Other_REPLY_TOPIC"}, ResponseCode.TOPIC_NOT_EXIST),
            ({"topic": "bad name"}, ResponseCode.SYSTEM_ERROR),
            ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION),
            ({"queue_id": 5}, ResponseCode.SYSTEM_ERROR),
        ):
            reply = await reply_to(client, **fields)
            assert reply.code == code
            assert reply.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        assert log(broker.context.store) == []


async def test_early_requests_and_requests_without_fields_are_refused(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, start_accept_send_request_time_stamp=START_MS * 2) as broker:
        reply = await reply_to(broker.client())
        assert (reply.code, (reply.remark or "")[:35]) == (1, "broker unable to service, until 207")
        assert (await broker.client().ask(325, {"a": "G"})).code == 1


async def test_properties_that_do_not_parse_are_stored_as_they_are_read(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        await requester(broker)
        await reply_to(broker.client(), properties={**REPLY_PROPERTIES, "TTL!8000\x02a": "b"})
        record = broker.context.store.search.record_at(0)
        assert record is not None
        assert b"TTL!8000" not in bytes(record)
        assert decode_record(record).properties == {**REPLY_PROPERTIES, "a": "b"}
