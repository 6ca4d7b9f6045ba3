"""Views of bodies equal the bodies."""

from __future__ import annotations

import gc
import mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.compression import compress
from rmqcli.codec.scan import arrow
from rmqcli.codec.scan.arrow import scan_batches, schema
from rmqcli.codec.scan.arrow_arrays import select, size_of
from tests.codec.samples import make_record

LARGE = [bytes([number]) * (700 + number) for number in range(20)]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20) | st.integers(0, 40).map(lambda size: b"\xff" * size), max_size=7))
def test_any_lengths(bodies: list[bytes]) -> None:
    batch = batch_of([*LARGE, *bodies])
    batch.validate(full=True)
    assert batch["body"].type == pa.binary_view()
    assert batch["body"].to_pylist() == [*LARGE, *bodies]
    # A copy made by Arrow itself reads the views one by one.
    assert batch["body"].cast(pa.binary()).to_pylist() == [*LARGE, *bodies]


def test_bodies_behind_the_places_of_a_view(tmp_path: Path) -> None:
    """A place is an int32, and log files may be larger."""
    begin = (1 << 30) - 10_000
    records = log_of(begin, LARGE)
    with (tmp_path / "log").open("wb+") as file:
        file.seek(begin)
        file.write(records)
        file.seek(2_200_000_000)
        file.write(b"\0")
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages, memoryview(pages) as data:
            (batch,) = scan_batches(data, begin, begin + len(records), base=0, encoded=True, check_crc=True)
            batch.validate(full=True)
            assert [batch.schema.field("body").type, batch["body"].to_pylist()] == [pa.binary_view(), LARGE]
            del batch
            gc.collect()


def log_of(begin: int, bodies: list[bytes], **fields: object) -> bytes:
    data = b""
    for body in bodies:
        data += make_record(body=body, physical_offset=begin + len(data), **fields)
    return data


def batch_of(bodies: list[bytes], *, encoded: bool = True, **fields: object) -> pa.RecordBatch:
    (batch,) = scan_batches(log_of(0, bodies, **fields), encoded=encoded, check_crc=True)
    return batch


def test_only_large_bodies_for_a_writer_are_views(monkeypatch: pytest.MonkeyPatch) -> None:
    large = batch_of(LARGE)
    gc.collect()  # the records have no other owner
    assert large.schema == schema(encoded=True, views=True)
    assert large["body"].to_pylist() == LARGE
    assert batch_of([*LARGE, b"", b"x" * 12])["body"].to_pylist() == [*LARGE, b"", b"x" * 12]
    assert batch_of([b"small"] * 3).schema == schema(encoded=True)
    data = log_of(0, [b"x" * 511] * 6)
    bodies = [batch["body"] for batch in scan_batches(data, encoded=True, batch_rows=4)]
    assert [(one.type, one.to_pylist()) for one in bodies] == [
        (pa.binary(), [b"x" * 511] * count) for count in (4, 2)
    ]
    assert batch_of(LARGE, encoded=False).schema == schema()
    monkeypatch.setattr(arrow, "VIEWS_ARE_WRITTEN", False)
    assert batch_of(LARGE) == large.cast(schema(encoded=True))


def test_bodies_that_are_decompressed() -> None:
    whole = b"".join(str(number).encode() for number in range(2000))
    packed, flag = compress(whole, "lz4")
    short, _ = compress(b"short", "lz4")
    data = log_of(0, LARGE) + log_of(len(log_of(0, LARGE)), [packed, short, packed], sys_flag=flag)
    (batch,) = scan_batches(data, encoded=True)
    batch.validate(full=True)
    assert batch["body"].type == pa.binary_view()
    assert batch["body"].to_pylist() == [*LARGE, whole, b"short", whole]


@pytest.mark.parametrize("rows", [[], [0], [19, 3, 3, 0], list(range(20))])
def test_rows_are_selected(rows: list[int]) -> None:
    batch, plain = batch_of(LARGE), batch_of(LARGE, encoded=False)
    found = select(batch, np.array(rows, dtype=np.int64))
    found.validate(full=True)
    assert found.schema == batch.schema
    assert found["body"].to_pylist() == [LARGE[row] for row in rows]
    ids = plain["msg_id"].to_pylist()
    assert found["msg_id"].to_pylist() == [ids[row] for row in rows]
    sliced = select(batch.slice(5, 10), np.array([1, 9]))
    assert sliced["body"].to_pylist() == [LARGE[6], LARGE[14]]
    assert select(plain, np.array(rows, dtype=np.int64)) == plain.take(pa.array(rows, pa.int64()))


def test_sizes_count_what_is_shown() -> None:
    batch, plain = batch_of(LARGE), batch_of(LARGE, encoded=False)
    assert size_of(plain) == plain.nbytes
    others = batch.remove_column(batch.schema.get_field_index("body")).nbytes
    assert size_of(batch) == others + sum(map(len, LARGE))
    two = batch.slice(3, 2)
    assert size_of(two) == two.remove_column(batch.schema.get_field_index("body")).nbytes + 703 + 704
