"""The record encoder agrees with the declaration of a record, in both versions."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec.core.record_writer import NO_LIMIT, QueueRun, Run
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.records.encoding import encode_record, record_size, sized_topic
from rmqcli.codec.store.record_layout import (
    BORN_HOST_V6,
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    RECORD,
    STORE_HOST_V6,
)
from tests.codec.samples import HOSTS, INT32, INT64, make_record

HOST_V4 = b"\x7f\0\0\1\0\0\x2a\x9f"


@given(
    version=st.sampled_from([1, 2]),
    topic=st.binary(min_size=1, max_size=127),
    numbers=st.tuples(INT32, INT32, INT64, INT64, INT32, INT64),
    born_host=HOSTS,
    store_host=HOSTS,
    times=st.tuples(INT64, INT32, INT64),
    body=st.binary(max_size=40),
    properties=st.binary(max_size=40),
)
def test_the_bytes_of_the_declaration(
    version: int,
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
    bits = BORN_HOST_V6 * (len(born_host) == 20) | STORE_HOST_V6 * (len(store_host) == 20)
    size = record_size(len(body), len(topic), len(properties), bits, version)
    made = encode_record(
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
        version=version,
    )
    assert len(made) == size
    assert made == RECORD.build(
        {
            "total_size": size,
            "magic": MAGIC_V1 if version == 1 else MAGIC_V2,
            "body_crc": zlib.crc32(body) & 0x7FFFFFFF,
            "queue_id": queue_id,
            "flag": flag,
            "queue_offset": queue_offset,
            "physical_offset": physical_offset,
            "sys_flag": sys_flag & ~HOST_BITS | bits,
            "born_timestamp": born_timestamp,
            "born_host": born_host,
            "store_timestamp": store_timestamp,
            "store_host": store_host,
            "reconsume_times": reconsume_times,
            "prepared_transaction_offset": prepared_transaction_offset,
            "body_length": len(body),
            "body": body,
            "topic_length": len(topic),
            "topic": topic,
            "properties_length": len(properties),
            "properties": properties,
        }
    )


@pytest.mark.parametrize(
    ("queue_id", "born_host", "properties"),
    [(2**31, HOST_V4, b""), (0, b"\x7f", b""), (0, HOST_V4, bytes(32768))],
    ids=["a queue id out of range", "no host", "properties too long"],
)
def test_what_does_not_fit_is_refused(queue_id: int, born_host: bytes, properties: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        make_record(queue_id=queue_id, born_host=born_host, properties=properties)


def test_a_store_host_is_an_address_and_a_port() -> None:
    with pytest.raises(LocalProtocolError, match="3 bytes"):
        Run(b"abc", 0, 0)


@pytest.mark.parametrize(("version", "longest"), [(1, 127), (2, 32767)])
def test_the_longest_topic(version: int, longest: int) -> None:
    assert sized_topic(b"t" * longest, version).endswith(b"t" * longest)
    with pytest.raises(LocalProtocolError, match="a record holds"):
        sized_topic(b"t" * (longest + 1), version)


@given(
    st.tuples(INT32, st.integers(0, 2**60), st.integers(0, 2**40), INT32, INT64),
    st.tuples(HOSTS, HOSTS),
    st.tuples(INT64, INT32, INT64),
    st.lists(st.tuples(INT32, st.binary(max_size=40), st.binary(max_size=40)), min_size=1, max_size=5),
)
def test_a_run_is_its_records_one_by_one(
    numbers: tuple[int, int, int, int, int],
    hosts: tuple[bytes, bytes],
    times: tuple[int, int, int],
    messages: list[tuple[int, bytes, bytes]],
) -> None:
    queue_id, queue_offset, begin, sys_flag, born = numbers
    timestamp, reconsumed, prepared = times
    run, records = Run(hosts[0], begin, timestamp), b""
    together = QueueRun("Topic", sized_topic(b"Topic"), 0, queue_id, queue_offset, NO_LIMIT)
    for number, (flag, body, text) in enumerate(messages):
        message = flag, sys_flag, born, hosts[1], reconsumed, prepared, body, text, number, [number]
        alone = Run(hosts[0], begin + len(records), timestamp)
        queue = QueueRun("Topic", sized_topic(b"Topic"), 0, queue_id, queue_offset + number, NO_LIMIT)
        assert run.add(together, *message) == begin + len(records)
        alone.add(queue, *message)
        records += alone.records()
        assert queue.offsets == together.offsets[number:]
    assert run.records() == records
    assert run.end == begin + len(records) == together.offsets[-1] + together.sizes[-1]
    assert [code for code, *_ in run.items] == together.codes == list(range(len(messages)))
