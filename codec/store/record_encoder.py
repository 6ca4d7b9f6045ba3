"""Writers of stored records (Java class `CommitLog.DefaultAppendMessageCallback`).

`RecordEncoder` prepares what many records share; `encode_record` writes a single one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, count, repeat
from operator import add
from typing import Final

from codec.errors import LocalProtocolError
from codec.hashing import CRC_BITS, crc32_whole
from codec.layout import FixedLayout
from codec.store.record_layout import (
    BORN_HOST_V6,
    HEAD,
    HOST_BITS,
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

_pack_properties_length: Final = struct.Struct(">h").pack
_pack_filler: Final = HEAD.pack
# Record version → its magic, bytes of the topic's length, longest topic.
_VERSIONS: Final = {1: (MAGIC_V1, 1, LONGEST_TOPIC_V1), 2: (MAGIC_V2, 2, LONGEST_TOPIC_V2)}


_COMMON: Final = (
    *("sys_flag", "born_timestamp", "born_host", "store_timestamp", "store_host"),
    *("reconsume_times", "prepared_transaction_offset"),
)
"""Fields side by side that the records of a run share."""


def _run_packers(layout: FixedLayout) -> tuple[Callable[..., bytes], Callable[..., bytes]]:
    """Packers of a prefix whose `_COMMON` fields are one field of bytes, and of these fields."""
    common = layout.part(*_COMMON)
    codes = {field.name: field.code for field in layout.fields if field.name not in _COMMON}
    rest = [codes.pop(name) for name in layout.names[: layout.names.index(_COMMON[0])]]
    return struct.Struct(
        f"{layout.order}{''.join(rest)}{common.size}s{''.join(codes.values())}"
    ).pack, common.pack


_RUNS: Final = {bits: _run_packers(layout) for bits, layout in PREFIXES.items()}


class RecordEncoder:
    """An encoder of the records of one store and one version."""

    __slots__ = ("_longest_topic", "_magic", "_packers", "_store_host", "_topic_width")

    def __init__(self, store_host: bytes, version: int = 1) -> None:
        """Prepares for a packed store host. Raises LocalProtocolError unless it has 8 or 20 bytes."""
        if len(store_host) not in {HOST_V4_SIZE, HOST_V6_SIZE}:
            raise LocalProtocolError(f"a host of {len(store_host)} bytes")
        self._store_host = store_host
        self._magic, self._topic_width, self._longest_topic = _VERSIONS[version]
        self._packers = {
            HOST_V6_SIZE if bits & BORN_HOST_V6 else HOST_V4_SIZE: (layout.struct.pack, bits, layout.size)
            for bits, layout in PREFIXES.items()
            if bool(bits & STORE_HOST_V6) == (len(store_host) == HOST_V6_SIZE)
        }

    def sized_topic(self, topic: bytes) -> bytes:
        """A topic after its length, for `pieces`. Raises LocalProtocolError over 127 bytes (version 2:
        32,767)."""
        if len(topic) > self._longest_topic:
            raise LocalProtocolError(f"a topic of {len(topic)} bytes, a record holds {self._longest_topic}")
        return len(topic).to_bytes(self._topic_width, "big") + topic

    # Positional: names would cost a tenth of the whole.
    def pieces(
        self,
        sized_topic: bytes,
        queue_id: int,
        flag: int,
        queue_offset: int,
        physical_offset: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        store_timestamp: int,
        reconsume_times: int,
        prepared_transaction_offset: int,
        body: bytes | memoryview,
        properties: bytes,
        body_crc: int | None = None,
    ) -> tuple[int, tuple[bytes | memoryview, ...]]:
        """The size of a record, and its bytes in pieces to be joined; the CRC is computed unless given.

        Raises LocalProtocolError for properties over 32,767 bytes, a host that is not 8 or 20 bytes, or a
        number out of range.
        """
        body_length = len(body)
        properties_length = len(properties)
        try:
            pack, bits, size = self._packers[len(born_host)]
            size += body_length + len(sized_topic) + 2 + properties_length
            return size, (
                pack(
                    size,
                    self._magic,
                    crc32_whole(body) & CRC_BITS if body_crc is None else body_crc,
                    queue_id,
                    flag,
                    queue_offset,
                    physical_offset,
                    sys_flag & ~HOST_BITS | bits,
                    born_timestamp,
                    born_host,
                    store_timestamp,
                    self._store_host,
                    reconsume_times,
                    prepared_transaction_offset,
                    body_length,
                ),
                body,
                sized_topic,
                _pack_properties_length(properties_length),
                properties,
            )
        except (KeyError, struct.error) as error:
            raise _refused(error, born_host) from None

    def run(
        self,
        sized_topic: bytes,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        store_timestamp: int,
        reconsume_times: int,
        prepared_transaction_offset: int,
        flags: Sequence[int],
        bodies: Sequence[bytes | memoryview],
        properties: Sequence[bytes],
        body_crcs: Sequence[int],
    ) -> tuple[bytes, list[int]]:
        """The records of messages that follow one another in queue and log, and the size of each: as many
        `pieces`, by columns.

        Raises LocalProtocolError like `pieces`.
        """
        try:
            _, bits, size = self._packers[len(born_host)]
            pack, pack_common = _RUNS[bits]
            body_lengths, properties_lengths = list(map(len, bodies)), list(map(len, properties))
            size += len(sized_topic) + 2
            sizes = [size + length for length in map(add, body_lengths, properties_lengths)]
            common = pack_common(
                sys_flag & ~HOST_BITS | bits,
                born_timestamp,
                born_host,
                store_timestamp,
                self._store_host,
                reconsume_times,
                prepared_transaction_offset,
            )
            prefixes = map(
                pack,
                sizes,
                repeat(self._magic),
                body_crcs,
                repeat(queue_id),
                flags,
                count(queue_offset),
                accumulate(sizes, initial=physical_offset),
                repeat(common),
                body_lengths,
            )
            lengths = {
                length: sized_topic + _pack_properties_length(length) for length in {*properties_lengths}
            }
            topics = map(lengths.__getitem__, properties_lengths)
            pieces = zip(prefixes, bodies, topics, properties, strict=True)
            return b"".join(chain.from_iterable(pieces)), sizes
        except (KeyError, struct.error) as error:
            raise _refused(error, born_host) from None


def _refused(error: KeyError | struct.error, born_host: bytes) -> LocalProtocolError:
    if isinstance(error, KeyError):
        return LocalProtocolError(f"a host of {len(born_host)} bytes")
    return LocalProtocolError(f"a number does not fit the record: {error}")


_encoder_of = lru_cache(maxsize=64)(RecordEncoder)


# The names are written out: passed on as a dict they would double the time.
def encode_record(
    *,
    topic: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: bytes | memoryview,
    properties: bytes,
    body_crc: int | None = None,
    version: int = 1,
) -> bytes:
    """The bytes of a record.

    Hosts are packed and decide the address bits of the sys flag. Raises LocalProtocolError like
    RecordEncoder.
    """
    encoder = _encoder_of(store_host, version)
    _, pieces = encoder.pieces(
        encoder.sized_topic(topic),
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        reconsume_times,
        prepared_transaction_offset,
        body,
        properties,
        body_crc,
    )
    return b"".join(pieces)


def record_size(
    body_length: int, topic_length: int, properties_length: int, sys_flag: int = 0, version: int = 1
) -> int:
    """The bytes of a record whose parts have these lengths; the address bits of `sys_flag` count."""
    prefix = PREFIXES[sys_flag & HOST_BITS].size
    return prefix + body_length + _VERSIONS[version][1] + topic_length + 2 + properties_length


def encode_filler(remaining: int) -> bytes:
    """The 8 bytes of a filler record that occupies the `remaining` bytes of a file."""
    return _pack_filler(remaining, MAGIC_FILLER)
