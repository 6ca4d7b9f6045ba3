"""Repeated kill -9 of a SYNC_MASTER or of its slave: what was acknowledged with SEND_OK is on the one that is left,
and readers continue there. `--crash-rounds` says how many kills there are, five to a kill here.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from rmqcli.client import ClientError, Producer, PullConsumer, SendStatus
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from tests.crash.real_store import check_sound
from tests.processes import Process, announced, ended, launched, running
from tests.support import PATIENCE

NAME, TOPIC = "broker-m", "Replicated"
SENDERS = 4
ROLES = {"master": ("brokerRole=SYNC_MASTER",), "slave": ("brokerRole=SLAVE", "brokerId=1")}
SETTINGS = (
    f"brokerName={NAME}",
    "vipChannelEnabled=false",
    "mappedFileSizeCommitLog=262144",
    "mappedFileSizeConsumeQueue=20000",
    "maxHashSlotNum=1000",
    "maxIndexNum=20000",
    "defaultTopicQueueNums=4",
)
Acked = dict[tuple[int, int], bytes]
"""Bodies by queue and queue offset."""


class Pair(NamedTuple):
    """A master and a slave that are killed and started again, each on a port of its own."""

    namesrv: str
    root: Path
    ports: dict[str, int]
    processes: dict[str, Process]

    def start(self, role: str) -> None:
        words = ["broker", "run", "--port", str(self.ports[role]), "--store", str(self.root / role)]
        for setting in (*SETTINGS, *ROLES[role]):
            words += ["--set", setting]
        self.processes[role] = launched([*words, "-n", self.namesrv])
        announced(self.processes[role])

    def kill(self, role: str) -> None:
        self.processes[role].kill()
        self.processes[role].wait(PATIENCE)


def two_free_ports() -> int:
    """A port that is free, as is the one behind it."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first, ExitStack() as held:
            port = int(first.getsockname()[1])
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port + 1)))
            except (OSError, OverflowError):
                continue
            return port


@contextmanager
def pair(root: Path) -> Iterator[Pair]:
    with running(["namesrv", "run", "--port", "0"]) as (_, words):
        ports = {role: two_free_ports() for role in ROLES}
        both = Pair(words["namesrv"], root, ports, {})
        try:
            for role in ROLES:
                both.start(role)
            yield both
        finally:
            for process in both.processes.values():
                with ended(process):
                    pass


async def sent_until(both: Pair, victim: str, wanted: int, number: int) -> Acked:
    """Sends until `wanted` messages are acknowledged by both, then kills one while others are under way."""
    acked: Acked = {}

    async def send(sender: int) -> None:
        async with Producer(namesrv=both.namesrv, send_timeout=5.0, retries=0) as producer:
            for count in range(100_000):
                body = f"{number}-{sender}-{count}".encode().ljust(300, b".")
                try:
                    result = await producer.send(Message.of(TOPIC, body))
                except ClientError:
                    if len(acked) < wanted:
                        await trio.sleep(0.1)  # the broker was started just now
                        continue
                    return
                if result.status is SendStatus.SEND_OK:
                    acked[result.message_queue.queue_id, result.queue_offset] = body
                if len(acked) >= wanted:
                    nursery.cancel_scope.deadline = min(
                        nursery.cancel_scope.deadline, trio.current_time() + 0.2
                    )
                    both.processes[victim].kill()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for sender in range(SENDERS):
                nursery.start_soon(send, sender)
    return acked


async def missing(both: Pair, acked: Acked) -> list[tuple[int, int]]:
    """The messages that the one that is left does not have."""
    lost = []
    async with PullConsumer("Readers", namesrv=both.namesrv) as consumer:
        for queue_id in {queue_id for queue_id, _ in acked}:
            wanted = {offset: body for (queue, offset), body in acked.items() if queue == queue_id}
            found: dict[int, bytes] = {}
            position = min(wanted)
            with trio.move_on_after(PATIENCE):
                while position <= max(wanted):
                    try:
                        result = await consumer.pull(MessageQueue(TOPIC, NAME, queue_id), position, timeout=3)
                    except ClientError:
                        await trio.sleep(0.2)  # the topic is copied within 10 s, the route changes soon
                        continue
                    found |= {message.queue_offset: message.body for message in result.messages}
                    if not result.messages:
                        break
                    position = result.next_begin_offset
            lost += [(queue_id, offset) for offset, body in wanted.items() if found.get(offset) != body]
    return lost


def test_what_a_slave_confirmed_is_on_the_one_that_is_left(
    tmp_path: Path, request: pytest.FixtureRequest, show: Callable[[str], None]
) -> None:
    chance = random.Random("replication")
    rounds = max(2, request.config.getoption("--crash-rounds") // 5)
    count, kills = 0, {"master": 0, "slave": 0}
    with pair(tmp_path) as both:
        victims = ["slave", "master"]
        for number in range(rounds):
            victim = victims[number] if number < len(victims) else chance.choice(list(ROLES))
            acked = trio.run(sent_until, both, victim, chance.randint(20, 200), number)
            both.processes[victim].wait(PATIENCE)
            assert trio.run(missing, both, acked) == [], f"round {number}, {victim} killed"
            count += len(acked)
            kills[victim] += 1
            both.start(victim)
        for role in ROLES:
            both.processes[role].terminate()
            assert both.processes[role].wait(PATIENCE) == 0
    for role in ROLES:
        check_sound(tmp_path / role)
    show(f"kills {kills}, {count} messages acknowledged by both, 0 lost")
