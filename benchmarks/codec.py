"""Time per frame and per record of the codec, with the readers of one declaration side by side."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.codec_frames import best_time, measure
from benchmarks.harness import Measured
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.records.encoding import encode_record
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.store.record_layout import RECORD

BULK = 4096
"""Records of a walk."""
HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
PROPERTIES = encode_properties(
    {"KEYS": "k0", "UNIQ_KEY": "C000020218BC5FFD2B27675EEBFC002A", "WAIT": "true", "TAGS": "TagA"}
)


def record(body: bytes, offset: int = 0, number: int = 0) -> bytes:
    """Encode a record as a broker stores it."""
    return encode_record(
        topic=b"Bench",
        queue_id=number % 4,
        flag=0,
        queue_offset=number // 4,
        physical_offset=offset,
        sys_flag=0,
        born_timestamp=1795224776027 + number,
        born_host=HOST,
        store_timestamp=1795224776029 + number,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=PROPERTIES,
    )


def frames_and_records() -> Iterator[Measured]:
    """Frames: the hot path and construct on one binary header. Records: construct, one decoded, a walk."""
    figures = {figure.name: figure.nanoseconds for figure in measure()}
    construct = figures["ROCKETMQ decode send request, construct"]
    for name, nanoseconds in figures.items():
        compared = name.startswith("ROCKETMQ decode send request")
        ratio, against = (construct / nanoseconds, "faster than construct") if compared else (None, "")
        yield Measured(name, nanoseconds, "ns", ratio, against)
    for size in (100, 1024):
        yield from _records(size)


def _records(size: int) -> Iterator[Measured]:
    data = record(b"x" * size)
    bulk = b"".join(record(b"x" * size, number * len(data)) for number in range(BULK))
    times = {
        "construct": best_time(lambda: RECORD.parse(data)),
        "decoded": best_time(lambda: decode_record(data)),
        "walk": best_time(lambda: Walk(bulk, 0).skip()) / BULK,
    }
    for reader, nanoseconds in times.items():
        ratio = times["construct"] / nanoseconds
        yield Measured(
            f"record of {size} B body, {reader}", nanoseconds, "ns", ratio, "faster than construct"
        )
    built = best_time(lambda: record(b"x" * size))
    yield Measured(f"record of {size} B body, encode with CRC", built, "ns")
