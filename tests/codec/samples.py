"""Random and hostile stored records, for the tests of every reader."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rmqcli.codec.records.encoding import encode_record
from rmqcli.codec.store.record_layout import PREFIXES

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
# Lengths that need a second byte, too
LONG_TEXTS = st.binary(max_size=200) | st.binary(max_size=3).map(lambda data: data * 100)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)


@st.composite
def record_fields(draw: st.DrawFn) -> dict[str, Any]:
    """The arguments of encode_record: V1 and V2, every combination of hosts, any numbers and bytes."""
    version = draw(st.sampled_from((1, 2)))
    return {
        "topic": draw(st.binary(max_size=127 if version == 1 else 300)),
        "queue_id": draw(INT32),
        "flag": draw(INT32),
        "queue_offset": draw(INT64),
        "physical_offset": draw(INT64),
        "sys_flag": draw(st.integers(0, 0x7FF)),
        "born_timestamp": draw(INT64),
        "born_host": draw(HOSTS),
        "store_timestamp": draw(INT64),
        "store_host": draw(HOSTS),
        "reconsume_times": draw(INT32),
        "prepared_transaction_offset": draw(INT64),
        "body": draw(LONG_TEXTS),
        "properties": draw(LONG_TEXTS),
        "version": version,
    }


def log_of(records: list[dict[str, Any]], base: int = 0) -> bytes:
    """The records with these arguments of encode_record, one after another; `base` is the offset of the first."""
    data = b""
    for fields in records:
        data += encode_record(**fields | {"physical_offset": base + len(data)})
    return data


def small_log(*changes: dict[str, Any]) -> bytes:
    """Small records with some fields changed, one after another."""
    data = b""
    for fields in changes:
        data += make_record(**{"physical_offset": len(data), **fields})
    return data


def make_record(**changes: Any) -> bytes:
    """A small record with some fields changed."""
    fields: dict[str, Any] = {
        "topic": b"TopicA",
        "queue_id": 1,
        "flag": 0,
        "queue_offset": 7,
        "physical_offset": 4096,
        "sys_flag": 0,
        "born_timestamp": 1795224776027,
        "born_host": bytes((127, 0, 0, 1, 0, 0, 0xA6, 0xCE)),
        "store_timestamp": 1795224776043,
        "store_host": bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": b"hello0",
        "properties": b"KEYS\x01k0 kk0\x02TAGS\x01TagA",
    }
    crc = changes.pop("body_crc", None)
    record = encode_record(**{**fields, **changes})
    if crc is None:
        return record
    at = PREFIXES[0].offsets["body_crc"]
    return bytes(record[:at] + crc.to_bytes(4, "big") + record[at + 4 :])
