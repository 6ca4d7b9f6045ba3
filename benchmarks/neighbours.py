"""One client against another: round trips of a client that sends and pulls, quiet and while another attacks.

The broker, the attacker and the measuring client are three processes. Each attack has a broker of its own.
They run as if on three machines (`machines`). The p99 under an attack is also compared with
that beside a process in the place of the attacker which merely computes and never talks to the broker.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.attacks import ATTACKS, Address, drop_reply, frame, send_frame
from benchmarks.harness import ROOT, Measured, cluster, have_memory, resident_mib
from benchmarks.machines import ASIDE, place_client_and
from rmqcli.codec.codes import RequestCode

BESIDE = "beside a process that computes"
QUIET_SECONDS = 2.0
ATTACK_SECONDS = 8.0
AFTER_SECONDS = 6.0
"""Longer than flushConsumerOffsetInterval."""
LONGEST_SECONDS = 15.0
PAUSE_SECONDS = 0.004
RoundTrips = Callable[[Address, float, "subprocess.Popen[bytes] | None"], list[float]]
TARGETS = {"quiet": "5 × quiet, 50 ms", BESIDE: ""}
COMPUTE = "while True: sum(range(10_000))"


def neighbours() -> Iterator[Measured]:
    """Measure sends and pulls of one client, p50 and p99, under each attack and after it; memory that is kept."""
    have_memory()
    yield from _computing()
    for name in ATTACKS:
        with _cluster() as up:
            yield from under(name, _address(up), up["pid"])


@contextmanager
def _cluster() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        place_client_and(up["pid"])
        yield up


def _computing() -> Iterator[Measured]:
    """Measure the same beside one and two processes that never talk to the broker."""
    with _cluster() as up:
        quiet = percentile(remoting_round_trips(_address(up), QUIET_SECONDS), 99)
        for count in (1, 2):
            with ExitStack() as stack:
                for _ in range(count):
                    stack.enter_context(computing())
                late = percentile(remoting_round_trips(_address(up), QUIET_SECONDS), 99)
            yield Measured(f"beside {count} that compute, p99", late, "ms", late / quiet, "quiet")


def under(
    name: str,
    address: Address,
    pid: int,
    attacks: str = "benchmarks.attacks",
    round_trips: RoundTrips | None = None,
) -> Iterator[Measured]:
    """Measure round trips of one client under an attack that a module names."""
    round_trips = round_trips or remoting_round_trips
    round_trips(address, 0.5, None)
    where = ":".join(map(str, address))
    command = [*ASIDE, sys.executable, "-m", attacks, name, where, str(ATTACK_SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as attacker:
        assert attacker.stdin is not None and attacker.stdout is not None
        attacker.stdout.readline()
        bases = {"quiet": round_trips(address, QUIET_SECONDS, None)}
        with computing():
            bases[BESIDE] = round_trips(address, QUIET_SECONDS, None)
        before = resident_mib(pid)
        attacker.stdin.close()
        during = round_trips(address, LONGEST_SECONDS, attacker)
        attacker.kill()
    after = round_trips(address, AFTER_SECONDS, None)
    for when, times in (("under", during), ("after", after)):
        middle = percentile(times, 50)
        yield Measured(f"{when} {name}, p50", middle, "ms", middle / percentile(bases["quiet"], 50), "quiet")
        for base, usual in bases.items():
            late = percentile(times, 99)
            yield Measured(
                f"{when} {name}, p99", late, "ms", late / percentile(usual, 99), base, TARGETS[base]
            )
    yield Measured(f"after {name}, memory kept", resident_mib(pid) - before, "MiB")


@contextmanager
def computing() -> Iterator[None]:
    """Run a process that computes and does nothing else."""
    with subprocess.Popen([*ASIDE, sys.executable, "-c", COMPUTE]) as child:
        try:
            yield
        finally:
            child.kill()


def _address(up: dict[str, Any]) -> Address:
    host, _, port = up["broker"].rpartition(":")
    return host, int(port)


def remoting_round_trips(
    address: Address, seconds: float, until: subprocess.Popen[bytes] | None = None
) -> list[float]:
    """Milliseconds of a send or a pull, one at a time, with short pauses; at most while `until` runs."""
    pull = frame(
        RequestCode.PULL_MESSAGE,
        {
            "consumerGroup": "TOOLS_CONSUMER",
            "topic": "Quiet",
            "queueId": 0,
            "queueOffset": 0,
            "maxMsgNums": 1,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
        },
    )
    requests = [send_frame(bytes(1024), topic="Quiet"), pull]
    times: list[float] = []
    deadline = time.monotonic() + seconds
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(30)
        waiting = b""
        while time.monotonic() < deadline and (until is None or until.poll() is None):
            started = time.perf_counter()
            connection.sendall(requests[len(times) % 2])
            waiting = drop_reply(connection, waiting)
            times.append((time.perf_counter() - started) * 1000)
            time.sleep(PAUSE_SECONDS)
    return times


def percentile(times: list[float], percent: int) -> float:
    return sorted(times)[min(len(times) - 1, len(times) * percent // 100)]
