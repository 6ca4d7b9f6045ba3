"""Half messages, commits and rollbacks over the handlers."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rmqcli.broker.store.values import AppendResult, PutStatus
from rmqcli.broker.tables import HalfCopies
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.ids import parse_offset_msg_id
from tests.broker.support import fake_broker
from tests.broker.transactions.support import (
    COMMIT,
    HALF,
    OP,
    ROLLBACK,
    UNKNOWN,
    bodies,
    end,
    end_header,
    log,
    of_topic,
    send_half,
)


async def test_a_half_message_is_visible_after_its_commit(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        sent = await send_half(client, properties={"KEYS": "k", "TAGS": "A"})
        assert (sent.code, sent.ext["queueId"], sent.ext["queueOffset"]) == (0, "2", "0")
        assert (await client.pull("T", 2)).code == ResponseCode.PULL_NOT_FOUND
        reply = await end(client, sent)
        assert (reply.code, reply.remark) == (0, None)
        (message,) = await client.pulled("T", 2, expression="A")
        half, _, operation = log(broker.context.store)
        assert (half.topic, half.queue_id, half.queue_offset, half.sys_flag) == (HALF, 0, 0, 0)
        assert (message.sys_flag, message.prepared_transaction_offset) == (8, half.commit_log_offset)
        assert message.properties == half.properties | {"REAL_TOPIC": "T", "REAL_QID": "2"}
        assert (message.born_timestamp, message.born_host) == (half.born_timestamp, half.born_host)
        assert (operation.topic, operation.body, operation.tags) == (OP, b"0", "d")
        found = await client.ask(
            12, {"topic": "T", "key": "k", "maxNum": "9", "beginTimestamp": "0", "endTimestamp": "9" * 15}
        )
        assert found.code == 0


async def test_a_rollback_stores_no_message(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send_half(client, b"first")
        reply = await end(client, await send_half(client, b"second"), ROLLBACK)
        assert (reply.code, reply.remark) == (0, None)
        assert bodies(broker) == []
        assert bodies(broker, OP) == [b"1"]


@pytest.mark.parametrize("state", [UNKNOWN, 4, 99])
async def test_an_unknown_state_gets_no_reply(tmp_path: Path, state: int) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        sent = await send_half(client)
        offset = parse_offset_msg_id(sent.ext["msgId"])[2]
        assert client.replies(client.post(37, end_header(0, offset, state))) == []
        assert len(log(broker.context.store)) == 1


async def test_wrong_ends_are_refused_as_by_java(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", b"normal", properties={"PGROUP": "PG"})
        at = parse_offset_msg_id((await send_half(client)).ext["msgId"])[2]
        missing = "Find prepared transaction message failed"
        wrong = {
            "The producer group wrong": end_header(0, at, group="Other"),
            "The transaction state table offset wrong": end_header(1, at),
        }
        for remark, header in wrong.items():
            reply = await client.ask(37, header)
            assert (reply.code, reply.remark) == (1, remark)
        for offset in (0, at + 1, at + 40, 1 << 40, -1, -(1 << 63)):
            for state in (COMMIT, ROLLBACK):
                reply = await client.ask(37, end_header(0, offset, state))
                assert (reply.code, reply.remark) == (1, missing), offset
        assert len(log(broker.context.store)) == 2, "nothing was stored"


async def test_a_record_inside_a_body_is_not_a_half_message(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        sent = await send_half(client)
        (half,) = log(broker.context.store)
        forged = bytes(broker.context.store.search.record_at(half.commit_log_offset) or b"")
        at = parse_offset_msg_id((await client.send("T", forged)).ext["msgId"])[2] + 88
        reply = await client.ask(37, end_header(int(sent.ext["queueOffset"]), at))
        assert (reply.code, reply.remark) == (1, "The commit log offset wrong")


async def test_a_commit_that_cannot_be_stored_ends_nothing(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        sent = await send_half(client)
        broker.context.store.stats.set_disk(0.95, full=True)
        refused = await end(client, sent)
        assert (refused.code, refused.remark) == (14, "Service not available now."), "not the words of a send"
        broker.context.store.stats.set_disk(0.5, full=False)
        assert (bodies(broker), bodies(broker, OP)) == ([], [])
        assert (await end(client, sent)).code == 0
        assert (bodies(broker), bodies(broker, OP)) == ([b"half"], [b"0"])


@pytest.mark.parametrize(
    ("status", "code", "remark"),
    [
        (PutStatus.CREATE_MAPEDFILE_FAILED, 1, "Create mapped file failed."),
        (PutStatus.MESSAGE_ILLEGAL, 13, "The message is illegal, maybe msg body or properties"),
        (PutStatus.PROPERTIES_SIZE_EXCEEDED, 13, "The message is illegal, maybe msg body or properties"),
    ],
)
async def test_why_a_commit_was_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: PutStatus, code: int, remark: str
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        sent = await send_half(client)
        monkeypatch.setattr("rmqcli.broker.handlers.transactions.put", lambda *_: AppendResult(status))
        refused = await end(client, sent)
        assert (refused.code, (refused.remark or "")[: len(remark)]) == (code, remark)
        assert "{" not in (refused.remark or "")


async def test_a_slave_ends_nothing(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, broker_role="SLAVE") as broker:
        assert (await broker.client().ask(37, end_header(0, 0))).code == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_a_delay_starts_at_the_commit(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        sent = await send_half(client, properties={"DELAY": "2"})
        (half,) = of_topic(broker, HALF)
        assert half.properties["DELAY"] == "2"
        await trio.sleep(30)
        assert (await end(client, sent)).code == 0
        await trio.sleep(4.5)
        assert await client.pulled("T", 2) == []
        await trio.sleep(1)
        (message,) = await client.pulled("T", 2)
        assert (message.body, message.sys_flag) == (b"half", 8)
        names = {"REAL_TOPIC": "T", "REAL_QID": "2"}
        assert message.properties == {
            name: value for name, value in {**half.properties, **names}.items() if name != "TRAN_MSG"
        }


async def test_transactions_can_be_switched_off(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, reject_transaction_message=True) as broker:
        reply = await send_half(broker.client())
        assert (reply.code, reply.remark) == (
            16,
            "the broker[127.0.0.1] sending transaction message is forbidden",
        )
        assert reply.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        assert log(broker.context.store) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"sys_flag": 4},
        {"sys_flag": 12},
        {"properties": {"TRAN_MSG": "TRUE"}, "code": 320, "batch": True},
        {"sys_flag": 4, "code": 320, "batch": True},
    ],
)
async def test_an_invalid_half_message_is_not_stored(tmp_path: Path, fields: dict[str, object]) -> None:
    async with fake_broker(tmp_path) as broker:
        reply = await broker.client().send("T", **fields)  # type: ignore[arg-type]
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert log(broker.context.store) == []


@pytest.mark.parametrize("value", ["false", "yes", "0"])
async def test_tran_msg_that_says_no_is_a_normal_message(tmp_path: Path, value: str) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", properties={"TRAN_MSG": value})
        assert len(await client.pulled("T")) == 1


async def test_a_retried_message_is_not_a_half_message(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        properties = {"TRAN_MSG": "true", "DELAY": "1", "RETRY_TOPIC": "T"}
        sent = await client.send("%RETRY%G", properties=properties, reconsume_times=1, sys_flag=4)
        assert sent.code == 0
        await trio.sleep(1.5)
        (message,) = await client.pulled("%RETRY%G")
        assert message.sys_flag == 0


async def test_properties_that_are_too_long_are_refused(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        fixed = "UNIQ_KEY_KEY-half_WAIT_true_TRAN_MSG_true_PGROUP_PG_CLUSTER_DefaultCluster_MSG_REGION_DefaultRegion_TRACE_ON_true_x_"
        assert (await send_half(client, properties={"x": "y" * (32767 - len(fixed))})).code == 13
        assert log(broker.context.store) == []


async def test_the_half_topic_is_created_on_use_and_refuses_sends(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert broker.context.topics.get(HALF) is None
        await send_half(client)
        config = broker.context.topics.get(HALF)
        assert config is not None
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)
        for topic in (HALF, OP):
            assert (await client.send(topic)).code == ResponseCode.NO_PERMISSION


def test_copies_are_known_as_long_as_the_newest_is_open() -> None:
    copies = HalfCopies()
    copies.moved(0, 10)
    copies.moved(1, 11)
    copies.moved(10, 20)
    assert [copies.newest(offset) for offset in (0, 10, 20, 1, 5)] == [20, 20, 20, 11, 5]
    copies.forget(20)
    assert [copies.newest(offset) for offset in (0, 10, 20, 1)] == [0, 10, 20, 11]
    copies.forget(11)
    copies.forget(11)
    assert len(copies) == 0
