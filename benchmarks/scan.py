"""Scans of a commit log in one file: page cache and memory warm, both sides of a ratio on one core unless two
are named, best of several rounds.

Bodies are random bytes, which compression cannot shorten.
"""

from __future__ import annotations

import mmap
import os
import random
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import parquet

from benchmarks.codec import record
from benchmarks.harness import Measured, best_of, have_memory
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.scan.arrow import scan_batches
from rmqcli.export import RowFilter, export_store
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.parquet import writer_options
from rmqcli.store import CommitLogFiles, verify_commit_log
from rmqcli.store.workers import ALONE, Workers

LOG_BYTES = 128 * 1024 * 1024
_SMALL, _LARGE = 100, 1024
_BLOCKS = 16


def write_log(folder: Path, body_size: int, size: int = LOG_BYTES) -> Path:
    """Write a store with one commit-log file of about `size` bytes."""
    source = random.Random(7)
    path = folder / "commitlog" / f"{0:020d}"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        offset = number = 0
        while offset < size:
            offset += file.write(record(source.randbytes(body_size), offset, number))
            number += 1
    return path


def scan() -> Iterator[Measured]:
    """Walk, CRC, Arrow and export, with bodies of 1 KB and of 100 B."""
    for body_size in (_LARGE, _SMALL):
        with tempfile.TemporaryDirectory() as folder, one_core():
            have_memory()
            data = write_log(Path(folder), body_size).read_bytes()
            name = f"{body_size} B bodies, "
            yield from _in_memory(name, data, small=body_size == _SMALL)
            yield from _to_parquet(name, Path(folder), data, small=body_size == _SMALL)
    yield from _on_two_cores()


@contextmanager
def one_core() -> Iterator[None]:
    """Run all threads of this process, Arrow's included, on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _in_memory(name: str, data: bytes, *, small: bool) -> Iterator[Measured]:
    count = _count(data)
    copy, walk, crc, checked, arrow = best_of(
        lambda: bytes(memoryview(data)),
        lambda: Walk(data, 0).skip(),
        lambda: zlib.crc32(data),
        lambda: Walk(data, 0, check_crc=True).skip(),
        lambda: sum(batch.num_rows for batch in scan_batches(data)),
    )
    enough = "2,000,000 msg/s" if small else ""
    yield Measured(f"{name}walk", count / walk, "msg/s", copy / walk, "memcpy", enough)
    yield Measured(
        f"{name}walk + CRC",
        len(data) / checked / 1e6,
        "MB/s",
        crc / checked,
        "zlib.crc32",
        "" if small else "0.3",
    )
    yield Measured(f"{name}all columns in Arrow", count / arrow, "msg/s", copy / arrow, "memcpy")


def _to_parquet(name: str, store: Path, data: bytes, *, small: bool) -> Iterator[Measured]:
    table = pa.Table.from_batches(list(scan_batches(data)))
    out, plain = store / "out", store / "plain.parquet"
    options = writer_options(Layout(), table)

    def clean() -> None:
        shutil.rmtree(out, ignore_errors=True)
        plain.unlink(missing_ok=True)

    exported, unchecked, written, verified, crc = best_of(
        lambda: export_store(store, out, RowFilter()),
        lambda: export_store(store, out, RowFilter(check_crc=False)),
        lambda: parquet.write_table(table, plain, **options),
        lambda: verify_commit_log(CommitLogFiles(store)),
        lambda: zlib.crc32(data),
        rounds=9,
        before=clean,
    )
    count, against = table.num_rows, "pyarrow's own write"
    yield Measured(
        f"{name}export",
        count / exported,
        "msg/s",
        written / exported,
        against,
        "1,000,000 msg/s" if small else "0.5",
    )
    yield Measured(f"{name}export --no-verify", count / unchecked, "msg/s", written / unchecked, against)
    yield Measured(
        f"{name}inspect --verify", len(data) / verified / 1e6, "MB/s", crc / verified, "zlib.crc32"
    )


class _Block(NamedTuple):
    """Bytes [begin, end) of a log, both at the start of a record."""

    path: Path
    begin: int
    end: int

    @property
    def cost(self) -> int:
        return self.end - self.begin


def _walk_with_crc(block: _Block) -> int:
    with block.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        walk = Walk(memoryview(pages), 0, block.begin, block.end, check_crc=True)
        walk.skip()
        count = walk.count
        del walk
    return count


def _count(data: bytes) -> int:
    walk = Walk(data, 0)
    walk.skip()
    return walk.count


class _Loop(NamedTuple):
    """Iterations of a loop that needs no memory."""

    turns: int

    @property
    def cost(self) -> int:
        return self.turns


def _spin(loop: _Loop) -> int:
    found = 0
    for turn in range(loop.turns):
        found += turn & 7
    return found


def _on_two_cores() -> Iterator[Measured]:
    """Scan blocks of 32 MB, as verification does, with one process and with two, already started.

    A loop that shares nothing between two processes shows the gain that this machine allows.
    """
    with tempfile.TemporaryDirectory() as folder, Workers(2) as workers:
        path = write_log(Path(folder), _LARGE, _BLOCKS * LOG_BYTES // 4)
        count, size = _count(path.read_bytes()), path.stat().st_size
        each = count // _BLOCKS * (size // count)
        cuts = [*(each * number for number in range(_BLOCKS)), size]
        blocks = [_Block(path, *cut) for cut in pairwise(cuts)]
        loops = [_Loop(200_000)] * _BLOCKS

        def run(by: Workers) -> None:
            assert sum(by.run(_walk_with_crc, blocks, lambda cost: None)) == count

        def spin(by: Workers) -> None:
            by.run(_spin, loops, lambda cost: None)

        one, two, one_loop, two_loops = best_of(
            lambda: run(ALONE), lambda: run(workers), lambda: spin(ALONE), lambda: spin(workers)
        )
        rate = size / two / 1e6
        yield Measured(f"{_LARGE} B bodies, walk + CRC, 2 processes", rate, "MB/s", one / two, "one", "1.7")
        turns = sum(loop.turns for loop in loops) / two_loops / 1e6
        yield Measured("loop without memory, 2 processes", turns, "M turns/s", one_loop / two_loops, "one")
