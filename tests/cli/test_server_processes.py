"""Behaviour of server processes: start, announcement, stop, addresses that are not free."""

from __future__ import annotations

import resource
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import trio

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.client import Admin
from rmqcli.codec.codes import RequestCode
from rmqcli.commands.common.listening import told_address, warn_of_address
from tests.cli.conftest import Run
from tests.processes import Process, running, up
from tests.support import PATIENCE, RMQ


def started(*arguments: str) -> AbstractContextManager[tuple[Process, dict[str, str]]]:
    return running(arguments, stderr=subprocess.PIPE)


def configuration(namesrv: str, broker: str) -> list[str]:
    """The properties that a broker runs with, as its GET_BROKER_CONFIG says."""

    async def ask() -> bytes:
        async with Admin(namesrv=namesrv, timeout=30) as admin:
            return bytes((await admin.invoke(broker, RequestCode.GET_BROKER_CONFIG)).body)

    return trio.run(ask).decode().splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up(number: int, cli: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with started(*up(store, {"no.such": 1})) as (process, words):
        assert set(words) == {"version", "namesrv", "broker", "store"}
        assert words["store"] == str(store)
        assert cli("--timeout", "30", "send", "T", "x", "-n", words["namesrv"]).code == 0
        assert "brokerFastFailureEnable=false" in configuration(words["namesrv"], words["broker"])
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert err == b"rmq: unknown property no.such is ignored\n"
    assert (store / "config" / "topics.json").exists()
    assert not (store / "abort").exists()


def test_up_with_a_store_of_its_own() -> None:
    options = ("--metrics", "0", "--grpc", "0", "--strict-types")
    with started("up", "--port", "0", "--namesrv-port", "0", *options) as (process, words):
        assert Path(words["store"]).is_dir()
        assert "enableTopicMessageTypeCheck=true" in configuration(words["namesrv"], words["broker"])
        with urlopen(words["metrics"]) as scraped:
            assert f'rmq_up{{broker="broker-a",brokerIP="{words["broker"]}"' in scraped.read().decode()
        with pytest.raises(HTTPError) as refused:
            urlopen(f"http://{words['namesrv']}/")
        port = words["grpc"].rpartition(":")[2]
        assert refused.value.read().decode().strip().endswith(f"gRPC clients of RocketMQ 5 use port {port}")
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert not Path(words["store"]).exists()


@pytest.mark.parametrize("command", ["up", "broker"])
def test_strict_types_are_for_grpc_clients(cli: Run, command: str) -> None:
    refused = cli(command, "--strict-types")
    assert (refused.code, refused.out) == (2, b"")
    assert refused.err == "rmq: --strict-types applies to gRPC clients: add --grpc\n"


def test_a_server_may_open_as_many_files_as_it_is_allowed_to() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = ["bash", "-c", 'ulimit -S -n 256 && exec "$@"', "bash", *RMQ]
    with running(["namesrv", "--port", "0"], limited) as (process, _):
        found = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert found == (hard, hard), f"the limits here are {soft} and {hard}"


def test_a_broker_and_a_name_server_apart(cli: Run, tmp_path: Path) -> None:
    names = started("namesrv", "--port", "0", "--set", f"kvConfigPath={tmp_path}/kv.json")
    config = tmp_path / "broker.conf"
    config.write_text(
        f"brokerName=b1\nbrokerIP1=127.0.0.1\nlistenPort=0\nstorePathRootDir={tmp_path}/store\n"
    )
    with (
        names as (namesrv, its),
        started("broker", "--config", str(config), "-n", its["namesrv"], "--grpc", "0", "--strict-types") as (
            broker,
            words,
        ),
    ):
        assert "enableTopicMessageTypeCheck=true" in configuration(its["namesrv"], words["broker"])
        assert words["name"] == "b1"
        (row,) = cli("--timeout", "30", "cluster", "list", "-n", its["namesrv"]).lines
        assert row[1] == "b1"
        for process in (broker, namesrv):
            process.terminate()
            _, err = process.communicate(timeout=PATIENCE)
            assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize("host", ["192.0.2.77", "no-such-host.invalid"])
def test_an_address_of_another_machine(cli: Run, tmp_path: Path, host: str) -> None:
    free = ("--port", "0", "--namesrv-port", "0", "--store", str(tmp_path))
    for command, what in (
        (("up", *free, "--host", host), "name server"),
        (("namesrv", "--host", host, "--port", "0"), "name server"),
        (("broker", "--port", "0", "--store", str(tmp_path), "--set", f"bindAddress={host}"), "broker"),
    ):
        result = cli(*command)
        assert (result.code, result.out) == (1, b"")
        told = f"rmq: the {what} cannot listen on {host}:0: not an address of this machine; "
        assert result.err.splitlines()[-1].startswith(told)


def test_a_port_that_is_taken(cluster: Cluster, cli: Run, tmp_path: Path) -> None:
    taken, broker = cluster.namesrv.rpartition(":")[2], cluster.broker_address.rpartition(":")[2]
    free = ("--port", "0", "--namesrv-port", "0")
    for command, what, option in (
        (
            ("up", *free[:2], "--namesrv-port", taken),
            f"the name server cannot listen on 127.0.0.1:{taken}",
            "--namesrv-port",
        ),
        (("up", *free[2:], "--port", broker), f"the broker cannot listen on 127.0.0.1:{broker}", "--port"),
        (
            ("namesrv", "--port", taken),
            f"the name server cannot listen on 127.0.0.1:{taken}",
            "--port",
        ),
        (
            ("broker", "--port", broker, "--store", str(tmp_path)),
            f"the broker cannot listen on 127.0.0.1:{broker}",
            "--port",
        ),
    ):
        result = cli(*command)
        assert result.code == 1
        told = f"rmq: {what}: the port is in use; choose another port with {option} (0: any free port)"
        assert result.err.splitlines()[-1] == told


def test_a_server_for_other_machines_tells_an_address_that_they_reach(cli: Run, tmp_path: Path) -> None:
    free = ("--port", "0", "--namesrv-port", "0")
    with started("up", *free, "--host", "0.0.0.0", "--set", "brokerIP1=127.0.0.1") as (process, words):
        assert {words["namesrv"].partition(":")[0], words["broker"].partition(":")[0]} == {"127.0.0.1"}
        (row,) = cli("--timeout", "30", "cluster", "list", "-n", words["namesrv"]).lines
        assert row[3] == words["broker"]
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert err.startswith(f"rmq: clients are told {words['broker']}, which only clients on this".encode())


def test_a_server_behind_a_port_forward_tells_its_address(tmp_path: Path) -> None:
    """Nothing listens on that address here: the name server and the metrics of the process do without it."""
    free = ("--port", "0", "--namesrv-port", "0", "--metrics", "0")
    with started("up", *free, "--advertise", "127.0.0.9:9") as (process, words):
        assert (words["namesrv"].partition(":")[0], words["broker"]) == ("127.0.0.9", "127.0.0.9:9")
        with urlopen(words["metrics"]) as scraped:
            text = scraped.read().decode()
        assert 'rmq_up{broker="broker-a",brokerIP="127.0.0.9:9"' in text
        assert [line[-4:] for line in text.splitlines() if line.startswith("rmq_up{")] == [" 1.0"]
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    (told,) = err.decode().splitlines()
    assert told.startswith("rmq: listening on 0.0.0.0 without access control: ")
    assert " and 9 " not in told


def test_no_server_tells_that_it_is_everywhere(cli: Run, tmp_path: Path) -> None:
    for command in (("up", "--namesrv-port", "0"), ("broker", "run", "--store", str(tmp_path))):
        refused = cli(*command, "--port", "0", "--set", "brokerIP1=0.0.0.0")
        assert (refused.code, refused.out) == (2, b"")
        assert refused.err.splitlines()[-1].startswith(
            "rmq: brokerIP1=0.0.0.0: an address that clients can connect to"
        )


@pytest.mark.parametrize(
    ("bound", "advertised", "told"),
    [
        ("0.0.0.0", "10.0.0.5:10911", "10.0.0.5:9876"),
        ("::", "10.0.0.5:10911", "10.0.0.5:9876"),
        ("127.0.0.1", "10.0.0.5:10911", "127.0.0.1:9876"),
    ],
)
def test_the_name_server_that_is_told(bound: str, advertised: str, told: str) -> None:
    assert told_address(bound, 9876, advertised) == told


@pytest.mark.parametrize(
    ("advertised", "bound", "namesrv", "warned"),
    [
        ("127.0.0.1:10911", None, "10.0.0.1:9876", True),
        ("127.0.0.1:10911", "0.0.0.0", None, True),
        ("127.0.0.1:10911", None, "127.0.0.1:9876;localhost:9877", False),
        ("127.0.0.1:10911", "127.0.0.1", None, False),
        ("10.0.0.5:10911", "0.0.0.0", "10.0.0.1:9876", False),
    ],
)
def test_an_address_that_others_do_not_reach(
    capsys: pytest.CaptureFixture[str], advertised: str, bound: str | None, namesrv: str | None, warned: bool
) -> None:
    warn_of_address(advertised, bound=bound, namesrv=namesrv)
    assert (f"clients are told {advertised}" in capsys.readouterr().err) is warned
