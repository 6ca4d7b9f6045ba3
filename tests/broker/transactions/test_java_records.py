"""The transaction records of a Java broker, written by this one from the same requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.context import OwnProperties
from rmqcli.broker.system import NowMs
from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record, peek_record
from rmqcli.codec.store.record_layout import MAGIC_FILLER, MIN_RECORD_SIZE
from tests.broker.support import Client, fake_broker
from tests.broker.transactions.support import (
    GIVEN_UP,
    HALF,
    OP,
    end_header,
    of_topic,
    producer,
    questions,
    send_half,
)
from tests.support import INDEX_ITEMS, INDEX_SLOTS, JavaStore

ADDED = ("REAL_TOPIC", "REAL_QID", "CLUSTER")
OF_4_9_8 = OwnProperties({"CLUSTER": "DefaultCluster"})
"""Brokers of 5.x also add MSG_REGION and TRACE_ON, as ours does."""
UNENDED = b"tx-17"
IMMUNE = b"check"
JAVA_FILES: dict[str, Any] = {
    "mapped_file_size_commit_log": None,
    "max_hash_slot_num": INDEX_SLOTS,
    "max_index_num": INDEX_ITEMS,
}


def java_records(store: JavaStore) -> list[MessageExt]:
    found = []
    for path in store.commit_logs:
        data, position = path.read_bytes(), 0
        while position + MIN_RECORD_SIZE <= len(data):
            size, magic = peek_record(data, position)
            if magic == MAGIC_FILLER or size < MIN_RECORD_SIZE:
                break
            found.append(decode_record(data, position))
            position += size
    return found


@pytest.fixture(scope="module")
def java(store_clean: JavaStore) -> list[MessageExt]:
    return java_records(store_clean)


@pytest.fixture
def an_hour_later(java: list[MessageExt]) -> NowMs:
    """A clock that starts an hour after Java's last record."""
    start = java[-1].store_timestamp + 3_600_000
    return lambda: start + round(trio.current_time() * 1000)


def of(records: Iterable[MessageExt], topic: str, body: bytes | None = None) -> list[MessageExt]:
    return [one for one in records if one.topic == topic and body in (None, one.body)]


def content(record: MessageExt) -> tuple[object, ...]:
    """A record without the place, time and client of its storage."""
    return (
        record.topic,
        record.queue_id,
        record.flag,
        record.sys_flag,
        record.reconsume_times,
        record.body,
        record.body_crc,
        record.store_size,
        record.properties,
    )


async def send_as(client: Client, half: MessageExt) -> None:
    """Sends the message that became this half message."""
    properties = {name: value for name, value in half.properties.items() if name not in ADDED}
    reply = await client.send(
        half.properties["REAL_TOPIC"],
        half.body,
        queue_id=int(half.properties["REAL_QID"]),
        producer_group=properties["PGROUP"],
        properties=properties,
        sys_flag=MessageSysFlag.TRANSACTION_PREPARED,
        born_timestamp=client.broker.context.now_ms(),
        flag=half.flag,
    )
    assert reply.code == 0


async def test_half_commit_and_op_records_equal_those_of_java(tmp_path: Path, java: list[MessageExt]) -> None:
    halves = [one for one in of(java, HALF) if "TRANSACTION_CHECK_TIMES" not in one.properties]
    assert len(halves) > 30
    at = {half.commit_log_offset: half for half in of(java, HALF)}
    commits = [one for one in java if one.sys_flag & MessageSysFlag.TRANSACTION_COMMIT]
    first = [one for one in commits if at[one.prepared_transaction_offset] in halves]
    assert len(first) > 10
    async with fake_broker(tmp_path) as broker:
        broker.context.own_properties = OF_4_9_8
        client = broker.client()
        for half in halves:
            await send_as(client, half)
        ours = of_topic(broker, HALF)
        assert [content(one) for one in ours] == [content(one) for one in halves]
        for commit in first:
            number = halves.index(at[commit.prepared_transaction_offset])
            half = ours[number]
            group = half.properties["PGROUP"]
            header = end_header(half.queue_offset, half.commit_log_offset, group=group)
            assert (await client.ask(37, header)).code == 0
            (mine,) = of(of_topic(broker, commit.topic)[-1:], commit.topic)
            assert content(mine) == content(commit)
            assert mine.prepared_transaction_offset == half.commit_log_offset
            theirs = of(java, OP, str(at[commit.prepared_transaction_offset].queue_offset).encode())[0]
            operation = of_topic(broker, OP)[-1]
            same_body = operation.body.decode() == str(half.queue_offset)
            assert same_body and operation.properties == theirs.properties
            assert (operation.sys_flag, operation.flag, operation.queue_id) == (0, 0, 0)
            assert operation.born_host == operation.store_host
            assert operation.store_size - len(operation.body) == theirs.store_size - len(theirs.body)


