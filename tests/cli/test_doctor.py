"""`rmq doctor` and `rmq profile test`: lines, documents and exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqcli import __version__
from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.core import hashing
from tests.cli.conftest import Run

ELSEWHERE = "192.0.2.7"
"""An address of no machine (RFC 5737)."""


@pytest.fixture(scope="module")
def far() -> Iterator[Cluster]:
    """A cluster whose broker announces an address that leads nowhere."""
    with embedded_in_thread(broker_ip1=ELSEWHERE) as cluster:
        yield cluster


def test_a_healthy_cluster(rmq: Run, topic: str, cluster: Cluster) -> None:
    found = rmq("doctor", topic, "--probe")
    assert (found.code, found.err) == (0, "")
    assert {line[0] for line in found.lines} <= {"ok", "warn", "skip"}
    assert found.lines[0] == ["ok", "name server", cluster.namesrv, "answers", ""]
    assert found.lines[-1][:3] == ["ok", "probe", "broker-a"]
    assert not [name for name in rmq("topic", "list").lines if name[0].startswith("RMQ_PROBE")]


def test_compiled_or_interpreted(rmq: Run, cluster: Cluster) -> None:
    form = "interpreted" if hashing.__file__.endswith(".py") else "compiled"
    assert rmq("doctor").lines[-1] == ["ok", "core", f"rmq {__version__}", form, ""]
    assert rmq("doctor", "--json").json["checks"][-1]["text"] == form


def test_what_fails(rmq: Run, cluster: Cluster) -> None:
    found = rmq("doctor", "nowhere", "-g", "nobody", "--json")
    assert (found.code, found.error["message"]) == (ExitCode.FAILED, "a check failed")
    assert found.json["namesrv"] == cluster.namesrv
    failed = [check for check in found.json["checks"] if check["status"] == "fail"]
    assert [(check["check"], check["target"]) for check in failed] == [
        ("route", cluster.namesrv),
        ("group", "nobody"),
    ]
    assert failed[0]["fix"] == "create it with: rmq topic create nowhere"


def test_without_a_name_server(cli: Run) -> None:
    found = cli("-n", "127.0.0.1:1", "doctor", "--probe")
    assert (found.code, found.err, len(found.lines)) == (ExitCode.NO_CONNECTION, "", 1)
    assert found.lines[0][:3] == ["fail", "name server", "127.0.0.1:1"]


def test_a_broker_for_a_name_server(cli: Run, cluster: Cluster) -> None:
    found = cli("-n", f"{cluster.broker_address};127.0.0.1:1", "doctor")
    assert found.code == ExitCode.NO_CONNECTION
    assert found.lines[0][3] == "is a broker, not a name server"


def test_one_of_two_name_servers(cli: Run, cluster: Cluster) -> None:
    found = cli("-n", f"127.0.0.1:1;{cluster.namesrv}", "doctor")
    assert (found.code, [line[0] for line in found.lines[:2]]) == (ExitCode.FAILED, ["fail", "ok"])


def test_a_broker_behind_a_port_forward(cli: Run, far: Cluster) -> None:
    for seconds in ("0.3", "3", "30"):  # of which a busy machine needs more for the name server
        lost = cli("-n", far.namesrv, "--timeout", seconds, "doctor")
        if lost.code != ExitCode.NO_CONNECTION:
            break
    assert lost.code == ExitCode.FAILED
    (line,) = [line for line in lost.lines if line[0] == "fail"]
    assert line[1:3] == ["broker", f"broker-a {far.broker_address}"]
    mapped = ("--map", f"{ELSEWHERE}=127.0.0.1")
    assert cli("-n", far.namesrv, "--timeout", "30", "doctor", "--probe", *mapped).code == 0
    assert cli("profile", "add", "far", far.namesrv, *mapped).code == 0
    assert cli("profile", "test", "far", "--timeout", "30").code == 0
    assert cli("profile", "test", "unknown").code == ExitCode.NOT_FOUND


def test_an_invalid_rule(cli: Run, far: Cluster) -> None:
    refused = cli("-n", far.namesrv, "doctor", "--map", "192.0.2.7:1=x")
    assert (refused.code, refused.err.count("\n")) == (ExitCode.USAGE, 1)
