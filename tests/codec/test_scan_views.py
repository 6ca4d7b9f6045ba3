"""Views of bodies equal the bodies."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.compression import compress
from rmqcli.codec.scan import arrow, scan_positions
from rmqcli.codec.scan.arrow import schema, to_arrow
from rmqcli.codec.scan.arrow_arrays import select, size_of, views
from tests.codec.samples import make_record

BODIES = st.lists(
    st.binary(max_size=20) | st.integers(0, 40).map(lambda size: b"\xff" * size), min_size=1, max_size=8
)
LARGE = [bytes([number]) * (700 + number) for number in range(20)]


def spans(bodies: list[bytes], gap: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    data, starts = bytearray(), []
    for body in bodies:
        starts.append(len(data))
        data += body + b"#" * gap
    ends = np.array(starts) + np.array(list(map(len, bodies)))
    return bytes(data), np.array(starts, dtype=np.int64), ends


@settings(deadline=None)
@given(BODIES, st.integers(1, 5))
def test_any_lengths(bodies: list[bytes], gap: int) -> None:
    data, starts, ends = spans(bodies, gap)
    found = views(pa.py_buffer(data), starts, ends)
    found.validate(full=True)
    assert found.to_pylist() == bodies
    # a copy made by Arrow itself reads the views one by one
    assert found.cast(pa.binary()).to_pylist() == bodies


def test_bodies_that_are_too_far_apart() -> None:
    data, starts, ends = spans(LARGE, 3)
    far = views(pa.py_buffer(data), starts, ends, reach=5000)
    near = views(pa.py_buffer(data), starts[:7], ends[:7], reach=5000)
    assert far.to_pylist() == LARGE
    assert near.to_pylist() == LARGE[:7]
    # A copy does not keep the data alive; a view does.
    assert len(far.buffers()[2]) != len(data)
    assert len(near.buffers()[2]) == len(data)


def batch_of(bodies: list[bytes], *, encoded: bool = True, **fields: object) -> pa.RecordBatch:
    data = b"".join(make_record(body=body, **fields) for body in bodies)
    return to_arrow(data, scan_positions(data).positions, encoded=encoded, check_crc=True)


def test_only_large_bodies_for_a_writer_are_views(monkeypatch: pytest.MonkeyPatch) -> None:
    large = batch_of(LARGE)
    gc.collect()  # the records have no other owner
    assert large.schema == schema(encoded=True, views=True)
    assert large["body"].to_pylist() == LARGE
    assert batch_of([*LARGE, b"", b"x" * 12])["body"].to_pylist() == [*LARGE, b"", b"x" * 12]
    assert batch_of([b"small"] * 3).schema == schema(encoded=True)
    assert batch_of(LARGE, encoded=False).schema == schema()
    monkeypatch.setattr(arrow, "VIEWS_ARE_WRITTEN", False)
    assert batch_of(LARGE) == large.cast(schema(encoded=True))


def test_bodies_that_are_decompressed() -> None:
    packed, flag = compress(b"".join(str(number).encode() for number in range(2000)), "lz4")
    batch = batch_of([packed] * 2, sys_flag=flag)
    assert batch["body"].type == pa.binary_view()
    assert batch["body"].to_pylist() == [b"".join(str(number).encode() for number in range(2000))] * 2


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
