"""Exports on a cluster of several processes: Spark's standalone master and two workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqcli.export import RowFilter, export_store
from tests.export.spark_cluster import SMALL, standalone
from tests.export.support import rows_of
from tests.support import JavaStore

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url


def ran(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_rows_are_those_of_this_machine(master: str, store_clean: JavaStore, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    conf = [f"--conf={name}={value}" for name, value in SMALL.items()]
    spark = ("--spark", "--master", master, *conf)
    done = ran("rmqcli", "export", "--store", store_clean.root, "--out", there, *spark)
    assert (done.returncode, done.stderr) == (0, "")
    export_store(store_clean.root, here, RowFilter())
    assert rows_of(there) == rows_of(here)


def test_attempts_that_fail_die_or_come_late_change_nothing(
    master: str, store_clean: JavaStore, tmp_path: Path
) -> None:
    here, there, marks = (tmp_path / name for name in ("here", "there", "marks"))
    marks.mkdir()
    done = ran("tests.export.spark_attacked", master, store_clean.root, there, marks)
    assert (done.returncode, done.stderr) == (0, "")
    assert (marks / "slow-one-read-on").exists()
    export_store(store_clean.root, here, RowFilter())
    assert rows_of(there) == rows_of(here)
    names = {path.name for path in there.iterdir()}
    assert names == {"_SUCCESS", "_rmq", *(f"part-{number:05d}.parquet" for number in range(7))}
