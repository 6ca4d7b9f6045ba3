"""The hot path of a broker into its commit log: `encode_record` with all that does not change worked out before."""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from codec.errors import LocalProtocolError
from codec.record_layout import (
    BORN_HOST_V6,
    HOST_BITS,
    HOST_V4_SIZE,
    HOST_V6_SIZE,
    MAGIC_V1,
    PREFIXES,
    STORE_HOST_V6,
)

__all__ = ["RecordEncoder"]

_pack_properties_length: Final = struct.Struct(">h").pack


class RecordEncoder:
    """`encode_record` for the V1 records of one store: what stays the same is looked up once."""

    __slots__ = ("_packers", "_store_host")

    def __init__(self, store_host: bytes) -> None:
        """`store_host` is packed, 8 or 20 bytes."""
        self._store_host = store_host
        self._packers = {
            HOST_V6_SIZE if bits & BORN_HOST_V6 else HOST_V4_SIZE: (layout.struct.pack, bits, layout.size)
            for bits, layout in PREFIXES.items()
            if bool(bits & STORE_HOST_V6) == (len(store_host) == HOST_V6_SIZE)
        }

    # Positional: names would cost a tenth of the whole.
    def encode(
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
    ) -> bytes:
        """The bytes of a record; `sized_topic` is the topic behind the byte that holds its length.

        LocalProtocolError as for `encode_record`.
        """
        body_length = len(body)
        properties_length = len(properties)
        try:
            pack, bits, size = self._packers[len(born_host)]
            return b"".join(
                (
                    pack(
                        size + body_length + len(sized_topic) + 2 + properties_length,
                        MAGIC_V1,
                        crc32(body) & 0x7FFFFFFF,
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
            )
        except KeyError:
            raise LocalProtocolError(f"a host of {len(born_host)} bytes") from None
        except struct.error as error:
            raise LocalProtocolError(f"a number does not fit the record: {error}") from None
