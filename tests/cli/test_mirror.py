"""`rmq mirror` against the embedded cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.processes import running
from tests.support import PATIENCE


def test_once(rmq: Run, cluster: Cluster, tmp_path: Path) -> None:
    store = str(tmp_path / "copy")
    assert rmq("send", "MirrorT", "one").code == 0
    for broker in (cluster.broker_name, cluster.broker_address):
        result = rmq("mirror", broker, "--store", store, "--once")
        (state, copied, end, behind, _), *rest = result.lines
        assert (result.code, state, copied, behind, rest) == (ExitCode.DONE, "follows", end, "0", [])
    result = rmq("mirror", cluster.broker_name, "--store", store, "--once", "--verify", "--json")
    assert result.code == ExitCode.DONE
    assert rmq("inspect", "verify", store).code == ExitCode.DONE


def test_a_broker_that_is_not_there(rmq: Run, tmp_path: Path) -> None:
    store = str(tmp_path / "copy")
    assert rmq("mirror", "no-broker", "--store", store).code == ExitCode.NOT_FOUND
    result = rmq("mirror", "127.0.0.1:1", "--store", store, "--once")
    assert result.code == ExitCode.NO_CONNECTION
    assert "127.0.0.1:1" in result.err
    assert not Path(store).exists()


def test_no_replication_port(cluster: Cluster, tmp_path: Path) -> None:
    store, wrong = str(tmp_path / "copy"), "127.0.0.1:1"
    arguments = ("-n", cluster.namesrv, "mirror", cluster.broker_name, "--store", store, "--ha", wrong)
    with running([*arguments, "--interval", "0.1", "--json"], stderr=subprocess.PIPE) as (process, words):
        assert process.stdout is not None
        while wrong not in str(words["state"]):  # the first line may come before the first attempt
            words = json.loads(process.stdout.readline())
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert wrong in err.decode()


def test_a_folder_in_use(rmq: Run, cluster: Cluster) -> None:
    result = rmq("mirror", cluster.broker_name, "--store", str(cluster.store_path), "--once")
    assert result.code == ExitCode.FAILED
    assert "is held by another process" in result.err or "already" in result.err
