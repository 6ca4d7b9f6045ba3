"""Push consumption, and the way from a send to a listener: our PushConsumer beside ali-ons and the C++ client 1.x, bodies of 1 KB.

Every client is a process of its own, on one broker in one run. A backlog is timed from its first message to its last, also by
raw pulls of ours. Latency: messages are sent one every 5 ms by our producer; what is timed is from before the send to inside
the listener.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import trio

from benchmarks.clients import ALI_ONS, CPP1_CTYPES, OURS, Client, compared, create, rate_of, rmq
from benchmarks.harness import Measured, cluster
from codec.message import Message
from rmqcli.client import Producer
from tests.foreign.install import install_cpp1, install_node

BACKLOG = 40_000
SENDS = {1: 4_000, 16: 20_000, 64: 20_000}
LATE = 400
PACE = 0.005
QUEUES = 4

OTHERS = (ALI_ONS, CPP1_CTYPES)


def consume() -> Iterator[Measured]:
    """Backlog by push and by raw pulls, sends with 1, 16 and 64 in flight, and latency."""
    install_node()
    install_cpp1()
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        home, namesrv = Path(folder), up["namesrv"]
        yield from _sends(home, namesrv)
        yield from _backlog(home, namesrv)
        for client in (OURS, *OTHERS):
            yield from _latency(home, namesrv, client)


def _sends(home: Path, namesrv: str) -> Iterator[Measured]:
    for in_flight, count in SENDS.items():
        # The C++ client's driver sends one at a time only.
        chosen = (OURS, *OTHERS) if in_flight == 1 else (OURS, ALI_ONS)
        rates = {}
        for number, client in enumerate(chosen):
            topic = f"Sent{in_flight}_{number}"
            create(namesrv, topic)
            rates[client] = rate_of(client, home, "send", namesrv, topic, "G_send", count, in_flight)
        yield from compared(f"send, {in_flight} in flight", rates)


def _backlog(home: Path, namesrv: str) -> Iterator[Measured]:
    create(namesrv, "Backlog")
    rate_of(OURS, home, "send", namesrv, "Backlog", "G_fill", BACKLOG, 64)

    def rate(client: Client, verb: str) -> float:
        group = f"G_{verb}_{client.name.replace('.', '_')}"
        rmq(namesrv, "offsets", "reset", "-g", group, "-t", "Backlog", "--to", "start", "--yes")
        return rate_of(client, home, verb, namesrv, "Backlog", group, BACKLOG)

    pulled = rate(OURS, "consume")
    pushed = rate(OURS, "push")
    yield Measured("backlog, raw pulls, ours", pulled, "msg/s")
    yield Measured("backlog, push, ours", pushed, "msg/s", pushed / pulled, "raw pulls")
    for client, target in zip(OTHERS, ("at least 1", "at least 2"), strict=True):
        other = rate(client, "consume")
        yield Measured(
            f"backlog, push, {client.name}", other, "msg/s", pushed / other, "ours to this one", target
        )


def _latency(home: Path, namesrv: str, client: Client) -> Iterator[Measured]:
    topic, verb = f"Late_{client.name.replace('.', '_')}", "push" if client is OURS else "consume"
    create(namesrv, topic)
    rmq(namesrv, "offsets", "reset", "-g", f"G_{topic}", "-t", topic, "--to", "start", "--yes")
    said = home / f"{topic}.said"  # a file, not a pipe: nobody reads while messages are sent
    arguments = (verb, namesrv, topic, f"G_{topic}", str(LATE + QUEUES), "p", "say")
    with said.open("w") as out:
        consumer = client.start(home, *arguments, stdout=out)
    # One message of each queue first: a consumer that starts has no queues yet.
    trio.run(_send_paced, namesrv, topic, QUEUES)
    while said.read_text().count('"body"') < QUEUES:
        time.sleep(0.05)
    trio.run(_send_paced, namesrv, topic, LATE)
    assert consumer.wait(60) == 0
    lines = [json.loads(line) for line in said.read_text().splitlines() if '"body"' in line][QUEUES:]
    late = sorted(line["at"] - float(line["body"].split()[0]) for line in lines)
    yield Measured(f"send to listener, median, {client.name}", statistics.median(late), "ms")
    yield Measured(f"send to listener, p99, {client.name}", late[len(late) * 99 // 100 - 1], "ms")


async def _send_paced(namesrv: str, topic: str, count: int) -> None:
    padding = " " + "x" * 1000
    async with Producer("G_paced", namesrv=namesrv) as producer:
        for _ in range(count):
            await producer.send(Message.of(topic, f"{time.time() * 1000}{padding}".encode()))
            await trio.sleep(PACE)
