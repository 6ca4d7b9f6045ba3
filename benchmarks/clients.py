"""Our client and two that others wrote, each a process of its own, on one broker in one run. Bodies of 1 KB.

ali-ons and the C++ client 1.x are installed from their registries, as for the tests. A consumer's time goes from its first
message to its last; all read the same backlog from its start, ours by pull, the others by push.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import ROOT, Measured, cluster
from tests.foreign.install import ALI_ONS, CPP1_CTYPES, Client, install_cpp1, install_node

BODY_BYTES = 1024
ONE_AT_A_TIME = 5_000
IN_FLIGHT = 64
MANY = 30_000
BACKLOG = 60_000

OURS = Client("ours", (sys.executable, "-m", "benchmarks.our_client"))
OTHERS = (ALI_ONS, CPP1_CTYPES)


def clients() -> Iterator[Measured]:
    """Sends one at a time and 64 in flight, and a backlog consumed; ours as a ratio to each of the others."""
    install_node()
    install_cpp1()
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        home, namesrv = Path(folder), up["namesrv"]
        yield from _sends(home, namesrv, "send, one at a time", ONE_AT_A_TIME, 1, (OURS, *OTHERS))
        # The C++ client's driver sends one at a time only.
        yield from _sends(home, namesrv, f"send, {IN_FLIGHT} in flight", MANY, IN_FLIGHT, (OURS, ALI_ONS))
        yield from _consumption(home, namesrv)


def _sends(
    home: Path, namesrv: str, name: str, count: int, in_flight: int, compared: tuple[Client, ...]
) -> Iterator[Measured]:
    def rate(client: Client) -> float:
        topic = f"Send{in_flight}_{compared.index(client)}"
        create(namesrv, topic)
        return rate_of(client, home, "send", namesrv, topic, "G_send", count, in_flight)

    yield from compared(name, {client: rate(client) for client in compared})


def _consumption(home: Path, namesrv: str) -> Iterator[Measured]:
    create(namesrv, "Backlog")
    rate_of(OURS, home, "send", namesrv, "Backlog", "G_fill", BACKLOG, IN_FLIGHT)

    def rate(client: Client) -> float:
        group = f"G_{client.name.replace('.', '_')}"
        rmq(namesrv, "offsets", "reset", "-g", group, "-t", "Backlog", "--to", "start", "--yes")
        return rate_of(client, home, "consume", namesrv, "Backlog", group, BACKLOG)

    yield from compared("consume a backlog", {client: rate(client) for client in (OURS, *OTHERS)})


def rate_of(
    client: Client,
    home: Path,
    verb: str,
    namesrv: str,
    topic: str,
    group: str,
    count: int,
    in_flight: int = 1,
) -> float:
    arguments = (verb, namesrv, topic, group, str(count), "p", "quiet", str(in_flight), str(BODY_BYTES))
    said = client.lines(home, *arguments, timeout=300)[-1]
    assert said["done"] == count, said
    return float(count / said["seconds"])


def compared(name: str, rates: dict[Client, float]) -> Iterator[Measured]:
    for client, rate in rates.items():
        yield Measured(f"{name}, {client.name}", rate, "msg/s", rates[OURS] / rate, "ours to this one")


def create(namesrv: str, topic: str) -> None:
    rmq(namesrv, "topic", "create", topic, "-q", "4")


def rmq(namesrv: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "rmqcli", *arguments, "-n", namesrv]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
