"""Exports on a cluster of several processes: Spark's standalone master and two workers."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rmqcli.export import RowFilter, export_store
from tests.cli.conftest import Run
from tests.export.spark.cluster import SMALL, WORKER_HOSTS, standalone
from tests.export.support import rows_of
from tests.support import PATIENCE, JavaStore

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url


def ran(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE
    )


def on_terminal(*arguments: object) -> tuple[int, str, str]:
    """Returns exit code, standard output, and the standard error of a terminal."""
    seen, terminal = pty.openpty()
    command = [sys.executable, "-m", *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal, text=True) as process:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the last writer closed it
            while data := os.read(seen, 65536):
                shown += data
        os.close(seen)
        out, _ = process.communicate(timeout=2 * PATIENCE)
    return process.returncode, out, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def bare_python(folder: Path, *packages: str) -> Path:
    """Makes an environment that has only these packages, as links to those of this one."""
    venv.create(folder, symlinks=True)
    (there,) = folder.glob("lib/python*/site-packages")
    for name in packages:
        for path in Path(sysconfig.get_path("platlib")).glob(f"{name}*"):
            (there / path.name).symlink_to(path)
    return folder / "bin" / "python"


def test_executors_have_only_what_is_shipped(
    master: str, store_clean: JavaStore, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, cli: Run
) -> None:
    """Both workers unpack the archive, and read the same path."""
    here, there = tmp_path / "here", tmp_path / "there"
    large = ("numpy", "pandas", "pyarrow", "pytz", "dateutil", "six")
    without = [f"--without={name}" for name in large[:3]]
    shipped = cli("spark", "package", "--out", str(tmp_path / "shipped.zip"), *without)
    settings = {
        **SMALL,
        **dict(shipped.lines),
        "spark.pyspark.python": str(bare_python(tmp_path / "bare", *large)),
        "spark.sql.files.maxPartitionBytes": "400k",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
    }
    conf = [f"--conf={name}={value}" for name, value in settings.items()]
    spark = ("--spark", "--master", master, *conf)
    code, out, shown = on_terminal("rmqcli", "export", "--store", store_clean.root, "--out", there, *spark)
    assert (code, out.split("\t")[:3]) == (0, [str(there), "7", "3090"])
    assert re.search(r"export ━+ [0-7]/7 ", shown)
    assert not re.search("[A-Za-z]{2}", shown.replace("export", ""))
    export_store(store_clean.root, here, RowFilter(broker_name="broker-a"))
    assert rows_of(there) == rows_of(here)
    unpacked = tmp_path_factory.getbasetemp().glob("cluster*/127.0.0.*/app-*/*/rmq/rmqcli/__init__.py")
    assert {path.parts[-6] for path in unpacked} == set(WORKER_HOSTS)


def test_attempts_that_fail_die_or_come_late_change_nothing(
    master: str, store_clean: JavaStore, tmp_path: Path
) -> None:
    here, there, marks = (tmp_path / name for name in ("here", "there", "marks"))
    marks.mkdir()
    done = ran("tests.export.spark.attacked", master, store_clean.root, there, marks)
    assert (done.returncode, done.stderr) == (0, "")
    assert (marks / "slow-one-read-on").exists()
    export_store(store_clean.root, here, RowFilter())
    assert rows_of(there) == rows_of(here)
    names = {path.name for path in there.iterdir()}
    assert names == {"_SUCCESS", *(f"part-{number:05d}.parquet" for number in range(7))}
