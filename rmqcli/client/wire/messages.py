"""Stored messages in the body of a pull, query or view reply.

Decompression of more than SMALL_PACKED bytes, or to more than SMALL_PLAIN, runs in a worker thread: 64 KiB of
compressed messages take about 1 ms, a thread about 0.1 ms.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import trio
from msgspec.structs import force_setattr

from codec.compression import COMPRESSED, MAX_DECOMPRESSED, decompress
from codec.errors import CodecError
from codec.message import MessageExt
from codec.message_queue import MessageQueue
from codec.store.record import MAX_DECOMPRESSED_TOGETHER, decode_records
from rmqcli.client.errors import CorruptReply

log = logging.getLogger("rmqcli.client.pull")

SMALL_PACKED = 16 * 1024
SMALL_PLAIN = 128 * 1024


async def read_messages(
    body: bytes | memoryview, broker_name: str, *, limit: int = MAX_DECOMPRESSED_TOGETHER
) -> list[MessageExt]:
    """The messages of a reply body in order, decompressed; CorruptReply when a record is damaged.

    A body that cannot be decompressed, or not within `limit` bytes together with those before it, stays as
    stored and is logged: one such message must not keep those behind it from their readers. Java's client
    drops all messages of the reply.
    """
    try:
        messages = decode_records(body)
    except CodecError as error:
        raise CorruptReply(broker_name, str(error)) from error
    packed = []
    for message in messages:
        force_setattr(message, "broker_name", broker_name)
        if message.sys_flag & COMPRESSED:
            packed.append(message)
    if packed:
        for message, plain in zip(packed, await plain_bodies(packed, limit), strict=True):
            if isinstance(plain, bytes):
                force_setattr(message, "body", plain)
            else:
                queue = MessageQueue(message.topic, broker_name, message.queue_id)
                log.error("%s, offset %d: %s; the body is as stored", queue, message.queue_offset, plain)
    return messages


async def plain_bodies(
    packed: Sequence[MessageExt], limit: int = MAX_DECOMPRESSED
) -> list[bytes | CodecError]:
    """The plain body of each message, of at most `limit` bytes in total, or the error."""
    if sum(len(message.body) for message in packed) <= SMALL_PACKED:
        plain = _decompress(packed, min(limit, SMALL_PLAIN))
        if all(isinstance(body, bytes) for body in plain):
            return plain
    return await trio.to_thread.run_sync(partial(_decompress, packed, limit), abandon_on_cancel=True)


def _decompress(packed: Sequence[MessageExt], room: int) -> list[bytes | CodecError]:
    bodies: list[bytes | CodecError] = []
    for message in packed:
        try:
            plain = decompress(message.body, message.sys_flag, limit=min(room, MAX_DECOMPRESSED))
        except CodecError as error:
            bodies.append(error)
        else:
            bodies.append(plain)
            room -= len(plain)
    return bodies