@pytest.mark.parametrize("body", [UNENDED, IMMUNE])
async def test_checked_half_messages_equal_those_of_java(
    tmp_path: Path, java: list[MessageExt], autojump_clock: trio.abc.Clock, body: bytes
) -> None:
    theirs = [one for one in of(java, HALF, body) if body == UNENDED or "CHECK_IMM" in str(one.properties)]
    settings = {"transaction_check_interval": 3000, "transaction_time_out": 3000}
    async with fake_broker(tmp_path, **settings) as broker:
        broker.context.own_properties = OF_4_9_8
        client = await producer(broker, theirs[0].properties["PGROUP"])
        await trio.sleep(1.4)
        if body == IMMUNE:  # as in the recording, where another one in front of it ended the first walk
            await send_half(client)
        await send_as(client, theirs[0])
        await trio.sleep(70 if body == UNENDED else 11)
        ours = of(of_topic(broker, HALF), HALF, body)
        if body == IMMUNE:  # Java numbered its half queue from elsewhere
            assert [one.properties.pop("TRAN_PREPARED_QUEUE_OFFSET") for one in ours[1:]] == ["1"] * 3
            assert [one.properties.pop("TRAN_PREPARED_QUEUE_OFFSET") for one in theirs[1:]] == ["105"] * 3
        assert [one.properties for one in ours] == [one.properties for one in theirs]
        assert [(one.sys_flag, one.flag, one.queue_id) for one in ours] == [(0, 0, 0)] * len(theirs)
        if body == UNENDED:
            assert [content(one) for one in of_topic(broker, GIVEN_UP)] == [
                content(one) for one in of(java, GIVEN_UP, body)
            ]
            assert [one.born_timestamp for one in ours] == [ours[0].born_timestamp] * len(ours)
            return
        answer_group = theirs[0].properties["PGROUP"]
        ((header, _),) = questions(client)
        fields = end_header(header.tran_state_table_offset, header.commit_log_offset, group=answer_group)
        assert (await client.ask(37, fields)).code == 0
        (commit,) = [
            one for one in java if one.sys_flag == 8 and one.topic == theirs[0].properties["REAL_TOPIC"]
        ]
        (mine,) = of_topic(broker, commit.topic)
        commit.properties.pop("TRAN_PREPARED_QUEUE_OFFSET")
        assert mine.properties.pop("TRAN_PREPARED_QUEUE_OFFSET") == "1"
        assert mine.properties == commit.properties


async def test_checks_continue_in_a_folder_of_java(
    copy_java_store: Callable[[str], JavaStore], an_hour_later: NowMs, autojump_clock: trio.abc.Clock
) -> None:
    """Everything in it is ended or given up; the scan starts at the progress of Java."""
    root = copy_java_store("store-clean").root
    async with fake_broker(root, an_hour_later, **JAVA_FILES) as broker:
        store = broker.context.store
        assert (
            broker.context.offsets.query("CID_RMQ_SYS_TRANS", HALF, 0)
            == store.search.max_offset(HALF, 0)
            == 177
        )
        client = await producer(broker, "seed_tx_producer")
        await trio.sleep(61)
        assert questions(client) == []
        assert store.search.max_offset(HALF, 0) == 177
        parked = store.reader.get(GIVEN_UP, 0, 0, 1)
        given_up = decode_record(bytes(parked.views[0]))
        assert (await client.ask(323, {"msgId": given_up.offset_msg_id})).code == 0
        assert store.search.max_offset(HALF, 0) == 178


async def test_a_second_scan_of_a_java_folder_checks_only_open_messages(
    java: list[MessageExt],
    copy_java_store: Callable[[str], JavaStore],
    an_hour_later: NowMs,
    autojump_clock: trio.abc.Clock,
) -> None:
    """Without saved progress every half message is read; those with op messages are skipped."""
    root = copy_java_store("store-clean").root
    (root / "config" / "consumerOffset.json").unlink()
    (root / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
    async with fake_broker(
        root, an_hour_later, **JAVA_FILES, file_reserved_time=10**6, transaction_check_max=10**6
    ) as broker:
        client = await producer(broker, "seed_tx_producer")
        await trio.sleep(61)
        assert broker.context.offsets.query("CID_RMQ_SYS_TRANS", OP, 0) == 72
        asked = [message.body for _, message in questions(client)]
        ended = {int(one.body) for one in of(java, OP)}
        still_open = [one for one in of(java, HALF) if one.queue_offset not in ended]
        assert asked == [one.body for one in still_open if one.properties["PGROUP"] == "seed_tx_producer"]
        assert {b"tx-2", b"tx-17"} <= set(asked)
