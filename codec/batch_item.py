"""One message in the body of a batch send (request code 320), declared once (Java class `MessageDecoder`).

An item has no topic. Its magic and CRC have no meaning, and it is never compressed by itself.
"""

from __future__ import annotations

import construct
from construct import Bytes, Check, Int16sb, Int32sb, this

from rmqcli.codec.layout import fused

ITEM_HEAD = fused(
    construct.Struct(
        "total_size" / Int32sb,
        "magic" / Int32sb,
        "body_crc" / Int32sb,
        "flag" / Int32sb,
        "body_length" / Int32sb,
    )
)
TEXT_LENGTH = fused(construct.Struct("properties_length" / Int16sb))
SMALLEST_ITEM: int = ITEM_HEAD.size + TEXT_LENGTH.size
"""Bytes of an item without body and properties."""
BATCH_ITEM = construct.Struct(
    *ITEM_HEAD.declaration.subcons,
    "body" / Bytes(this.body_length),
    *TEXT_LENGTH.declaration.subcons,
    "properties" / Bytes(this.properties_length),
    Check(lambda item: item.total_size == SMALLEST_ITEM + item.body_length + item.properties_length),
)
