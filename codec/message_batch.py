"""The body of a batch send (code 320): messages of one topic, one after another. The broker stores each as a
record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from rmqcli.codec.batch_item import ITEM_HEAD, SMALLEST_ITEM, TEXT_LENGTH
from rmqcli.codec.core.batch import read_items
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.layout import Buffer
from rmqcli.codec.message import Message
from rmqcli.codec.properties import encode_properties


class BatchItem(NamedTuple):
    """One message of a batch body; `properties` is the encoded text."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(messages: Iterable[Message]) -> bytes:
    """Encode messages without their topics. Raises LocalProtocolError for properties over 32,767 bytes."""
    parts: list[bytes] = []
    for message in messages:
        properties = encode_properties(message.properties)
        total = SMALLEST_ITEM + len(message.body) + len(properties)
        try:
            parts.append(ITEM_HEAD.pack(total, 0, 0, message.flag, len(message.body)))
        except struct.error as error:
            raise LocalProtocolError(f"a number does not fit the batch: {error}") from None
        parts += (message.body, TEXT_LENGTH.pack(len(properties)), properties)
    return b"".join(parts)


def decode_batch(data: Buffer) -> list[BatchItem]:
    """Return the items of a batch body; magic and CRC are ignored, as in Java. Raises BodyError for an
    incomplete item.
    """
    return [BatchItem(*item) for item in read_items(bytes(data))]
