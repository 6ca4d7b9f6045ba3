"""The encoding of single records, which `rmqcli.codec.core.record_writer` writes, and of the filler at the
end of a commit-log file.
"""

from __future__ import annotations

from rmqcli.codec.core.record_writer import NO_LIMIT, RECORD_V1, RECORD_V2, QueueRun, Run
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.store.record_layout import (
    HEAD,
    HOST_BITS,
    LONGEST_TOPIC_V1,
    LONGEST_TOPIC_V2,
    MAGIC_FILLER,
    PREFIXES,
)

_VERSIONS = {1: (RECORD_V1, 1, LONGEST_TOPIC_V1), 2: (RECORD_V2, 2, LONGEST_TOPIC_V2)}
"""Magic, width of the topic's length and longest topic, by record version."""


def sized_topic(topic: bytes, version: int = 1) -> bytes:
    """Return a topic preceded by its length. Raises LocalProtocolError over 127 bytes (version 2: 32,767)."""
    _, width, longest = _VERSIONS[version]
    if len(topic) > longest:
        raise LocalProtocolError(f"a topic of {len(topic)} bytes, a record holds {longest}")
    return len(topic).to_bytes(width, "big") + topic


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
    version: int = 1,
) -> bytes:
    """Return the bytes of a record.

    Hosts are packed, and determine the host bits of the sys flag. Raises LocalProtocolError for a topic or
    properties that are too long, a host that has neither 8 nor 20 bytes, or a number out of range.
    """
    try:
        run = Run(store_host, physical_offset, store_timestamp, magic=_VERSIONS[version][0])
        queue = QueueRun("", sized_topic(topic, version), 0, queue_id, queue_offset, NO_LIMIT)
        run.add(
            queue,
            flag,
            sys_flag,
            born_timestamp,
            born_host,
            reconsume_times,
            prepared_transaction_offset,
            bytes(body),
            properties,
            0,
            [],
        )
    except (
        OverflowError,
        TypeError,
        ValueError,
    ) as error:  # raised for a number that is too wide, by the compiled and by the interpreted core
        raise LocalProtocolError(f"a number does not fit the record: {error}") from None
    return run.records()


def record_size(
    body_length: int, topic_length: int, properties_length: int, sys_flag: int = 0, version: int = 1
) -> int:
    """Return the size in bytes of a record with parts of these lengths; the host bits of `sys_flag` count."""
    prefix = PREFIXES[sys_flag & HOST_BITS].size
    return prefix + body_length + _VERSIONS[version][1] + topic_length + 2 + properties_length


def encode_filler(remaining: int) -> bytes:
    """Return the 8 bytes of a filler record that occupies the `remaining` bytes of a file."""
    return HEAD.pack(remaining, MAGIC_FILLER)
