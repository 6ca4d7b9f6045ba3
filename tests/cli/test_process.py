"""Behaviour of whole processes: signals, closed streams, pipes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from typing import IO

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.codec.bodies.base import Body, decode_body, encode_body
from rmqcli.codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import encode_frame
from tests.cli.conftest import Run
from tests.support import PATIENCE, RMQ


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
    code, err = interrupt(send, wait_for=send.stdout)
    assert code == 130
    assert err.startswith(b"rmq: interrupted: 1 sent, 0 failed; line 2 and all after it were not sent; ")


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
    command = ["consume", topic, "-g", group, "--orderly", "--from", "start"]
    script = "read v; echo $v; [ $v != 3 ] || exec sleep 60"
    heeding = ["env", "--default-signal"]  # nohup may run the tests
    consumer = subprocess.Popen(
        [*heeding, *RMQ, *command, "--exec", script], stdout=-1, stderr=-1, env=environment
    )
    assert consumer.stdout
    assert [consumer.stdout.readline() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
    queue = MessageQueue(topic, cluster.broker_name, 0)
    assert lock(cluster, group, queue) == []
    consumer.send_signal(ending)
    assert consumer.communicate(timeout=PATIENCE) == (b"", b"")
    assert consumer.returncode == -ending
    assert rmq("offsets", "show", group, "-T", topic).lines[0][3] == "2"
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
        command = [*RMQ, "consume", topic, "-g", group, "--from", "start", "--retries", "0", "--exec"]
        script = "echo $$; exec sleep 60"
        consumer = subprocess.Popen([*command, script], stdout=-1, stderr=-1, env=environment)
        assert consumer.stdout
        os.kill(int(consumer.stdout.readline()), ending)
        time.sleep(0.1)
        consumer.send_signal(ending)
        _, said = consumer.communicate(timeout=PATIENCE)
        if said.count(b"\n") <= 1:
            break
    assert said == b"" or said.startswith(b"rmq: interrupted")
    assert said.count(b"\n") <= 1
    again = ("consume", topic, "-g", group, "-c", "1", "--exec", "echo $RMQ_RECONSUME_TIMES")
    assert rmq(*again).out == b"0\n"


@pytest.mark.parametrize("command", ["tail", "consume"])
def test_a_signal_ends_the_first_process_of_a_container(
    environment: dict[str, str], topic: str, command: str, rmq: Run
) -> None:
    """From such a process, the kernel keeps signals that have no handler."""
    rmq("send", topic, "x", "--queue", "0")
    first = "import os; os.getpid = lambda: 1; from rmqcli.__main__ import main; main()"
    joining = ["-g", f"g_{topic}", "--from", "start"] if command == "consume" else []
    words = [sys.executable, "-c", first, command, topic, *joining, "-f", r"%v\n"]
    process = subprocess.Popen(words, stdout=-1, stderr=-1, env=environment)
    assert process.stdout
    assert process.stdout.readline() == b"x\n"
    process.terminate()
    assert process.communicate(timeout=PATIENCE) == (b"", b"")
    assert process.returncode == 128 + signal.SIGTERM


def test_a_consumer_may_be_deaf_to_the_end_of_its_terminal(
    environment: dict[str, str], rmq: Run, topic: str
) -> None:
    rmq("send", topic, "--queue", "0", stdin=b"1\n2\n")
    script = (
        f"trap '' HUP; exec rmq consume {topic} -g g_{topic} --from start -c 2 --exec 'kill -HUP $PPID; cat'"
    )
    done = shell(script, environment)
    assert (done.returncode, done.stdout) == (0, b"12")
