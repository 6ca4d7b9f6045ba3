"""Transactions and request-reply once over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from rmqcli import broker
from rmqcli.broker.system import system_now_ms
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import HeartbeatData, ProducerData
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.base import from_ext, to_ext
from rmqcli.codec.headers.transactions import CheckTransactionStateRequestHeader
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.records.reading import decode_record, decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.serving import Client, connect
from tests.broker.support import pull_header, send_header
from tests.broker.transactions.support import (
    COMMIT,
    GROUP,
    REPLY_PROPERTIES,
    REPLY_TOPIC,
    REQUESTER,
    end_header,
)
from tests.support import PATIENCE

FAST: dict[str, Any] = {
    "transaction_check_interval": 100,
    "transaction_time_out": 100,
    "transaction_check_max": 1_000_000,
}
"""Checks soon, and as often as it takes."""
ONE_WAY = 2


async def connect_producer(address: str, client_id: str = REQUESTER) -> Client:
    client = await connect(address)
    data = HeartbeatData(client_id=client_id, producer_data_set=[ProducerData(group_name=GROUP)])
    assert (await client.ask(RemotingCommand(RequestCode.HEART_BEAT, body=encode_body(data)))).code == 0
    return client


def send(
    code: int, topic: str, body: bytes, properties: dict[str, str], sys_flag: int = 0
) -> RemotingCommand:
    born = system_now_ms()
    header = send_header(topic, properties, sys_flag=sys_flag, born_timestamp=born)
    return RemotingCommand(code, to_ext(header), body)


async def pulled(client: Client, topic: str) -> list[bytes]:
    """Waits for a message by long polling."""
    reply = await client.ask(
        RemotingCommand(11, pull_header(topic, sys_flag=6, suspend_ms=int(PATIENCE * 1000)))
    )
    return [message.body for message in decode_records(reply.body)] if reply.code == 0 else []


async def test_a_transaction_is_checked_and_committed(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        async with broker.embedded(store=tmp_path, **FAST) as cluster:
            client = await connect_producer(cluster.broker_address)
            properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": "K"}
            sent = await client.ask(send(310, "T", b"paid", properties, sys_flag=4))
            assert sent.code == 0
            question = await client.next()
            assert (question.code, question.is_oneway) == (39, True)
            header = from_ext(CheckTransactionStateRequestHeader, question.ext_fields)
            assert decode_record(question.body).body == b"paid"
            ends = end_header(header.tran_state_table_offset, header.commit_log_offset, COMMIT)
            await client.send(RemotingCommand(37, ends, flag=ONE_WAY))
            reader = await connect(cluster.broker_address)
            assert await pulled(reader, "T") == [b"paid"]
            first = parse_offset_msg_id((sent.ext_fields or {})["msgId"])[2]
            assert header.commit_log_offset > first


async def test_a_reply_reaches_the_requester(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        async with broker.embedded(store=tmp_path) as cluster:
            asking = await connect_producer(cluster.broker_address)
            answering = await connect(cluster.broker_address)
            await answering.send(send(325, REPLY_TOPIC, b"yes", REPLY_PROPERTIES))
            pushed = await asking.next()
            assert (pushed.code, pushed.body, pushed.is_oneway) == (326, b"yes", False)
            await asking.send(pushed.reply(0))
            assert (await answering.next()).code == 0
            await asking.stream.aclose()
            assert await pulled(answering, REPLY_TOPIC) == [b"yes"]
