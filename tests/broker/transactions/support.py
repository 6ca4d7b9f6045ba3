"""Producers that send half messages and answer checks, and the records that result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from rmqcli.broker.store import MessageStore
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import HeartbeatData, ProducerData
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.headers.transactions import CheckTransactionStateRequestHeader
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record
from tests.broker.support import Client, FakeBroker, Reply, send_header, virtual_now

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP = "PG"


async def producer(broker: FakeBroker, group: str = GROUP, client_id: str | None = None) -> Client:
    """A client that sends heartbeats of a producer group every 30 s until its connection is closed."""
    client = broker.client()
    data = HeartbeatData(
        client_id=client_id or f"client-{client.session.peer[1]}",
        producer_data_set=[ProducerData(group_name=group)],
    )
    assert (await client.ask(34, None, encode_body(data))).code == 0
    broker.nursery.start_soon(_beat, client, encode_body(data))
    return client


async def _beat(client: Client, body: bytes) -> None:
    while True:
        await trio.sleep(30)
        if client.session.closed:
            return
        await client.ask(34, None, body)


async def send_half(
    client: Client, body: bytes = b"half", properties: Mapping[str, str] | None = None, **fields: Any
) -> Reply:
    """A half message for queue 2 of topic T, as Java's producer sends it."""
    return await client.ask(310, half_header(body.decode(), properties, **fields), body)


def half_header(
    key: str, properties: Mapping[str, str] | None = None, **fields: Any
) -> SendMessageRequestHeaderV2:
    own = {"UNIQ_KEY": f"KEY-{key}", "WAIT": "true", "TRAN_MSG": "true", "PGROUP": GROUP}
    values = {"topic": "T", "queue_id": 2, "sys_flag": 4, "born_timestamp": virtual_now(), **fields}
    return send_header(properties={**own, **(properties or {})}, **values)


def end_header(
    queue_offset: int, commit_log_offset: int, state: int = COMMIT, group: str = GROUP
) -> dict[str, str]:
    return {
        "producerGroup": group,
        "tranStateTableOffset": str(queue_offset),
        "commitLogOffset": str(commit_log_offset),
        "commitOrRollback": str(state),
        "fromTransactionCheck": "false",
        "msgId": "KEY",
        "transactionId": "KEY",
    }


async def end(client: Client, sent: Reply, state: int = COMMIT) -> Reply:
    """Ends the transaction of a half message that was sent."""
    offset = parse_offset_msg_id(sent.ext["msgId"])[2]
    return await client.ask(37, end_header(int(sent.ext["queueOffset"]), offset, state))


def questions(client: Client) -> list[tuple[CheckTransactionStateRequestHeader, MessageExt]]:
    """The checks that a producer has received."""
    return [
        (from_ext(CheckTransactionStateRequestHeader, one.ext_fields), decode_record(one.body))
        for one in client.session.pushed
        if one.code == 39
    ]


async def answer(client: Client, state: int, number: int = -1) -> Reply:
    """Answers a check, by default the last one."""
    header, _ = questions(client)[number]
    return await client.ask(37, end_header(header.tran_state_table_offset, header.commit_log_offset, state))


def log(store: MessageStore) -> list[MessageExt]:
    """Every record of a commit log that has one file."""
    records, offset = [], store.commit_log_min_offset
    while (record := store.search.record_at(offset)) is not None:
        records.append(decode_record(record))
        offset += len(record)
    return records


def of_topic(broker: FakeBroker, topic: str) -> list[MessageExt]:
    return [record for record in log(broker.context.store) if record.topic == topic]


def bodies(broker: FakeBroker, topic: str = "T") -> list[bytes]:
    return [record.body for record in of_topic(broker, topic)]


def progress(broker: FakeBroker) -> tuple[int, int]:
    """The progress in the half and the op queue; -1 without any."""
    offsets = broker.context.offsets
    return offsets.query("CID_RMQ_SYS_TRANS", HALF, 0), offsets.query("CID_RMQ_SYS_TRANS", OP, 0)


REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
REQUESTER = "10.0.0.9@i215"
REPLY_PROPERTIES = {
    "MSG_TYPE": "reply",
    "REPLY_TO_CLIENT": REQUESTER,
    "UNIQ_KEY": "C000020218BC5FFD2B27675F822A083C",
    "TTL": "8000",
    "CORRELATION_ID": "d86ad836-46ac-441a-957f-607c1ea4440f",
}
