"""Behaviour of whole processes: signals, closed streams, pipes, terminals, servers."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from broker.testing.embedded import Cluster
from codec.bodies.base import Body, decode_body, encode_body
from codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from codec.codes import RequestCode
from codec.message_queue import MessageQueue
from codec.remoting.connection import Connection
from codec.remoting.frame import RemotingCommand, encode_frame
from tests.cli.conftest import Run
from tests.support import PATIENCE, RMQ


@pytest.fixture
def environment(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
    yield {**os.environ, "TERM": "xterm", "COLUMNS": "80"}


def shell(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    text = script.replace("rmq", " ".join(RMQ))
    return subprocess.run(
        ["bash", "-c", text], capture_output=True, timeout=PATIENCE, env=environment, check=False
    )


@pytest.fixture
def full(rmq: Run, topic: str) -> str:
    """A topic with more than a pipe holds."""
    assert rmq("send", topic, "--batch", "100", stdin=b"x" * 99 + b"\n" + b"y" * 500 * 5000).code == 0
    for _ in range(3):
        assert rmq("send", topic, "--batch", "100", stdin=(b"z" * 400 + b"\n") * 1000).code == 0
    return topic


def test_a_reader_that_had_enough(environment: dict[str, str], full: str) -> None:
    for options in ("", "--json", "-f '%o\\n'"):
        done = shell(f"rmq pull {full} {options} | head -1; echo ${{PIPESTATUS[0]}}", environment)
        assert done.stderr == b""
        assert done.stdout.splitlines()[-1] == b"0"


def test_a_tail_ends_with_its_reader(environment: dict[str, str], full: str) -> None:
    """Also when no message arrives that it could not print."""
    done = shell(f"rmq tail {full} | head -1 | wc -l; echo ${{PIPESTATUS[0]}}", environment)
    assert (done.stdout.split(), done.stderr) == ([b"1", b"0"], b"")


@pytest.mark.parametrize("options", ["", "--json"])
def test_all_is_sent_when_nobody_reads_the_results(
    environment: dict[str, str], topic: str, options: str
) -> None:
    done = shell(
        f"seq 1 3000 | rmq send {topic} {options} | head -1; echo ${{PIPESTATUS[1]}}; "
        f"rmq pull {topic} | wc -l",
        environment,
    )
    assert (done.stdout.splitlines()[1:], done.stderr) == ([b"0", b"3000"], b"")


def test_all_is_sent_when_the_results_cannot_be_written(environment: dict[str, str], topic: str) -> None:
    done = shell(f"seq 1 300 | rmq send {topic} >/dev/full", environment)
    assert done.returncode == 1
    assert done.stderr == b"rmq: cannot write the results: No space left on device; sending continued\n"
    assert shell(f"rmq pull {topic} | wc -l", environment).stdout == b"300\n"


def test_a_closed_standard_output(environment: dict[str, str], topic: str) -> None:
    done = shell(f"rmq send {topic} x >&-", environment)
    assert (done.returncode, done.stderr) == (0, b"")
    done = shell("rmq topic list 2>&- >&- </dev/null", environment)
    assert done.returncode == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk(environment: dict[str, str], topic: str, unbuffered: str) -> None:
    for command in ("--version", "--help", f"topic stats {topic}"):
        done = shell(f"rmq {command} >/dev/full", environment | {"PYTHONUNBUFFERED": unbuffered})
        assert done.returncode == 1
        assert re.fullmatch(rb"rmq: cannot write(?: the output)?: No space left on device\n", done.stderr)


def test_a_closed_standard_input(environment: dict[str, str], topic: str) -> None:
    done = shell(f"rmq send {topic} <&-", environment)
    assert done.returncode == 2
    assert done.stderr == b"rmq: standard input is closed: specify BODY or --file\n"


def test_results_come_before_the_input_ends(environment: dict[str, str], topic: str) -> None:
    process = subprocess.Popen([*RMQ, "send", topic, "--json"], stdin=-1, stdout=-1, env=environment)
    assert process.stdin
    assert process.stdout
    for _ in range(3):
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["status"] == "SEND_OK"
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    process.stdout.close()


def interrupt(process: subprocess.Popen[bytes], *, wait_for: IO[bytes] | None) -> tuple[int, bytes]:
    if wait_for is not None:
        wait_for.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err


def test_ctrl_c(environment: dict[str, str], rmq: Run, topic: str) -> None:
    rmq("send", topic, "x")
    tail = subprocess.Popen([*RMQ, "tail", topic], stdout=-1, stderr=-1, env=environment)
    assert interrupt(tail, wait_for=tail.stdout) == (130, b"")


def test_ctrl_c_while_standard_input_is_silent(environment: dict[str, str], topic: str) -> None:
    send = subprocess.Popen([*RMQ, "send", topic], stdin=-1, stdout=-1, stderr=-1, env=environment)
    assert send.stdin
    send.stdin.write(b"x\n")
    send.stdin.flush()
    assert interrupt(send, wait_for=send.stdout) == (130, b"")


def ask(cluster: Cluster, code: RequestCode, body: Body) -> RemotingCommand:
    host, _, port = cluster.broker_address.rpartition(":")
    connection = Connection()
    with socket.create_connection((host, int(port)), PATIENCE) as peer:
        peer.sendall(encode_frame(RemotingCommand(code, body=encode_body(body))))
        while not (replies := connection.receive(peer.recv(65536))):
            pass
    return replies[0]


def lock(cluster: Cluster, group: str, queue: MessageQueue) -> list[MessageQueue]:
    """The queues that a broker locks for another member."""
    wanted = LockBatchRequestBody(group, "another member", [queue])
    reply = ask(cluster, RequestCode.LOCK_BATCH_MQ, wanted)
    return decode_body(LockBatchResponseBody, reply.body).lock_ok_mq_set


def unlock(cluster: Cluster, group: str, queue: MessageQueue) -> None:
    ask(cluster, RequestCode.UNLOCK_BATCH_MQ, UnlockBatchRequestBody(group, "another member", [queue]))


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_a_consumer_that_is_told_to_end_leaves_its_group(
    environment: dict[str, str], rmq: Run, cluster: Cluster, topic: str, ending: signal.Signals
) -> None:
    """Its work is acknowledged and its locks are free: the next member does not wait until they expire."""
    group = f"g_{topic}"
    rmq("send", topic, "--queue", "0", stdin=b"1\n2\n3\n")
    command = ["consume", topic, "-g", group, "--orderly", "--from", "first"]
    script = "read v; echo $v; [ $v != 3 ] || exec sleep 60"
    consumer = subprocess.Popen([*RMQ, *command, "--exec", script], stdout=-1, stderr=-1, env=environment)
    assert consumer.stdout
    assert [consumer.stdout.readline() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
    queue = MessageQueue(topic, cluster.broker_name, 0)
    assert lock(cluster, group, queue) == []
    consumer.send_signal(ending)
    assert consumer.communicate(timeout=PATIENCE) == (b"", b"")
    assert consumer.returncode == -ending
    assert rmq("offsets", "show", "-g", group, "-t", topic).lines[0][3] == "2"
    assert lock(cluster, group, queue) == [queue]
    unlock(cluster, group, queue)
    assert rmq(*command, "-c", "1", "-f", "%v").out == b"3"


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_a_consumer_and_its_command_is_no_failure_of_the_message(
    environment: dict[str, str], rmq: Run, topic: str, ending: signal.Signals
) -> None:
    """A terminal and a service manager signal all processes: the command may be gone before rmq knows why.

    It waits 0.3 s for its own signal, for which this process may be too slow once, but not each time.
    """
    rmq("send", topic, "x", "--queue", "0")
    for attempt in range(10):
        group = f"g_{topic}_{attempt}"
        command = [*RMQ, "consume", topic, "-g", group, "--from", "first", "--retries", "0", "--exec"]
        script = "echo $$; exec sleep 60"
        consumer = subprocess.Popen([*command, script], stdout=-1, stderr=-1, env=environment)
        assert consumer.stdout
        os.kill(int(consumer.stdout.readline()), ending)
        time.sleep(0.1)
        consumer.send_signal(ending)
        _, said = consumer.communicate(timeout=PATIENCE)
        if not said:
            break
    assert said == b""
    again = ("consume", topic, "-g", group, "-c", "1", "--exec", "echo $RMQ_RECONSUME_TIMES")
    assert rmq(*again).out == b"0\n"


def test_a_consumer_may_be_deaf_to_the_end_of_its_terminal(
    environment: dict[str, str], rmq: Run, topic: str
) -> None:
    rmq("send", topic, "--queue", "0", stdin=b"1\n2\n")
    script = (
        f"trap '' HUP; exec rmq consume {topic} -g g_{topic} --from first -c 2 --exec 'kill -HUP $PPID; cat'"
    )
    done = shell(script, environment)
    assert (done.returncode, done.stdout) == (0, b"12")


def on_terminal(environment: dict[str, str], *arguments: str, typed: bytes = b"") -> tuple[int, str]:
    """Exit code and what the screen showed, without styles. `typed` is typed at the first question."""
    pid, screen = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*RMQ, *arguments], environment)
    shown = b""
    while select.select([screen], [], [], PATIENCE)[0]:
        try:
            part = os.read(screen, 65536)
        except OSError:  # Linux says EIO when the other side is gone
            break
        shown += part
        if typed and (b"? [y/N]" in shown or b"Ctrl-D" in shown):
            os.write(screen, typed)
            typed = b""
    os.close(screen)
    _, status = os.waitpid(pid, 0)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    return os.waitstatus_to_exitcode(status), text.replace("\r\n", "\n")


def test_tables_on_a_terminal(environment: dict[str, str], rmq: Run, topic: str) -> None:
    rmq("send", topic, "hello", "-k", "k1", "-t", "paid")
    rmq("offsets", "reset", "-g", "G_screen", "-t", topic, "--to", "start", "--yes")
    seen = [
        on_terminal(environment, *arguments)
        for arguments in (
            ("topic", "describe", topic),
            ("topic", "stats", topic),
            ("topic", "route", topic),
            ("cluster", "list"),
            ("group", "describe", "G_screen"),
            ("offsets", "show", "-g", "G_screen"),
            ("pull", topic),
            ("send", topic, "x"),
            ("--help",),
            ("send", "--help"),
        )
    ]
    for code, text in seen:
        assert code == 0
        assert text.strip()
        assert max(map(len, text.splitlines())) <= 80
    assert seen[0][1].split() == [
        "BROKER",
        "READ",
        "WRITE",
        "PERM",
        "ORDER",
        "MESSAGES",
        "GROUPS",
        "broker-a",
        "4",
        "4",
        "rw",
        "false",
        "1",
        "G_screen",
    ]
    assert "[k1]\n  hello\n" in seen[6][1]


def test_no_colour(environment: dict[str, str], rmq: Run, topic: str) -> None:
    rmq("send", topic, "hello")

    def raw(*arguments: str, **extra: str) -> bytes:
        command = "script -qec '" + " ".join([*RMQ, *arguments]) + "' /dev/null"
        return subprocess.run(
            command, shell=True, capture_output=True, env={**environment, **extra}, check=True
        ).stdout

    assert b"\x1b[2m" in raw("pull", topic)
    assert b"\x1b[2m" not in raw("pull", topic, "--no-color")
    assert b"\x1b[2m" not in raw("pull", topic, NO_COLOR="1")
    assert b"\x1b[1m" in raw("topic", "stats", topic)
    assert b"\x1b" not in raw("topic", "stats", topic, "--no-color")
    assert b"\x1b" not in raw("topic", "stats", topic, NO_COLOR="1")


def test_a_question(environment: dict[str, str], rmq: Run, topic: str) -> None:
    code, text = on_terminal(environment, "topic", "delete", topic, typed=b"n\n")
    assert (code, text.splitlines()[-1]) == (1, "rmq: aborted: nothing was changed")
    code, text = on_terminal(environment, "topic", "delete", topic, typed=b"y\n")
    assert (code, text.splitlines()[-1]) == (0, f"topic {topic} deleted from broker-a")


def test_typing_messages(environment: dict[str, str], topic: str) -> None:
    code, text = on_terminal(environment, "send", topic, typed=b"one\ntwo\n\x04")
    assert code == 0
    assert text.count("SEND_OK") == 2


def test_a_summary_for_many(environment: dict[str, str], topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"x\n" * 100)
    code, text = on_terminal(environment, "send", topic, "--file", str(lines))
    assert code == 0
    assert text.startswith("100 messages sent (100 B) in ")


def started(*arguments: str) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    process = subprocess.Popen([*RMQ, *arguments, "--json"], stdout=-1, stderr=-1)
    assert process.stdout
    return process, json.loads(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up(number: int, cli: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    process, words = started(
        "up", "--port", "0", "--namesrv-port", "0", "--store", str(store), "--set", "no.such=1"
    )
    assert set(words) == {"namesrv", "broker", "store"}
    assert words["store"] == str(store)
    assert cli("--timeout", "30", "send", "T", "x", "-n", words["namesrv"]).code == 0
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert err == b"rmq: ignoring unknown property no.such\n"
    assert (store / "config" / "topics.json").exists()
    assert not (store / "abort").exists()


def test_up_with_a_store_of_its_own() -> None:
    process, words = started("up", "--port", "0", "--namesrv-port", "0")
    assert Path(words["store"]).is_dir()
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert not Path(words["store"]).exists()


def test_a_server_may_open_as_many_files_as_it_is_allowed_to() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = ["bash", "-c", 'ulimit -S -n 256 && exec "$@"', "bash", *RMQ]
    process = subprocess.Popen(
        [*limited, "namesrv", "--listen", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    found = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert found == (hard, hard), f"the limits here are {soft} and {hard}"


def test_a_broker_and_a_name_server_apart(cli: Run, tmp_path: Path) -> None:
    namesrv, names = started(
        "namesrv", "--listen", "127.0.0.1:0", "--set", f"kvConfigPath={tmp_path}/kv.json"
    )
    config = tmp_path / "broker.conf"
    config.write_text(
        f"brokerName=b1\nbrokerIP1=127.0.0.1\nlistenPort=0\nstorePathRootDir={tmp_path}/store\n"
    )
    broker, words = started("broker", "-c", str(config), "-n", names["namesrv"])
    assert words["name"] == "b1"
    (row,) = cli("--timeout", "30", "cluster", "list", "-n", names["namesrv"]).lines
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
        (("namesrv", "--listen", f"{host}:0"), "name server"),
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
            ("namesrv", "--listen", cluster.namesrv),
            f"the name server cannot listen on {cluster.namesrv}",
            "--listen",
        ),
        (
            ("broker", "--port", broker, "--store", str(tmp_path)),
            f"the broker cannot listen on 0.0.0.0:{broker}",
            "--port",
        ),
    ):
        result = cli(*command)
        assert result.code == 1
        told = f"rmq: {what}: the port is in use; choose another port with {option} (0: any free port)"
        assert result.err.splitlines()[-1] == told
