"""Inner batches: records of 5.x whose body is a batch of messages (Java `MessageDecoder.decodeMessage`).

The record has the queue offset of its first message; the others follow without gaps. Each message has its own
properties and flag; everything else is taken from the record.
"""

from __future__ import annotations

from msgspec.structs import replace

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.core.batch import read_items
from rmqcli.codec.message import MessageExt
from rmqcli.codec.properties import decode_properties

INNER_BATCH, NEED_UNWRAP = MessageSysFlag.INNER_BATCH, MessageSysFlag.NEED_UNWRAP
WRAPPED = INNER_BATCH | NEED_UNWRAP
# The messages inside are single ones, and were decompressed with the body.
NOT_INNER = ~(WRAPPED | MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_MASK)


def unwrapped(message: MessageExt, begin: int = 0) -> list[MessageExt]:
    """Return the messages of a record with a plain body; of an inner batch, only those from queue offset
    `begin` on.

    Raises BodyError if the body of an inner batch is not a batch.
    """
    if message.sys_flag & WRAPPED != WRAPPED:
        return [message]
    sys_flag = message.sys_flag & NOT_INNER
    return [
        replace(
            message,
            queue_offset=offset,
            flag=flag,
            sys_flag=sys_flag,
            body=body,
            properties=decode_properties(properties),
        )
        for offset, (flag, body, properties) in enumerate(
            read_items(bytes(message.body)), message.queue_offset
        )
        if offset >= begin
    ]
