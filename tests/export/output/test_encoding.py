"""The encoding of columns never changes what is read back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import parquet

from rmqcli.codec.records.reading import decode_record
from rmqcli.export import Layout, RowFilter, export_store
from tests.codec.samples import make_record
from tests.export.support import NOISE, SOURCE, as_row, encodings, rows_of, write_batches, write_log

LARGE_NOISE = [SOURCE.randbytes(600) for _ in range(300)]


@pytest.mark.parametrize(
    ("bodies", "compression", "expected"),
    [
        (NOISE, "zstd", "DELTA_LENGTH_BYTE_ARRAY"),
        (NOISE, "snappy", "PLAIN"),
        ([body.hex().encode() for body in NOISE], "zstd", "PLAIN"),
        ([body * 6 for body in NOISE], "zstd", "PLAIN"),
        ([b"", *NOISE, b""], "zstd", "DELTA_LENGTH_BYTE_ARRAY"),
        (LARGE_NOISE, "zstd", "PLAIN"),
    ],
)
def test_small_bodies_that_cannot_be_compressed_lie_apart_from_their_lengths(
    bodies: list[bytes], compression: str, expected: str, tmp_path: Path
) -> None:
    write_log(tmp_path / "store/commitlog", bodies)
    export_store(tmp_path / "store", tmp_path / "out", RowFilter(), layout=Layout(compression=compression))
    assert expected in encodings(tmp_path / "out/part-00000.parquet", "body")
    assert [row["body"] for row in rows_of(tmp_path / "out")] == bodies


def test_numbers_that_are_far_apart(tmp_path: Path) -> None:
    far = [0, 2**63 - 1, -(2**63), 5, -1, 2**62]
    data = b""
    for number in far:
        moment = number // 2000
        data += make_record(
            queue_offset=number, born_timestamp=moment, store_timestamp=-moment, physical_offset=len(data)
        )
    (tmp_path / "store/commitlog").mkdir(parents=True)
    (tmp_path / "store/commitlog" / f"{0:020d}").write_bytes(data)
    export_store(tmp_path / "store", tmp_path / "out", RowFilter())
    size = len(data) // len(far)
    expected = [as_row(decode_record(data, number * size)) for number in range(len(far))]
    assert rows_of(tmp_path / "out") == expected
    for name in ("queue_offset", "commit_log_offset", "born_timestamp", "store_timestamp"):
        assert "DELTA_BINARY_PACKED" in encodings(tmp_path / "out/part-00000.parquet", name)


def test_columns_that_are_left_out(tmp_path: Path) -> None:
    write_log(tmp_path / "store/commitlog", NOISE)
    layout = Layout(columns=("queue_offset", "tags"))
    export_store(tmp_path / "store", tmp_path / "out", RowFilter(), layout=layout)
    assert parquet.read_table(tmp_path / "out/part-00000.parquet").column_names == ["queue_offset", "tags"]


LARGE = [SOURCE.randbytes(2000) for _ in range(6)]
TEXTS = [("ü" * 700 + str(number)).encode() for number in range(6)]


@pytest.mark.parametrize(
    "bodies", [[*NOISE[:6], *LARGE], [*LARGE, *NOISE[:6]], [*TEXTS, *LARGE, b""], [b"", *LARGE, *TEXTS]]
)
@pytest.mark.parametrize(
    "layout",
    [
        Layout(body_text=True),
        Layout(body_text=True, row_group_bytes=1),
        Layout(body_text=True, file_bytes=1, row_group_bytes=1),
        Layout(body_text=True, partition_by=("queue",)),
    ],
)
def test_large_and_small_bodies(bodies: list[bytes], layout: Layout, tmp_path: Path) -> None:
    """The first batch decides which type the writer gets."""
    write_log(tmp_path / "store/commitlog", bodies)
    write_batches(tmp_path / "store", tmp_path / "all", RowFilter(), layout, 3)
    write_batches(tmp_path / "store", tmp_path / "some", RowFilter(begin=2, end=10), layout, 3)
    for out, expected in (("all", bodies), ("some", bodies[2:10])):
        table = ds.dataset(tmp_path / out).to_table().sort_by("queue_offset")
        assert table["body"].type == pa.binary()
        assert table["body"].to_pylist() == expected
        assert table["body_text"].to_pylist() == [text_of(body) for body in expected]


def text_of(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
