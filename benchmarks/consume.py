"""Push consumption, and latency from send to listener: our client, ali-ons and the C++ client 1.x.

Bodies of 1 KB.

Every client is a process of its own, with one broker in one run; rounds alternate, and the median counts. A
backlog is timed from its first message to its last, also by our raw pulls. For latency, our producer sends a
message every 5 ms, timed from before the send to inside the listener, in epoch milliseconds of both
processes.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import trio

from benchmarks.clients import BACKLOG, OTHERS, OURS, TARGETS, consumed, create, in_turns, rate_of, rmq
from benchmarks.harness import Measured, cluster
from rmqcli.client import Producer
from rmqcli.codec.message import Message
from tests.foreign.install import Client, install_cpp1, install_node

PULLS = Client("ours-raw-pulls", OURS.command)
LATE = 400
PACE = 0.005
QUEUES = 4
ROUNDS = 3


def consume() -> Iterator[Measured]:
    """Consumption of a backlog by push and by raw pulls, and latency."""
    install_node()
    install_cpp1()
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        home, namesrv = Path(folder), up["namesrv"]
        yield from _backlog(home, namesrv)
        yield from _latency(home, namesrv)


def _backlog(home: Path, namesrv: str) -> Iterator[Measured]:
    create(namesrv, "Backlog")
    rate_of(OURS, home, "send", namesrv, "Backlog", "G_fill", BACKLOG, 64)
    chosen = (PULLS, OURS, *OTHERS)
    rates = in_turns(
        chosen,
        lambda client: consumed(home, namesrv, client, "push" if client is OURS else "consume"),
        ROUNDS,
    )
    pulled, pushed = rates[PULLS], rates[OURS]
    yield Measured("backlog, raw pulls, ours", pulled, "msg/s")
    yield Measured("backlog, push, ours", pushed, "msg/s", pushed / pulled, "raw pulls")
    for client in OTHERS:
        ratio = pushed / rates[client]
        name = f"backlog, push, {client.name}"
        yield Measured(name, rates[client], "msg/s", ratio, "ours to this one", TARGETS[client])


def _latency(home: Path, namesrv: str) -> Iterator[Measured]:
    chosen = (OURS, *OTHERS)
    found: dict[Client, list[tuple[float, float]]] = {client: [] for client in chosen}
    for turn in range(ROUNDS):
        for client in chosen:
            found[client].append(_late(home, namesrv, client, turn))
    for place, name in enumerate(("median", "p99")):
        middle = {client: statistics.median(both[place] for both in found[client]) for client in chosen}
        for client in chosen:
            ratio = middle[OURS] / middle[client]
            yield Measured(
                f"send to listener, {name}, {client.name}", middle[client], "ms", ratio, "ours to this one"
            )


def _late(home: Path, namesrv: str, client: Client, turn: int) -> tuple[float, float]:
    """Median and 99th percentile in ms."""
    topic = f"Late_{client.name.replace('.', '_')}_{turn}"
    verb = "push" if client is OURS else "consume"
    create(namesrv, topic)
    rmq(namesrv, "offsets", "reset", f"G_{topic}", topic, "--to", "start", "--yes")
    said = home / f"{topic}.said"  # not a pipe, which nobody would read during the sends
    arguments = (verb, namesrv, topic, f"G_{topic}", str(LATE + QUEUES), "p", "say")
    with said.open("w") as out:
        consumer = client.start(home, *arguments, stdout=out)
    # First one message per queue: a new consumer has no queues yet.
    trio.run(_send_paced, namesrv, topic, QUEUES)
    while said.read_text().count('"body"') < QUEUES:
        time.sleep(0.05)
    trio.run(_send_paced, namesrv, topic, LATE)
    assert consumer.wait(60) == 0
    lines = [json.loads(line) for line in said.read_text().splitlines() if '"body"' in line][QUEUES:]
    late = sorted(line["at"] - float(line["body"].split()[0]) for line in lines)
    return statistics.median(late), late[len(late) * 99 // 100 - 1]


async def _send_paced(namesrv: str, topic: str, count: int) -> None:
    padding = " " + "x" * 1000
    async with Producer("G_paced", namesrv=namesrv) as producer:
        for _ in range(count):
            await producer.send(Message.of(topic, f"{time.time() * 1000}{padding}".encode()))
            await trio.sleep(PACE)
