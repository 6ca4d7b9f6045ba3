"""The driver of a stream is killed when a batch is written but not committed; started again, it loses and
doubles nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pyarrow import parquet

from rmqcli.broker.testing.embedded import Cluster
from tests.export.spark_source.streamed import SECONDS
from tests.export.spark_source.support import fill, places

ROOT = Path(__file__).parents[3]
TOPIC = "StreamKilled"


def started(namesrv: str, folder: Path, *stop: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.export.spark_source.streamed", namesrv, TOPIC, str(folder), *stop]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)


def killed(namesrv: str, folder: Path, *stop: str) -> None:
    """Kills Python and the JVM once the application has reached its stop."""
    with started(namesrv, folder, *stop) as process:
        end = time.monotonic() + SECONDS
        while not (folder / "reached").exists():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    (folder / "reached").unlink()


def noted(folder: Path, what: str) -> set[str]:
    return {path.name for path in (folder / "checkpoint" / what).iterdir() if path.name.isdigit()}


def test_a_driver_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(120)]
    fill(cluster.namesrv, TOPIC, bodies[:80])
    killed(cluster.namesrv, tmp_path, "1")
    assert (noted(tmp_path, "offsets"), noted(tmp_path, "commits")) == ({"0", "1"}, {"0"})
    fill(cluster.namesrv, TOPIC, bodies[80:])
    with started(cluster.namesrv, tmp_path) as process:
        assert (process.communicate(timeout=SECONDS)[1], process.returncode) == ("", 0)
    tables = [parquet.read_table(path) for path in sorted((tmp_path / "data").iterdir())]
    assert [table.num_rows for table in tables] == [40, 40, 40]
    rows = [row for table in tables for row in table.to_pylist()]
    assert sorted((row["queue_id"], row["queue_offset"]) for row in rows) == places(4, 0, 30)
    assert {row["body"] for row in rows} == set(bodies)
