"""Exports by several processes, and of a salvaged store."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.reading import decode_record
from rmqcli.export import Layout, RowFilter, export_store
from rmqcli.store import CommitLogFiles
from rmqcli.store.repair.salvage import LOST, salvage
from rmqcli.store.workers import Workers
from tests.export.support import as_row, by_place, java_rows, rows_of
from tests.support import PATIENCE, JavaStore

Copy = Callable[[str], JavaStore]


many_parts = partial(export_store, part_bytes=100_000)


def test_several_processes_write_every_row(java_store: JavaStore, tmp_path: Path) -> None:
    told: list[int] = []
    with Workers(2) as workers:
        summary = many_parts(java_store.root, tmp_path / "out", RowFilter(), told.append, workers=workers)
    assert summary.files > 10
    assert rows_of(tmp_path / "out") == java_rows(java_store)
    assert sum(told) == sum(path.stat().st_size for path in java_store.commit_logs)


def test_it_resumes(store_clean: JavaStore, tmp_path: Path) -> None:
    export_store(store_clean.root, tmp_path, RowFilter(end=5), layout=Layout())
    with Workers(2) as workers:
        many_parts(store_clean.root, tmp_path, RowFilter(), resume=True, workers=workers)
        assert many_parts(store_clean.root, tmp_path, RowFilter(), resume=True, workers=workers).rows == 0
    assert by_place(rows_of(tmp_path)) == java_rows(store_clean)


def test_damage_is_named(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    damaged = store.of_kind("msg")[2500]["phy"]
    path = store.commit_logs[damaged // 524288]
    data = bytearray(path.read_bytes())
    data[damaged % 524288 + 90] ^= 1
    path.write_bytes(data)
    with (
        Workers(2) as workers,
        pytest.raises(CorruptionError, match=f"{path}: byte {damaged % 524288}: the CRC"),
    ):
        many_parts(store.root, tmp_path / "out", RowFilter(), workers=workers)
    assert not (tmp_path / "out").exists()


KILLED = """
import os
from rmqcli.store.workers import Workers

with Workers(2) as workers:
    print(workers._pool.submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), 9)
"""


def test_processes_end_with_the_one_that_was_killed() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -9
    status = Path(f"/proc/{int(done.stdout)}/stat")
    limit = time.monotonic() + PATIENCE
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < limit, "the other process lives on"
        time.sleep(0.05)


@pytest.mark.parametrize("by_topic", [False, True])
def test_a_salvaged_store_without_what_fills_it(
    copy_java_store: Copy, tmp_path: Path, by_topic: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither messages that stand for lost ones nor fillers, in no queue, are rows; the former are counted."""
    store = copy_java_store("store-clean")
    path = store.commit_logs[1]
    data = bytearray(path.read_bytes())
    data[100_000:250_000] = bytes(150_000)
    path.write_bytes(data)
    salvage(store.root, tmp_path / "salvaged")
    log = CommitLogFiles(tmp_path / "salvaged")
    every = [as_row(decode_record(data, place.position, decompress=True)) for place, data in log.records()]
    fillers = [row for row in every if row["sys_flag"] & 0xC == 0xC]
    assert fillers and all(LOST.startswith(row["topic"]) for row in fillers)
    topic = next(row["topic"] for row in every if "LOST" in row["properties"]) if by_topic else None
    chosen = [row for row in every if row not in fillers and topic in (None, row["topic"])]
    expected = [row for row in chosen if row["store_host"] != "0.0.0.0:0"]
    left_out = len(chosen) - len(expected)
    assert left_out >= sum("LOST" in row["properties"] for row in chosen) > 0
    export_store(tmp_path / "salvaged", tmp_path / "out", RowFilter(topics=frozenset(filter(None, [topic]))))
    assert rows_of(tmp_path / "out") == expected
    assert f"{left_out} messages that stand for lost ones are left out" in capsys.readouterr().err
