"""Stored messages in the body of a pull, query or view reply.

Decompression of more than SMALL_PACKED bytes, or to more than SMALL_PLAIN, runs in a worker thread: 64 KiB of
compressed messages take about 1 ms, starting a thread about 0.1 ms.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import trio
from msgspec.structs import force_setattr

from rmqcli.client.errors import CorruptReply
from rmqcli.codec.compression import COMPRESSED, MAX_DECOMPRESSED, decompress
from rmqcli.codec.errors import BodyError, CodecError
from rmqcli.codec.inner_batch import INNER_BATCH, unwrapped
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.records.reading import decode_records

log = logging.getLogger("rmqcli.client.pull")

SMALL_PACKED = 16 * 1024
SMALL_PLAIN = 128 * 1024
MAX_TOGETHER = 256 * 1024 * 1024
"""The limit for all plain bodies of one reply together, in bytes."""
_NOT_PLAIN = COMPRESSED | INNER_BATCH


class Reading(NamedTuple):
    """The messages of a reply, in order; `cut_at` is the queue offset of the first one left out, if any."""

    messages: list[MessageExt]
    cut_at: int | None = None

    def whole(self, broker_name: str) -> list[MessageExt]:
        """Return the messages.

        Raises CorruptReply if any were left out, because the request cannot be continued after them.
        """
        if self.cut_at is not None:
            text = "messages that are too long together once decompressed; ask for fewer"
            raise CorruptReply(broker_name, text)
        return self.messages


async def read_messages(
    body: bytes | memoryview, broker_name: str, *, limit: int = MAX_TOGETHER, begin: int = 0
) -> Reading:
    """Return the messages of a reply body, decompressed.

    Those of an inner batch from queue offset `begin` on.

    Raises CorruptReply if a record is damaged. Ends before a message whose body would make the total exceed
    `limit` bytes. A body that cannot be decompressed at all stays as stored and is logged, so that one such
    message does not block later messages. Java's client drops all messages of the reply.
    """
    try:
        messages = decode_records(body, broker_name)
    except CodecError as error:
        raise CorruptReply(broker_name, str(error)) from error
    packed, is_wrapped = [], False
    for message in messages:
        if message.sys_flag & _NOT_PLAIN:
            is_wrapped |= bool(message.sys_flag & INNER_BATCH)
            if message.sys_flag & COMPRESSED:
                packed.append(message)
    if packed:
        bodies = await plain_bodies(packed, limit)
        for message, plain in zip(packed, bodies, strict=False):
            if isinstance(plain, bytes):
                force_setattr(message, "body", plain)
            else:
                queue = MessageQueue(message.topic, broker_name, message.queue_id)
                log.error("%s, offset %d: %s; the body is as stored", queue, message.queue_offset, plain)
        if len(bodies) < len(packed):
            first = packed[len(bodies)]
            at = next(index for index, message in enumerate(messages) if message is first)
            return Reading(await _unwrapped(messages[:at], begin, is_wrapped), first.queue_offset)
    return Reading(await _unwrapped(messages, begin, is_wrapped))


async def _unwrapped(messages: list[MessageExt], begin: int, is_wrapped: bool) -> list[MessageExt]:
    """Replace inner batches with their messages. A batch that cannot be read stays whole."""
    if not is_wrapped:
        return messages
    if sum(len(message.body) for message in messages) <= SMALL_PLAIN:
        return _unwrap(messages, begin)
    return await trio.to_thread.run_sync(_unwrap, messages, begin, abandon_on_cancel=True)


def _unwrap(messages: list[MessageExt], begin: int) -> list[MessageExt]:
    found: list[MessageExt] = []
    for message in messages:
        try:
            found += unwrapped(message, begin)
        except BodyError as error:
            log.error("%s, offset %d: %s; it is shown as stored", message.queue, message.queue_offset, error)
            found.append(message)
    return found


async def plain_bodies(
    packed: Sequence[MessageExt], limit: int = MAX_DECOMPRESSED
) -> list[bytes | CodecError]:
    """Return the plain body of each message, or the error.

    Ends before a message whose plain body is too long only because of earlier ones; `limit` is for all bodies
    together.
    """
    if sum(len(message.body) for message in packed) <= SMALL_PACKED:
        # Tried here with a small limit; bodies that expand to more are decompressed again in a thread.
        plain = _decompress(packed, min(limit, SMALL_PLAIN))
        if len(plain) == len(packed) and all(isinstance(body, bytes) for body in plain):
            return plain
    return await trio.to_thread.run_sync(partial(_decompress, packed, limit), abandon_on_cancel=True)


async def unpack(message: MessageExt) -> CodecError | None:
    """Decompress the body of one message in place. Return the error if that fails."""
    if not message.sys_flag & COMPRESSED:
        return None
    (plain,) = await plain_bodies([message])
    if isinstance(plain, CodecError):
        return plain
    force_setattr(message, "body", plain)
    return None


def _decompress(packed: Sequence[MessageExt], limit: int) -> list[bytes | CodecError]:
    bodies: list[bytes | CodecError] = []
    room, alone = limit, min(limit, MAX_DECOMPRESSED)
    for message in packed:
        try:
            plain = decompress(message.body, message.sys_flag, limit=min(room, alone))
        except CodecError as error:
            # It may fit without the earlier ones, so it is left to a further request.
            if room < alone:
                break
            bodies.append(error)
        else:
            bodies.append(plain)
            room -= len(plain)
    return bodies
