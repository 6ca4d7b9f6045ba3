"""Records that are stored together, one after another in the commit log, with their queue entries and index
items.

A single message is a run of one. A record is written as Java's `CommitLog.DefaultAppendMessageCallback`
writes it; `rmqcli.codec.store.record_layout` declares it, and tests compare the two.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from rmqcli.codec.core.derived import IndexItem
from rmqcli.codec.core.hashing import CRC_BITS, crc32_whole
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH
from rmqcli.codec.store.record_layout import (
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
NO_LIMIT: Final = (1 << 63) - 1
# Java writes the magic as an int, whose highest bit is the sign.
RECORD_V1: Final = MAGIC_V1 - (1 << 32)
RECORD_V2: Final = MAGIC_V2 - (1 << 32)


class QueueRun:
    """Messages that are stored together in one queue, with consecutive offsets from `queue_offset` on.

    `offsets`, `sizes` and `codes` have the commit-log offset, the size in bytes and the tags code of each
    record, `texts` its properties. Queue offsets stay below `limit`.
    """

    def __init__(
        self, topic: str, sized_topic: bytes, seed: i64, queue_id: i32, queue_offset: i64, limit: i64
    ) -> None:
        """Begin without messages. `sized_topic` is the topic after its length, `seed` its `index_seed`."""
        self.topic = topic
        self.queue_id: i32 = queue_id
        self.queue_offset: i64 = queue_offset
        self.timestamp: i64 = 0
        """The store time of the first message, in ms."""
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        self.codes: list[int] = []
        self.texts: list[bytes] = []
        self._sized_topic = sized_topic
        self.seed: i64 = seed
        self._next: i64 = queue_offset
        self._limit: i64 = limit

    @property
    def is_full(self) -> bool:
        """True if the next message would have an offset beyond the limit."""
        return self._next >= self._limit


class Run:
    """Records from an offset of the commit log on that are stored at the same time.

    `end` is the offset of the next record, at most `limit`. `items` are the index items of all records, in
    order.
    """

    def __init__(
        self,
        store_host: bytes,
        begin: i64,
        timestamp: i64,
        limit: i64 = NO_LIMIT,
        magic: i32 = RECORD_V1,
    ) -> None:
        """Begin a run at an offset of the commit log, with a store time in ms. Raises LocalProtocolError
        unless `store_host` has 8 or 20 bytes.
        """
        size: i64 = len(store_host)
        if size not in (_V4, _V6):
            raise LocalProtocolError(f"a host of {size} bytes")
        self._store_host = store_host
        self._magic: i32 = magic
        self._records = BytesWriter()
        self.limit: i64 = limit
        self.timestamp: i64 = timestamp
        self.begin: i64 = begin
        self.end: i64 = begin
        self.items: list[IndexItem] = []

    def records(self) -> bytes:
        """Return the bytes of all records."""
        return self._records.getvalue()

    def has_room(self, queue: QueueRun, born_host: bytes, body_size: i64, properties_size: i64) -> bool:
        """Return True if the record of a message would not extend beyond the limit."""
        hosts: i64 = len(born_host) + len(self._store_host) - 2 * _V4
        texts: i64 = len(queue._sized_topic) + 2 + properties_size
        return self.end + _PREFIX_SIZE + hosts + body_size + texts <= self.limit

    def add(
        self,
        queue: QueueRun,
        flag: i32,
        sys_flag: i64,
        born_timestamp: i64,
        born_host: bytes,
        reconsume_times: i32,
        prepared_transaction_offset: i64,
        body: bytes,
        properties: bytes,
        code: i64,
        hashes: list[int],
    ) -> i64:
        """Add a message, with its tags code and the hashes of its keys, to the run and to its queue; return
        the offset of its record.

        Raises LocalProtocolError and adds nothing if the properties exceed 32,767 bytes or the host has
        neither 8 nor 20 bytes.
        """
        properties_size: i64 = len(properties)
        born_size: i64 = len(born_host)
        if properties_size > _LONGEST:
            raise LocalProtocolError(f"the properties take {properties_size} bytes, the limit is {_LONGEST}")
        if born_size not in (_V4, _V6):
            raise LocalProtocolError(f"a host of {born_size} bytes")
        # The bits for IPv6 follow the hosts that are written, whatever the sender set.
        bits: i64 = sys_flag & _NOT_HOSTS
        if born_size == _V6:
            bits |= _BORN_V6
        if len(self._store_host) == _V6:
            bits |= _STORE_V6
        body_size: i64 = len(body)
        hosts: i64 = born_size + len(self._store_host) - 2 * _V4
        texts: i64 = len(queue._sized_topic) + 2 + properties_size
        size: i64 = _PREFIX_SIZE + hosts + body_size + texts
        crc: i64 = crc32_whole(body)
        begin: i64 = self.end
        out = self._records
        write_i32_be(out, i32(size))
        write_i32_be(out, self._magic)
        write_i32_be(out, i32(crc & CRC_BITS))
        write_i32_be(out, queue.queue_id)
        write_i32_be(out, flag)
        write_i64_be(out, queue._next)
        write_i64_be(out, begin)
        write_i32_be(out, i32(bits))
        write_i64_be(out, born_timestamp)
        out.write(born_host)
        write_i64_be(out, self.timestamp)
        out.write(self._store_host)
        write_i32_be(out, reconsume_times)
        write_i64_be(out, prepared_transaction_offset)
        write_i32_be(out, i32(body_size))
        out.write(body)
        out.write(queue._sized_topic)
        write_i16_be(out, i16(properties_size))
        out.write(properties)
        self.end = begin + size
        self.note(queue, begin, size, self.timestamp, properties, code, hashes)
        return begin

    def note(
        self,
        queue: QueueRun,
        offset: i64,
        size: i64,
        timestamp: i64,
        properties: bytes,
        code: i64,
        hashes: list[int],
    ) -> None:
        """Add a record that is already in the log to its queue and to the index."""
        if queue._next == queue.queue_offset:
            queue.timestamp = timestamp
        queue._next += 1
        queue.offsets.append(offset)
        queue.sizes.append(size)
        queue.texts.append(properties)
        queue.codes.append(code)
        for key_hash in hashes:
            self.items.append((key_hash, offset, timestamp))
