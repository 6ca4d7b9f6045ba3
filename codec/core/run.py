"""Records that are stored together, one after the other in the commit log, with their queue entries and
index items.

A single message is a run of one. A record is written as Java's `CommitLog.DefaultAppendMessageCallback`
writes it; `codec.store.record_layout` declares it, and tests compare the two.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from codec.core.derived import IndexItem
from codec.core.hashing import CRC_BITS, crc32_whole
from codec.core.text import TextReader
from codec.errors import LocalProtocolError
from codec.properties import MAX_PROPERTIES_LENGTH
from codec.store.record_layout import (
    BORN_HOST_V6,
    HOST_BITS,
    HOST_V4_SIZE,
    HOST_V6_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    PREFIXES,
    STORE_HOST_V6,
)

_PREFIX_SIZE: Final[i64] = PREFIXES[0].size
_V4: Final[i64] = HOST_V4_SIZE
_V6: Final[i64] = HOST_V6_SIZE
_BORN_V6: Final[i64] = BORN_HOST_V6
_STORE_V6: Final[i64] = STORE_HOST_V6
_NOT_HOSTS: Final[i64] = ~HOST_BITS
_LONGEST: Final[i64] = MAX_PROPERTIES_LENGTH
# Java writes the magic as an int, whose highest bit is the sign.
RECORD_V1: Final = MAGIC_V1 - (1 << 32)
RECORD_V2: Final = MAGIC_V2 - (1 << 32)


class Run:
    """Records from a position of the commit log on, and by columns what queues and index get of each.

    `end` is where the next record goes. `sizes` and `codes` have a number for each record, `items` the
    index items of all. A message with more than `most_hashed` bytes of properties has none: its keys may
    be thousands.
    """

    def __init__(self, store_host: bytes, begin: i64, most_hashed: i64, magic: i32 = RECORD_V1) -> None:
        """Begin a run at an offset of the commit log. `store_host` has 8 or 20 bytes (LocalProtocolError)."""
        size: i64 = len(store_host)
        if size not in (_V4, _V6):
            raise LocalProtocolError(f"a host of {size} bytes")
        self._store_host = store_host
        self._magic: i32 = magic
        self._reader = TextReader()
        self._records = BytesWriter()
        self._most_hashed: i64 = most_hashed
        self._begin: i64 = begin
        self.end: i64 = begin
        self.sizes: list[int] = []
        self.codes: list[int] = []
        self.items: list[IndexItem] = []

    def records(self) -> bytes:
        """Return the bytes of all records."""
        return self._records.getvalue()

    def offsets(self) -> list[int]:
        """Return the offset of each record."""
        found: list[int] = []
        at: i64 = self._begin
        for size in self.sizes:
            found.append(at)
            at += size
        return found

    def size_of(self, sized_topic: bytes, born_host: bytes, body_size: i64, properties_size: i64) -> i64:
        """Return the size that a record will have."""
        hosts: i64 = len(born_host) + len(self._store_host) - 2 * _V4
        return _PREFIX_SIZE + hosts + body_size + len(sized_topic) + 2 + properties_size

    def add(
        self,
        sized_topic: bytes,
        seed: i64,
        queue_id: i32,
        flag: i32,
        queue_offset: i64,
        sys_flag: i64,
        born_timestamp: i64,
        born_host: bytes,
        store_timestamp: i64,
        reconsume_times: i32,
        prepared_transaction_offset: i64,
        body: bytes,
        properties: bytes,
    ) -> i64:
        """Add a message; return the offset of its record.

        `sized_topic` is the topic after its length, `seed` its `index_seed`. Raises LocalProtocolError,
        and adds nothing, for properties over 32,767 bytes or a host that has not 8 or 20 bytes.
        """
        properties_size: i64 = len(properties)
        born_size: i64 = len(born_host)
        if properties_size > _LONGEST:
            raise LocalProtocolError(f"the properties take {properties_size} bytes, the limit is {_LONGEST}")
        if born_size not in (_V4, _V6):
            raise LocalProtocolError(f"a host of {born_size} bytes")
        bits: i64 = sys_flag & _NOT_HOSTS
        if born_size == _V6:
            bits |= _BORN_V6
        if len(self._store_host) == _V6:
            bits |= _STORE_V6
        body_size: i64 = len(body)
        size: i64 = self.size_of(sized_topic, born_host, body_size, properties_size)
        crc: i64 = crc32_whole(body)
        begin: i64 = self.end
        out = self._records
        write_i32_be(out, i32(size))
        write_i32_be(out, self._magic)
        write_i32_be(out, i32(crc & CRC_BITS))
        write_i32_be(out, queue_id)
        write_i32_be(out, flag)
        write_i64_be(out, queue_offset)
        write_i64_be(out, begin)
        write_i32_be(out, i32(bits))
        write_i64_be(out, born_timestamp)
        out.write(born_host)
        write_i64_be(out, store_timestamp)
        out.write(self._store_host)
        write_i32_be(out, reconsume_times)
        write_i64_be(out, prepared_transaction_offset)
        write_i32_be(out, i32(body_size))
        out.write(body)
        out.write(sized_topic)
        write_i16_be(out, i16(properties_size))
        out.write(properties)
        self.end = begin + size
        self.sizes.append(size)
        reader = self._reader
        reader.read(properties, 0, properties_size)
        self.codes.append(reader.code(properties))
        if properties_size <= self._most_hashed:
            reader.add_items(properties, seed, begin, store_timestamp, self.items)
        return begin
