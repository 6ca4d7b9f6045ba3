"""Reader of commit-log records; it checks their lengths once, before anything is cut out.

`rmqcli.codec.store.record_layout` declares the layout of a record, and tests compare the two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from rmqcli.codec.core import hashing
from rmqcli.codec.core.hashing import CRC_BITS
from rmqcli.codec.core.property_pairs import read_pairs
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.ids import host_text
from rmqcli.codec.layout import Buffer
from rmqcli.codec.message import MessageExt
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH
from rmqcli.codec.store.record_layout import (
    BORN_HOST_V6,
    HEAD,
    HOST_V4_SIZE,
    HOST_V6_SIZE,
    LONGEST_TOPIC_V1,
    LONGEST_TOPIC_V2,
    MAGIC_FILLER,
    MAGIC_V1,
    MAGIC_V2,
    PREFIXES,
    STORE_HOST_V6,
)

_crc32: Final = hashing.crc32_whole
HEAD_SIZE: Final[i64] = HEAD.size
FILLER: Final[i64] = MAGIC_FILLER
_PREFIX: Final = PREFIXES[0]
_PREFIX_SIZE: Final[i64] = _PREFIX.size
_MAGIC: Final[i64] = _PREFIX.offsets["magic"]
_BODY_CRC: Final[i64] = _PREFIX.offsets["body_crc"]
_QUEUE_ID: Final[i64] = _PREFIX.offsets["queue_id"]
_FLAG: Final[i64] = _PREFIX.offsets["flag"]
_QUEUE_OFFSET: Final[i64] = _PREFIX.offsets["queue_offset"]
_PHYSICAL_OFFSET: Final[i64] = _PREFIX.offsets["physical_offset"]
_SYS_FLAG: Final[i64] = _PREFIX.offsets["sys_flag"]
_BORN_TIMESTAMP: Final[i64] = _PREFIX.offsets["born_timestamp"]
_BORN_HOST: Final[i64] = _PREFIX.offsets["born_host"]
# These are the offsets with hosts of 8 bytes; each host of 20 bytes before them adds `_WIDER`.
_STORE_TIMESTAMP: Final[i64] = _PREFIX.offsets["store_timestamp"]
_STORE_HOST: Final[i64] = _PREFIX.offsets["store_host"]
_RECONSUME_TIMES: Final[i64] = _PREFIX.offsets["reconsume_times"]
_PREPARED: Final[i64] = _PREFIX.offsets["prepared_transaction_offset"]
_BODY_LENGTH: Final[i64] = _PREFIX.offsets["body_length"]
_V4: Final[i64] = HOST_V4_SIZE
_WIDER: Final[i64] = HOST_V6_SIZE - HOST_V4_SIZE
_BORN_V6: Final[i64] = BORN_HOST_V6
_STORE_V6: Final[i64] = STORE_HOST_V6
_V1: Final[i64] = MAGIC_V1
_V2: Final[i64] = MAGIC_V2
_LONGEST_V1: Final[i64] = LONGEST_TOPIC_V1
_LONGEST_V2: Final[i64] = LONGEST_TOPIC_V2
_MASK: Final[i64] = 0xFFFFFFFF
_PROPERTIES_LENGTH: Final[i64] = 2
_SHORTEST_END: Final[i64] = 3
"""The minimum number of bytes that the lengths of topic and properties take."""
_LONGEST_END: Final[i64] = 2 + LONGEST_TOPIC_V2 + 2 + MAX_PROPERTIES_LENGTH
"""The maximum number of bytes of topic and properties with their lengths."""


class RecordScan(NamedTuple):
    """A checked record with its texts as bytes; a filler record has only its size and magic."""

    total_size: int
    magic: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    store_timestamp: int
    topic: bytes
    properties: bytes


class RecordReader:
    """The record last read: its numbers, and the positions of its parts.

    The body is in [body_at, body_end), the topic in [topic_at, topic_end), the properties in [properties_at,
    end), the packed hosts in [born_host_at, born_host_end) and [store_host_at, store_host_end).
    """

    def __init__(self) -> None:
        self.magic: i64 = 0
        self.crc: i64 = 0
        self.queue_id: i64 = 0
        self.flag: i64 = 0
        self.queue_offset: i64 = 0
        self.physical_offset: i64 = 0
        self.sys_flag: i64 = 0
        self.born_timestamp: i64 = 0
        self.store_timestamp: i64 = 0
        self.reconsume_times: i64 = 0
        self.prepared_transaction_offset: i64 = 0
        self.at: i64 = 0
        self.body_at: i64 = 0
        self.body_end: i64 = 0
        self.topic_at: i64 = 0
        self.topic_end: i64 = 0
        self.properties_at: i64 = 0
        self.end: i64 = 0
        self._wider_born: i64 = 0
        self._wider: i64 = 0
        self._topic = b""
        self._topic_text = ""

    def read(self, data: bytes, at: i64, limit: i64, base: i64 = 0, gap: i64 = 0) -> i64:
        """Read the record at a position, which must end at or before `limit`, and return where it ends.

        The last `gap` bytes of its body are missing from `data` but count for `limit`. `base` is added to the
        positions in errors. Raises CorruptionError for anything but a whole V1 or V2 record.
        """
        size: i64 = len(data)
        if at < 0 or at + _PREFIX_SIZE > size:
            raise CorruptionError("a record is cut short", base + at)
        sys_flag: i64 = i64(read_i32_be(data, at + _SYS_FLAG))
        self._wider_born = _WIDER if sys_flag & _BORN_V6 else 0
        self._wider = self._wider_born + (_WIDER if sys_flag & _STORE_V6 else 0)
        body_at: i64 = at + _PREFIX_SIZE + self._wider
        if body_at > size:
            raise CorruptionError("a record is cut short", base + at)
        total: i64 = i64(read_i32_be(data, at))
        length: i64 = i64(read_i32_be(data, body_at - _PREFIX_SIZE + _BODY_LENGTH))
        end: i64 = at + total - gap
        body_end: i64 = body_at + length - gap
        # All of these are sums of 32-bit numbers and positions, so none leaves 64 bits.
        if length < gap or body_end > end - _SHORTEST_END or end + gap > limit or end > size:
            raise CorruptionError(f"a record of {total} bytes with a body of {length}", base + at)
        magic: i64 = i64(read_i32_be(data, at + _MAGIC)) & _MASK
        topic_at: i64 = body_end + 1
        # In range: at least `_SHORTEST_END` bytes follow the body.
        topic_length: i64 = data[body_end]
        longest: i64 = _LONGEST_V1
        if magic == _V2:
            topic_at = body_end + 2
            topic_length = topic_length << 8 | i64(data[body_end + 1])
            longest = _LONGEST_V2
        elif magic != _V1:
            raise CorruptionError(f"unknown magic {int(magic):08x}", base + at)
        topic_end: i64 = topic_at + topic_length
        properties_at: i64 = topic_end + _PROPERTIES_LENGTH
        if topic_length > longest or properties_at > end:
            raise CorruptionError(f"a topic of {topic_length} bytes", base + at)
        # The length is signed. A negative one never adds up: the properties begin at or before `end`.
        if properties_at + i64(read_i16_be(data, topic_end)) != end:
            raise CorruptionError("the lengths in a record do not add up to its size", base + at)
        self.at = at
        self.magic = magic
        self.sys_flag = sys_flag
        self.body_at = body_at
        self.body_end = body_end
        self.topic_at = topic_at
        self.topic_end = topic_end
        self.properties_at = properties_at
        self.end = end
        self.crc = i64(read_i32_be(data, at + _BODY_CRC))
        self.queue_id = i64(read_i32_be(data, at + _QUEUE_ID))
        self.flag = i64(read_i32_be(data, at + _FLAG))
        self.queue_offset = read_i64_be(data, at + _QUEUE_OFFSET)
        self.physical_offset = read_i64_be(data, at + _PHYSICAL_OFFSET)
        self.born_timestamp = read_i64_be(data, at + _BORN_TIMESTAMP)
        self.store_timestamp = read_i64_be(data, at + self._wider_born + _STORE_TIMESTAMP)
        self.reconsume_times = i64(read_i32_be(data, at + self._wider + _RECONSUME_TIMES))
        self.prepared_transaction_offset = read_i64_be(data, at + self._wider + _PREPARED)
        return end

    @property
    def born_host_at(self) -> i64:
        """The position of the born host."""
        return self.at + _BORN_HOST

    @property
    def born_host_end(self) -> i64:
        """The position after the born host."""
        return self.at + _BORN_HOST + _V4 + self._wider_born

    @property
    def store_host_at(self) -> i64:
        """The position of the store host."""
        return self.at + _STORE_HOST + self._wider_born

    @property
    def store_host_end(self) -> i64:
        """The position after the store host."""
        return self.at + _STORE_HOST + _V4 + self._wider

    def find(self, buffer: Buffer, at: i64, limit: i64, check_crc: bool) -> bytes:
        """Read the record at a position of a buffer, which must end at or before `limit`, and return its
        bytes without the body.

        Nothing else is copied, whatever lengths the record states. Raises CorruptionError; with `check_crc`,
        also for a wrong CRC.
        """
        # A slice from a negative position would count from the end of the buffer.
        if at < 0:
            raise CorruptionError("a record is cut short", at)
        # As much as the longest prefix: only the sys flag inside says how wide the hosts are.
        data = bytes(buffer[at : at + _PREFIX_SIZE + 2 * _WIDER])
        if len(data) < _PREFIX_SIZE:
            raise CorruptionError("a record is cut short", at)
        sys_flag: i64 = i64(read_i32_be(data, _SYS_FLAG))
        wider: i64 = (_WIDER if sys_flag & _BORN_V6 else 0) + (_WIDER if sys_flag & _STORE_V6 else 0)
        if len(data) < _PREFIX_SIZE + wider:
            raise CorruptionError("a record is cut short", at)
        total: i64 = i64(read_i32_be(data, 0))
        length: i64 = i64(read_i32_be(data, wider + _BODY_LENGTH))
        body_at: i64 = at + _PREFIX_SIZE + wider
        rest: i64 = at + total - body_at - length
        # `rest` is copied below, before `read` checks the lengths in it, so it is limited here.
        if length < 0 or rest < _SHORTEST_END or rest > _LONGEST_END or at + total > limit:
            raise CorruptionError(f"a record of {total} bytes with a body of {length}", at)
        body_end: i64 = body_at + length
        data = data[: _PREFIX_SIZE + wider] + bytes(buffer[body_end : at + total])
        self.read(data, 0, limit - at, at, length)
        if check_crc and length:
            crc: i64 = _crc32(buffer[body_at:body_end])
            if crc & CRC_BITS != self.crc:
                raise CorruptionError("the CRC of a body is wrong", at)
        return data

    def scan(self, data: bytes, size: i64) -> RecordScan:
        """Return the record last read, which has `size` bytes, as values."""
        return RecordScan(
            size,
            self.magic,
            self.queue_id,
            self.queue_offset,
            self.physical_offset,
            self.sys_flag,
            self.store_timestamp,
            data[self.topic_at : self.topic_end],
            data[self.properties_at : self.end],
        )

    def check_crc(self, data: bytes, base: i64 = 0) -> None:
        """Raise CorruptionError if the body of the record last read does not have the CRC in the record."""
        # As in Java, the CRC of an empty body is not looked at.
        if self.body_at < self.body_end:
            crc: i64 = _crc32(data[self.body_at : self.body_end])
            if crc & CRC_BITS != self.crc:
                raise CorruptionError("the CRC of a body is wrong", base + self.at)

    def message(self, data: bytes, broker_name: str) -> MessageExt:
        """Return the record last read as a message."""
        topic = data[self.topic_at : self.topic_end]
        if topic != self._topic:  # all messages of a pull have the same topic
            self._topic = topic
            self._topic_text = topic.decode("utf-8", "replace")
        return MessageExt(
            topic=self._topic_text,
            queue_id=self.queue_id,
            queue_offset=self.queue_offset,
            commit_log_offset=self.physical_offset,
            flag=self.flag,
            sys_flag=self.sys_flag,
            born_timestamp=self.born_timestamp,
            born_host=host_text(data[self.born_host_at : self.born_host_end]),
            store_timestamp=self.store_timestamp,
            store_host=host_text(data[self.store_host_at : self.store_host_end]),
            reconsume_times=self.reconsume_times,
            prepared_transaction_offset=self.prepared_transaction_offset,
            body_crc=self.crc,
            store_size=self.end - self.at,
            body=data[self.body_at : self.body_end],
            properties=read_pairs(data[self.properties_at : self.end].decode("utf-8", "replace")),
            broker_name=broker_name,
        )


def read_messages(data: bytes, broker_name: str, check_crc: bool) -> list[MessageExt]:
    """Return the messages of adjacent records. Raises CorruptionError."""
    reader = RecordReader()
    found: list[MessageExt] = []
    at: i64 = 0
    size: i64 = len(data)
    while at < size:
        at = reader.read(data, at, size)
        if check_crc:
            reader.check_crc(data)
        found.append(reader.message(data, broker_name))
    return found
