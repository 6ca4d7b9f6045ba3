"""Our client and two foreign ones, each in a process of its own, with one broker in one run. Bodies of 1 KB.

ali-ons and the C++ client 1.x are installed from their registries, as for the tests. All send the same
bodies, tags and keys in alternating rounds; the median counts. A consumer is timed from its first message to
its last; all read the same backlog from its start, ours by pull, the others by push.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.harness import ROOT, Measured, cluster
from tests.foreign.install import ALI_ONS, CPP1_CTYPES, Client, install_cpp1, install_node

BODY_BYTES = 1024
IN_FLIGHT = 64
SENDS = {1: 3_000, 16: 12_000, 64: 15_000}
BACKLOG = 40_000
ROUNDS = 5

OURS = Client("ours", (sys.executable, "-m", "benchmarks.our_client"))
OTHERS = (ALI_ONS, CPP1_CTYPES)


def clients() -> Iterator[Measured]:
    """Measure sends with 1, 16 and 64 in flight, and a backlog consumed: ratios of ours to each of the others."""
    install_node()
    install_cpp1()
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        home, namesrv = Path(folder), up["namesrv"]
        for in_flight, count in SENDS.items():
            yield from _sends(home, namesrv, in_flight, count)
        yield from _consumption(home, namesrv)


def _sends(home: Path, namesrv: str, in_flight: int, count: int) -> Iterator[Measured]:
    # The C++ client's driver sends one at a time only.
    chosen = (OURS, *OTHERS) if in_flight == 1 else (OURS, ALI_ONS)
    for number in range(len(chosen)):
        create(namesrv, f"Send{in_flight}_{number}")

    def rate(client: Client) -> float:
        topic = f"Send{in_flight}_{chosen.index(client)}"
        return rate_of(client, home, "send", namesrv, topic, "G_send", count, in_flight)

    name = "send, one at a time" if in_flight == 1 else f"send, {in_flight} in flight"
    yield from compared(name, in_turns(chosen, rate))


def _consumption(home: Path, namesrv: str) -> Iterator[Measured]:
    create(namesrv, "Backlog")
    rate_of(OURS, home, "send", namesrv, "Backlog", "G_fill", BACKLOG, IN_FLIGHT)
    chosen = (OURS, *OTHERS)
    yield from compared(
        "consume a backlog", in_turns(chosen, lambda client: consumed(home, namesrv, client, "consume"), 3)
    )


def consumed(home: Path, namesrv: str, client: Client, verb: str) -> float:
    """Messages a second from the start of the backlog."""
    group = f"G_{verb}_{client.name.replace('.', '_')}"
    rmq(namesrv, "offsets", "reset", group, "Backlog", "--to", "start", "--yes")
    return rate_of(client, home, verb, namesrv, "Backlog", group, BACKLOG)


def in_turns(
    chosen: Sequence[Client], rate: Callable[[Client], float], rounds: int = ROUNDS
) -> dict[Client, float]:
    """Median of alternating rounds, so that a disturbance affects all sides."""
    rates: dict[Client, list[float]] = {client: [] for client in chosen}
    for _ in range(rounds):
        for client in chosen:
            rates[client].append(rate(client))
    return {client: statistics.median(found) for client, found in rates.items()}


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


def client_cpu() -> Iterator[Measured]:
    """Measure the CPU that our client takes for a message: sent by tasks and by `send_soon`, and pulled."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        home, namesrv = Path(folder), up["namesrv"]
        used: dict[str, list[float]] = {}
        for turn in range(ROUNDS):
            create(namesrv, topic := f"Cpu{turn}")
            for verb in ("send", "soon", "consume"):
                into = topic if verb != "soon" else "Soon"
                arguments = (verb, namesrv, into, "G_cpu", str(SENDS[64]), "p", "", str(IN_FLIGHT))
                said = OURS.lines(home, *arguments, str(BODY_BYTES), timeout=300)[-1]
                assert said["done"] == SENDS[64], said
                used.setdefault(verb, []).append(said["cpu"] / SENDS[64] * 1e6)
    median = {verb: statistics.median(found) for verb, found in used.items()}
    yield Measured("client's CPU, send, 64 in flight", median["send"], "µs")
    ratio = median["soon"] / median["send"]
    yield Measured("client's CPU, send_soon, 64 in flight", median["soon"], "µs", ratio, "tasks that send")
    yield Measured("client's CPU, pull", median["consume"], "µs")


TARGETS = {ALI_ONS: "at least 1", CPP1_CTYPES: "at least 2"}


def compared(name: str, rates: dict[Client, float]) -> Iterator[Measured]:
    for client, rate in rates.items():
        ratio, target = rates[OURS] / rate, TARGETS.get(client, "")
        yield Measured(f"{name}, {client.name}", rate, "msg/s", ratio, "ours to this one", target)


def create(namesrv: str, topic: str) -> None:
    rmq(namesrv, "topic", "create", topic, "--queues", "4")


def rmq(namesrv: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "rmqcli", *arguments, "-n", namesrv]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
