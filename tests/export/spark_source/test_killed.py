"""The driver of a stream, or its broker, is killed in mid-stream: nothing is lost, and nothing doubled in a sink
that takes each batch once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import parquet

from rmqcli.broker.testing.embedded import Cluster
from tests.export.spark_source.streamed import SECONDS
from tests.export.spark_source.support import fill, places

ROOT = Path(__file__).parents[3]
TOPIC = "StreamKilled"
BODIES = [b"%d" % number for number in range(120)]


def started(namesrv: str, folder: Path, *stop: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.export.spark_source.streamed", namesrv, TOPIC, str(folder), *stop]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_until_reached(process: subprocess.Popen[str], folder: Path) -> None:
    end = time.monotonic() + SECONDS
    while not (folder / "reached").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)


def killed(namesrv: str, folder: Path, *stop: str) -> None:
    """Kills Python and the JVM once the application has reached its stop."""
    with started(namesrv, folder, *stop) as process:
        wait_until_reached(process, folder)
        os.killpg(process.pid, signal.SIGKILL)
    (folder / "reached").unlink()


@contextmanager
def killed_at_the_end(folder: Path, *ports: str) -> Iterator[str]:
    """Runs a cluster on a store folder, yields the name server, and kills both."""
    command = (sys.executable, "-m", "rmqcli", "up", "--json", "--store", str(folder), *ports)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.kill()


def noted(folder: Path, what: str) -> set[str]:
    return {path.name for path in (folder / "checkpoint" / what).iterdir() if path.name.isdigit()}


def check(folder: Path) -> None:
    """Three batches have each message once."""
    tables = [parquet.read_table(path) for path in sorted((folder / "data").iterdir())]
    assert [table.num_rows for table in tables] == [40, 40, 40]
    rows = [row for table in tables for row in table.to_pylist()]
    assert sorted((row["queue_id"], row["queue_offset"]) for row in rows) == places(4, 0, 30)
    assert {row["body"] for row in rows} == set(BODIES)


def test_a_driver_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    fill(cluster.namesrv, TOPIC, BODIES[:80])
    killed(cluster.namesrv, tmp_path, "written", "1")
    assert (noted(tmp_path, "offsets"), noted(tmp_path, "commits")) == ({"0", "1"}, {"0"})
    fill(cluster.namesrv, TOPIC, BODIES[80:])
    with started(cluster.namesrv, tmp_path) as process:
        assert (process.communicate(timeout=SECONDS)[1], process.returncode) == ("", 0)
    check(tmp_path)


def test_a_broker_that_is_killed(tmp_path: Path) -> None:
    """It is away, with its name server, when the tasks of a batch begin to read."""
    store = tmp_path / "store"
    with killed_at_the_end(store, "--port", "0", "--namesrv-port", "0") as line:
        addresses = json.loads(line)
        namesrv = addresses["namesrv"]
        fill(namesrv, TOPIC, BODIES)
        process = started(namesrv, tmp_path, "planned", "1")
        wait_until_reached(process, tmp_path)
    with process:
        (tmp_path / "reached").unlink()
        time.sleep(3)
        assert process.poll() is None
        assert noted(tmp_path, "commits") == {"0"}
        ports = [addresses[name].rpartition(":")[2] for name in ("broker", "namesrv")]
        with killed_at_the_end(store, "--port", ports[0], "--namesrv-port", ports[1]):
            _, said = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, said
    assert "more attempts" not in said
    check(tmp_path)
