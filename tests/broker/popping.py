"""Clients that pop, for tests: requests by their codes, and what they were lent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rmqcli.codec.message import MessageExt
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.receipt_handle import ReceiptHandle, parse_part_infos, retry_flag
from rmqcli.codec.records.reading import decode_records
from tests.broker.support import Client, Reply, virtual_now

POP, ACK, PEEK, CHANGE, NOTIFICATION, POLLING_INFO, BATCH_ACK = (
    200050,
    200051,
    200052,
    200053,
    200054,
    200055,
    200151,
)
TOPIC, GROUP = "T", "G"


@dataclass(frozen=True)
class Lent:
    """A message and its handle, as a client sees them."""

    handle: ReceiptHandle
    message: MessageExt

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def times(self) -> int:
        return self.message.reconsume_times


def pop_header(**fields: Any) -> PopMessageRequestHeader:
    values: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": 60_000,
        "poll_time": 0,
        "born_time": virtual_now(),
        "init_mode": 0,
        **fields,
    }
    return PopMessageRequestHeader(**values)


async def pop_reply(client: Client, **fields: Any) -> Reply:
    return await client.ask(POP, pop_header(**fields))


async def popped(client: Client, **fields: Any) -> list[Lent]:
    """What a pop lends; nothing for 209 and 210."""
    reply = await pop_reply(client, **fields)
    if reply.code in (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL):
        assert not reply.body
        return []
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return lent_by(reply)


def lent_by(reply: Reply) -> list[Lent]:
    """The messages of a reply with their handles, made as Java's client makes them."""
    header = from_ext(PopMessageResponseHeader, dict(reply.ext))
    parts = parse_part_infos(header.start_offset_info, header.msg_offset_info)
    starts = {(part.retry, part.queue_id): part for part in parts}
    found = []
    for message in decode_records(reply.body):
        text = message.properties.get(PropertyName.POP_CK)
        flag = retry_flag(message.topic) if text is None else ReceiptHandle.decode(text).retry
        part = starts[flag, message.queue_id]
        assert message.queue_offset in part.offsets
        handle = ReceiptHandle(
            part.start_offset,
            header.pop_time,
            header.invisible_time,
            header.revive_qid,
            flag,
            "broker-a",
            message.queue_id,
            message.queue_offset,
        )
        assert text in (None, handle.encode())
        found.append(Lent(handle, message))
    assert sum(len(part.offsets) for part in parts) == len(found)
    return found


async def ack(client: Client, one: Lent | ReceiptHandle, *, group: str = GROUP, topic: str = TOPIC) -> int:
    handle = one if isinstance(one, ReceiptHandle) else one.handle
    header = AckMessageRequestHeader(
        consumer_group=group,
        topic=handle.topic(group, topic),
        queue_id=handle.queue_id,
        extra_info=handle.encode(),
        offset=handle.offset,
    )
    return (await client.ask(ACK, header)).code


async def change(
    client: Client, one: Lent | ReceiptHandle, invisible_ms: int, *, group: str = GROUP, topic: str = TOPIC
) -> ReceiptHandle:
    """Changes the time of a message, and returns its new handle."""
    handle = one if isinstance(one, ReceiptHandle) else one.handle
    header = ChangeInvisibleTimeRequestHeader(
        consumer_group=group,
        topic=handle.topic(group, topic),
        queue_id=handle.queue_id,
        extra_info=handle.encode(),
        offset=handle.offset,
        invisible_time=invisible_ms,
    )
    reply = await client.ask(CHANGE, header)
    assert reply.code == 0, reply.remark
    told = from_ext(ChangeInvisibleTimeResponseHeader, dict(reply.ext))
    return handle._replace(
        pop_time=told.pop_time, invisible_time=told.invisible_time, revive_queue=told.revive_qid
    )
