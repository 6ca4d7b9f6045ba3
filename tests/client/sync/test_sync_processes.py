"""Clients for threads in processes that are interrupted, fork, or end without closing them."""

from __future__ import annotations

import signal
import subprocess
import sys

from rmqcli.broker import Cluster
from rmqcli.client.sync import PullConsumer
from tests.client.hosts import silent_broker
from tests.support import PATIENCE

OPENING = """
import os, signal, sys, time
from rmqcli.client import Message, UsedAfterFork
from rmqcli.client.sync import Producer
namesrv = sys.argv[1]
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    # Since 3.12, Python warns of forks in a process with several threads, which is what is tested here.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", OPENING + program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(program: str, *arguments: str) -> str:
    process = started(program, *arguments)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert errors == ""
    return output


def stored(namesrv: str, topic: str) -> list[bytes]:
    found = []
    with PullConsumer(namesrv=namesrv) as consumer:
        for queue in consumer.message_queues(topic):
            found += [message.body for message in consumer.pull(queue, 0).messages]
    return sorted(found)


def test_ctrl_c_ends_a_call_that_waits() -> None:
    program = """
with Producer("G_int", namesrv=namesrv, timeout=600, send_timeout=600) as producer:
    try:
        print("waiting", flush=True)
        producer.send(Message.of("Interrupted", b"x"))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test may send another one
        print("interrupted", flush=True)
print("closed", flush=True)
"""
    with silent_broker() as address:
        process = started(program, address)
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        output = interrupted(process)
    assert output == "interrupted\nclosed\n"


def interrupted(process: subprocess.Popen[str]) -> str:
    """Send SIGINT until the process has seen it: it may not wait yet."""
    while True:
        process.send_signal(signal.SIGINT)
        try:
            output, errors = process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            continue
        assert process.returncode == 0, errors
        return output


def test_ctrl_c_ends_an_opening_and_a_closing() -> None:
    program = """
import signal
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
signal.signal(signal.SIGALRM, signal.default_int_handler)
producer = Producer("G_int", namesrv=namesrv, timeout=600, send_timeout=600)
try:
    with producer:
        future = producer.send_soon(Message.of("Interrupted", b"x"))
except KeyboardInterrupt:
    print("interrupted", future.cancelled())
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    with silent_broker() as address:
        assert ended(program, address) == "interrupted True\n"


def test_a_forked_process_gets_an_error_and_may_have_a_client_of_its_own(
    rmq_cluster_session: Cluster,
) -> None:
    program = """
with Producer("G_fork", namesrv=namesrv) as producer:
    producer.send(Message.of("Forked", b"parent"))
    child = os.fork()
    if child == 0:
        for use in (producer.send, producer.send_soon):
            try:
                use(Message.of("Forked", b"lost"))
            except UsedAfterFork as error:
                print(error, flush=True)
        with Producer("G_fork", namesrv=namesrv) as own:
            own.send(Message.of("Forked", b"child"))
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    producer.send(Message.of("Forked", b"parent again"))
"""
    said = ended(program, rmq_cluster_session.namesrv).splitlines()
    assert said == ["a client does not survive a fork: create and open a new one in the new process"] * 2
    assert stored(rmq_cluster_session.namesrv, "Forked") == [b"child", b"parent", b"parent again"]


def test_an_exit_without_close_loses_nothing(rmq_cluster_session: Cluster) -> None:
    program = """
producer = Producer("G_exit", namesrv=namesrv).open()
futures = [producer.send_soon(Message.of("Left", b"%d" % number)) for number in range(20)]
"""
    assert ended(program, rmq_cluster_session.namesrv) == ""
    assert len(stored(rmq_cluster_session.namesrv, "Left")) == 20


def test_an_exit_does_not_wait_for_a_silent_broker() -> None:
    program = """
from rmqcli.client.sync import portal
portal.EXIT = 0.5
producer = Producer("G_exit", namesrv=namesrv, timeout=600, send_timeout=600).open()
future = producer.send_soon(Message.of("Left", b"x"))
"""
    with silent_broker() as address:
        assert ended(program, address) == ""
