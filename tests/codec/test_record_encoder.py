"""What a broker writes is what `encode_record` makes of the same values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.errors import LocalProtocolError
from codec.record import encode_record
from codec.record_encoder import RecordEncoder

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HOST = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
HOST_V4 = b"\x7f\0\0\1\0\0\x2a\x9f"


@given(
    topic=st.binary(min_size=1, max_size=127),
    numbers=st.tuples(INT32, INT32, INT64, INT64, INT32, INT64),
    born_host=HOST,
    store_host=HOST,
    times=st.tuples(INT64, INT32, INT64),
    body=st.binary(max_size=40),
    properties=st.binary(max_size=40),
)
def test_the_same_bytes(
    topic: bytes,
    numbers: tuple[int, int, int, int, int, int],
    born_host: bytes,
    store_host: bytes,
    times: tuple[int, int, int],
    body: bytes,
    properties: bytes,
) -> None:
    queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp = numbers
    store_timestamp, reconsume_times, prepared_transaction_offset = times
    expected = encode_record(
        topic=topic,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp,
        born_host=born_host,
        store_timestamp=store_timestamp,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        body=body,
        properties=properties,
    )
    sized_topic = bytes((len(topic),)) + topic
    made = RecordEncoder(store_host).encode(sized_topic, *numbers, born_host, *times, body, properties)
    assert made == expected


@pytest.mark.parametrize(
    ("queue_id", "born_host", "properties"),
    [(2**31, HOST_V4, b""), (0, b"\x7f", b""), (0, HOST_V4, bytes(32768))],
    ids=["a queue id out of range", "no host", "properties too long"],
)
def test_what_does_not_fit_is_refused(queue_id: int, born_host: bytes, properties: bytes) -> None:
    encoder = RecordEncoder(HOST_V4)
    with pytest.raises(LocalProtocolError):
        encoder.encode(b"\1T", queue_id, 0, 0, 0, 0, 0, born_host, 0, 0, 0, b"", properties)
