"""Errors name what was meant perhaps, where an address came from, and are documents under `--json`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rmqcli.__main__ import run
from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.profiles import profiles_path
from rmqcli.cli.remedies import close_names
from rmqcli.client import ClientError, ConnectionFailed, RequestTimeout
from rmqcli.doctor.reaching import HANGS, NO_NAME_SERVER, OTHER_PROTOCOL, remedy_of
from tests.cli.conftest import Run
from tests.support import JavaStore


def test_close_names() -> None:
    known = ["orders", "Orders-copy", "billing"]
    assert close_names("ordres", known) == ("orders",)
    assert close_names("ORDERS", known) == ("orders",)
    assert close_names("orders-cop", known) == ("Orders-copy", "orders")
    assert close_names("order", ["orders", "order-1", "orders-1"]) == ("orders", "order-1", "orders-1")
    assert close_names("xyz", known) == ()
    assert close_names("orders", known) == (), "the name itself is no suggestion"


def test_a_topic_was_meant(rmq: Run, topic: str) -> None:
    result = rmq("pull", topic[:-1])
    assert (result.code, result.out) == (ExitCode.NOT_FOUND, b"")
    assert result.err.count("\n") == 1
    assert f"; did you mean {topic}" in result.err
    described = rmq("topic", "describe", topic[:-1], "--json")
    assert json.loads(described.err)["error"]["didYouMean"][0] == topic
    assert "did you mean" not in rmq("pull", "Zq").err


@pytest.fixture(scope="module")
def strict() -> Iterator[str]:
    """The name server of a cluster that creates no topics by itself; it has a topic `orders`."""
    with embedded_in_thread(auto_create_topic_enable=False) as cluster:
        assert run(["-n", cluster.namesrv, "topic", "create", "orders"]) == ExitCode.DONE
        yield cluster.namesrv


@pytest.mark.parametrize(
    "words",
    [
        "send ordes x",
        "send ordes x -q 0 -b broker-a",
        "send ordes x --oneway",
        "send ordes x --transaction commit",
        "request ordes x",
        "import {} --topic ordes",
        "tail ordes --idle 0",
        "query ordes --key k",
        "consume ordes -g billing --idle 0",
        "bench send --topic ordes --seconds 0.1",
    ],
)
def test_the_topic_of_a_send_was_meant(cli: Run, strict: str, tmp_path: Path, words: str) -> None:
    lines = tmp_path / "in.jsonl"
    lines.write_text('{"body": "x"}\n')
    command = [*words.format(lines).split(), "-n", strict]
    result = cli(*command)
    assert (result.code, result.out) == (ExitCode.NOT_FOUND, b"")
    assert result.err.endswith("; did you mean orders?\n") and result.err.count("\n") == 1, result.err
    assert cli(*command, "--json").error["didYouMean"] == ["orders"]


def test_a_group_was_meant(rmq: Run, topic: str) -> None:
    assert rmq("group", "create", "remedies-billing").code == 0
    result = rmq("group", "settings", "remedies-biling")
    assert result.code == ExitCode.NOT_FOUND
    assert result.err.endswith("; did you mean remedies-billing?\n")
    shown = rmq("offsets", "show", "remedies-biling", "--json")
    assert json.loads(shown.err)["error"]["didYouMean"] == ["remedies-billing"]


def test_nobody_is_told_to_create_what_is_to_be_deleted(rmq: Run) -> None:
    for noun, is_unknown in (
        ("topic", "topic Zq not found on name server"),
        ("group", "no broker knows group Zq"),
    ):
        result = rmq(noun, "delete", "Zq", "--yes")
        assert (result.code, result.err.count("\n")) == (ExitCode.NOT_FOUND, 1)
        assert is_unknown in result.err
        assert "create" not in result.err
    assert "create it with: rmq topic create Zq" in rmq("pull", "Zq").err


def test_a_broker_or_a_profile_was_meant(rmq: Run, cli: Run, topic: str) -> None:
    result = rmq("topic", "update", topic, "--perm", "r", "-b", "brokr-a")
    assert (result.code, "did you mean broker-a?" in result.err) == (ExitCode.NOT_FOUND, True)
    assert cli("profile", "set", "production", "a:1").code == 0
    assert "did you mean production?" in cli("--profile", "producton", "topic", "list").err


def test_no_answer_means_no_suggestion(cli: Run, monkeypatch: pytest.MonkeyPatch, rmq: Run) -> None:
    monkeypatch.setattr("rmqcli.cli.remedies.SECONDS", 0.0)
    assert "did you mean" not in rmq("pull", "test_remedie").err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["-n", "127.0.0.1:1"],
            " (address from --namesrv); start a broker with `rmq up`, or name a cluster ",
        ),
        (["--profile", "down"], " (address from profile down); start a broker with `rmq up`, or name a "),
    ],
)
def test_a_refused_connection_names_the_way_out(cli: Run, arguments: list[str], said: str) -> None:
    cli("profile", "set", "down", "127.0.0.1:1")
    result = cli(*arguments, "topic", "list")
    assert result.code == ExitCode.NO_CONNECTION
    assert result.err.count("\n") == 1
    assert said in result.err
    assert result.err.endswith("with -n HOST:PORT or --profile NAME\n")


def test_errors_are_documents(cli: Run, tmp_path: Path) -> None:
    def error(*arguments: str) -> dict[str, object]:
        document = json.loads(cli(*arguments).err)
        assert list(document) == ["error", "version"]
        assert document["version"] == 1
        found: dict[str, object] = document["error"]
        return found

    assert error("topic", "list", "--json", "-n", "127.0.0.1:1")["kind"] == "no_connection"
    usage = error("pull", "--json")
    assert usage == {
        "message": "Missing argument 'TOPIC' (see: rmq pull --help)",
        "kind": "usage",
        "exitCode": 2,
    }
    assert error("--json", "offsets", "reset", "g")["kind"] == "usage"
    assert error("inspect", "store", str(tmp_path / "none"), "--json")["exitCode"] == ExitCode.NOT_FOUND
    assert cli("send", "t", "-n", "127.0.0.1:1", "--", "--json").err.startswith("rmq: ")
    profiles_path().parent.mkdir(parents=True, exist_ok=True)
    profiles_path().write_text("[")
    assert error("profile", "list", "--json")["kind"] == "failed"


def test_a_name_of_a_store_was_meant(cli: Run, store_clean: JavaStore) -> None:
    root = str(store_clean.root)
    said = "rmq: the store has no topic SeedNorml; did you mean SeedNormal?\n"
    for inspection in ("commitlog", "store", "topics", "offsets"):
        result = cli("inspect", inspection, root, "--topic", "SeedNorml")
        assert (result.code, said in result.err) == (ExitCode.DONE, True), inspection
    assert said in cli("inspect", "consumequeue", root, "-T", "SeedNorml").err
    assert said not in cli("inspect", "topics", root, "-T", "SeedNormal").err
    assert "did you mean" not in cli("inspect", "topics", root, "-T", "Zq").err
    assert cli("inspect", "commitlog", root, "-T", "RMQ_SYS_TRANS_OP_HALF_TOPIC").err == ""
    exported = cli("export", "--store", root, "-T", "SeedNorml", "--out", f"{root}-none")
    assert exported.err.endswith("; did you mean SeedNormal?\n")


@pytest.mark.parametrize("name", ["bad topic", "x" * 128])
def test_nobody_is_told_to_create_a_topic_that_cannot_be(rmq: Run, name: str) -> None:
    result = rmq("topic", "describe", name)
    assert result.code == ExitCode.NOT_FOUND
    assert "a topic has at most 127 of: letters, digits, %, |, - and _" in result.err
    assert "rmq topic create" not in result.err + rmq("doctor", name).out.decode()


def _answering(reply: bytes) -> Iterator[int]:
    """The port of a server that sends `reply`, or with nothing to say, ends each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("reply", "remedy"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", OTHER_PROTOCOL),
        (b"-ERR unknown command\r\n", OTHER_PROTOCOL),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", OTHER_PROTOCOL),
        (b"", "if it accepts only TLS, connect with --tls"),
    ],
    ids=["ssh", "redis", "http", "tls"],
)
def test_commands_and_doctor_say_the_same_of_a_foreign_server(cli: Run, reply: bytes, remedy: str) -> None:
    for port in _answering(reply):
        server = f"127.0.0.1:{port}"
        for words in ("topic list", "send t x", "group describe g", "offsets show g"):
            result = cli("-n", server, *words.split())
            assert (result.code, result.out) == (ExitCode.NO_CONNECTION, b"")
            assert result.err.rstrip().endswith(f"; {remedy}")
            assert "rmq up" not in result.err
        (line,) = cli("-n", server, "doctor").lines
        assert line[4] == remedy


def test_the_port_of_a_broker_is_no_name_server(cli: Run, cluster: Cluster) -> None:
    lines = "topic list|send t x|cluster list|group describe g|acl version|broker ha show|topic static show t"
    for words in lines.split("|"):
        result = cli("-n", cluster.broker_address, *words.split())
        assert result.code == ExitCode.FAILED
        assert result.err.rstrip().endswith(f"; {NO_NAME_SERVER}")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionFailed("172.17.0.2:10911", "timed out"), "--map 172.17.0.2:10911=HOST:PORT"),
        (RequestTimeout("10.0.0.1:10911", "GET_MAX_OFFSET", 3), HANGS),
        (ConnectionFailed("127.0.0.1:10911", "refused"), ""),
    ],
)
def test_brokers_that_cannot_be_talked_to(error: ClientError, told: str) -> None:
    found = remedy_of(error, ["127.0.0.1:9876"])
    assert told in found
    assert bool(told) is bool(found)
