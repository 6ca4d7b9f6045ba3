"""The stored record, declared once (Java class `CommitLog.MessageExtEncoder`; 5.x `MessageVersion`).
Big-endian.

A record is a prefix of 88 bytes (12 more for each IPv6 host), then body, topic and properties. The sys flag
determines the width of the hosts, the magic that of the topic's length. A filler record ends a commit-log
file; only its first 8 bytes have a meaning.

`RECORD` reads and builds everything and is the specification. The fused readers are `HEAD`, with which
records and fillers begin, and `PREFIXES`, the part before the body, for each combination of hosts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import construct
from construct import Bytes, Check, IfThenElse, Int8sb, Int16sb, Int32sb, Int32ub, Int64sb, this

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.layout import FixedLayout, fused

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGICS = frozenset((MAGIC_V1, MAGIC_V2))
MAGIC_FILLER = 0xCBD43194
"""Java `BLANK_MAGIC_CODE`."""
LONGEST_TOPIC_V1 = 127
"""Old code reads the length of a V1 topic as a signed byte."""
LONGEST_TOPIC_V2 = 32767

BORN_HOST_V6 = MessageSysFlag.BORN_HOST_V6
STORE_HOST_V6 = MessageSysFlag.STORE_HOST_V6
HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
HOST_V4_SIZE = 8
HOST_V6_SIZE = 20

Width = int | Callable[[Any], int]


HEAD = fused(construct.Struct("total_size" / Int32sb, "magic" / Int32ub))


def _prefix(born_width: Width, store_width: Width) -> list[Any]:
    return [
        *HEAD.declaration.subcons,
        "body_crc" / Int32sb,
        "queue_id" / Int32sb,
        "flag" / Int32sb,
        "queue_offset" / Int64sb,
        "physical_offset" / Int64sb,
        "sys_flag" / Int32sb,
        "born_timestamp" / Int64sb,
        "born_host" / Bytes(born_width),
        "store_timestamp" / Int64sb,
        "store_host" / Bytes(store_width),
        "reconsume_times" / Int32sb,
        "prepared_transaction_offset" / Int64sb,
        "body_length" / Int32sb,
    ]


def _host_size(sys_flag: int, bit: int) -> int:
    return HOST_V6_SIZE if sys_flag & bit else HOST_V4_SIZE


def _fused_prefix(bits: int) -> FixedLayout:
    return fused(construct.Struct(*_prefix(_host_size(bits, BORN_HOST_V6), _host_size(bits, STORE_HOST_V6))))


def _computed_size(record: Any) -> int:
    prefix = PREFIXES[record.sys_flag & HOST_BITS].size
    topic_width = 2 if record.magic == MAGIC_V2 else 1
    return int(prefix + record.body_length + topic_width + record.topic_length + 2 + record.properties_length)


PREFIXES = {bits: _fused_prefix(bits) for bits in (0, BORN_HOST_V6, STORE_HOST_V6, HOST_BITS)}
RECORD = construct.Struct(
    *_prefix(
        lambda record: _host_size(record.sys_flag, BORN_HOST_V6),
        lambda record: _host_size(record.sys_flag, STORE_HOST_V6),
    ),
    Check(lambda record: record.magic in MAGICS),
    "body" / Bytes(this.body_length),
    "topic_length" / IfThenElse(this.magic == MAGIC_V2, Int16sb, Int8sb),
    "topic" / Bytes(this.topic_length),
    "properties_length" / Int16sb,
    "properties" / Bytes(this.properties_length),
    Check(lambda record: record.total_size == _computed_size(record)),
)

FILLER_HEAD_SIZE = HEAD.size
"""Bytes of a filler record that are written at the end of a file (Java `END_FILE_MIN_BLANK_LENGTH`)."""
MIN_RECORD_SIZE = PREFIXES[0].size + 3
"""Empty body, topic and properties, IPv4 hosts: 91 bytes."""
