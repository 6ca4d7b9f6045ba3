"""One client against another: round trips of a client that sends and pulls, quiet and while another attacks.

The broker, the attacker and the measuring client are three processes. Each attack has a broker of its own.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.attacks import ATTACKS, Address, drop_reply, frame, send_frame
from benchmarks.harness import ROOT, Measured, cluster, resident_mib
from codec.codes import RequestCode

QUIET_SECONDS = 2.0
ATTACK_SECONDS = 8.0
AFTER_SECONDS = 6.0
"""Longer than flushConsumerOffsetInterval."""
LONGEST_SECONDS = 15.0
PAUSE_SECONDS = 0.004
TARGET = "5 × quiet, 50 ms"


def neighbours() -> Iterator[Measured]:
    """Sends and pulls of one client, p50 and p99, under each attack and after it; memory that is kept."""
    for name in ATTACKS:
        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
            yield from _under(name, up["broker"], up["pid"])


def _under(name: str, where: str, pid: int) -> Iterator[Measured]:
    host, _, port = where.rpartition(":")
    address = host, int(port)
    round_trips(address, 0.5)
    command = [sys.executable, "-m", "benchmarks.attacks", name, where, str(ATTACK_SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as attacker:
        assert attacker.stdin is not None and attacker.stdout is not None
        attacker.stdout.readline()
        quiet, before = round_trips(address, QUIET_SECONDS), resident_mib(pid)
        attacker.stdin.close()
        during = round_trips(address, LONGEST_SECONDS, attacker)
        attacker.kill()
    after = round_trips(address, AFTER_SECONDS)
    for when, times in (("under", during), ("after", after)):
        for percent in (50, 99):
            value, usual = percentile(times, percent), percentile(quiet, percent)
            target = TARGET if percent == 99 else ""
            yield Measured(f"{when} {name}, p{percent}", value, "ms", value / usual, "quiet", target)
    yield Measured(f"after {name}, memory kept", resident_mib(pid) - before, "MiB")


def round_trips(
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
