"""`rmq mirror` against the embedded cluster."""

from __future__ import annotations

import json
import random
import subprocess
from contextlib import suppress
from pathlib import Path

from pyarrow import parquet

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Result, Run
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


def test_what_is_written_is_read_back(rmq: Run, cluster: Cluster, tmp_path: Path) -> None:
    """Until something else writes to an entry of a queue: then the copy ends."""
    store = tmp_path / "copy"
    send(rmq, "ReadBackT", 0, 20)
    arguments = ["-n", cluster.namesrv, "mirror", cluster.broker_name, "--store", str(store), "--verify"]
    arguments += ["--interval", "0.1", "--json"]
    with running(arguments, stderr=subprocess.PIPE) as (process, words):
        assert process.stdout is not None
        while words["state"] != "follows" or not words["verified"] == words["copied"] == words["end"]:
            words = json.loads(process.stdout.readline())
        queues = list((store / "consumequeue" / "ReadBackT").glob("*/0*"))
        number = 0
        while process.poll() is None and number < 1000:
            number += 1
            send(rmq, "ReadBackT", 100 * number, 8)
            for path in queues:
                with path.open("r+b") as file:
                    file.write(b"\xff" * 20 * 5000)
            process.stdout.readline()
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == ExitCode.CORRUPT
    (line,) = err.decode().splitlines()
    error = json.loads(line)["error"]["message"]
    assert f"{store} is damaged: {store}/consumequeue/ReadBackT/" in error
    assert "queue offset" in error


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


def rows(lake: Path, wanted: str) -> list[bytes]:
    table = parquet.read_table(lake)
    numbers = table["commit_log_offset"].to_pylist()
    assert len(set(numbers)) == len(numbers)
    return [
        body
        for topic, body in zip(table["topic"].to_pylist(), table["body"].to_pylist(), strict=True)
        if topic == wanted
    ]


def send(rmq: Run, topic: str, begin: int, count: int) -> list[bytes]:
    bodies = [f"{number}" for number in range(begin, begin + count)]
    assert rmq("send", topic, stdin="\n".join(bodies).encode()).code == 0
    return [body.encode() for body in bodies]


def test_files_beside_the_copy(cli: Run, tmp_path: Path) -> None:
    """The broker is not the one of the other tests: what they sent back or delayed would be cut, too."""
    store, lake = tmp_path / "copy", tmp_path / "lake"
    sent = []
    with embedded_in_thread() as quiet:

        def rmq(*words: str, stdin: bytes = b"") -> Result:
            return cli("-n", quiet.namesrv, *words, stdin=stdin)

        for begin in (0, 50):
            sent += send(rmq, "LakeT", begin, 50)
            result = rmq("mirror", quiet.broker_name, "--store", str(store), "--once", "--parquet", str(lake))
            assert result.code == ExitCode.DONE
            assert "lake: 1 file, 50 rows" in result.err
            assert sorted(rows(lake, "LakeT")) == sorted(sent)
        result = rmq("mirror", quiet.broker_name, "--store", str(store), "--once", "--parquet", str(lake))
        assert (result.code, result.err) == (ExitCode.DONE, "")
    assert set(parquet.read_table(lake)["broker_name"].to_pylist()) == {quiet.broker_name}


def test_each_message_is_cut_once_across_kills(rmq: Run, cluster: Cluster, tmp_path: Path) -> None:
    store, lake = tmp_path / "copy", tmp_path / "lake"
    arguments = ["-n", cluster.namesrv, "mirror", cluster.broker_name, "--store", str(store)]
    arguments += ["--parquet", str(lake), "--parquet-every", "1", "--interval", "0.1", "--json"]
    chance = random.Random(3)
    sent = []
    for number in range(4):
        sent += send(rmq, "KilledT", number * 40, 40)
        with running(arguments) as (process, _):
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 3))
            process.kill()
    sent += send(rmq, "KilledT", 1000, 40)
    result = rmq("mirror", cluster.broker_name, "--store", str(store), "--once", "--parquet", str(lake))
    assert result.code == ExitCode.DONE
    assert sorted(rows(lake, "KilledT")) == sorted(sent)


def test_folders_that_cannot_be_cut_into(rmq: Run, cluster: Cluster, tmp_path: Path) -> None:
    store, full = tmp_path / "copy", tmp_path / "full"
    full.mkdir()
    (full / "something").touch()
    for out in (store / "lake", full):
        result = rmq("mirror", cluster.broker_name, "--store", str(store), "--once", "--parquet", str(out))
        assert result.code == ExitCode.USAGE
        assert str(out) in result.err
