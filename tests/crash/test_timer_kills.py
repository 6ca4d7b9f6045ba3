"""Repeated kill -9 of a broker with timer messages: what was acknowledged is delivered, never early, and twice only if
it was delivered just before a kill. `--crash-rounds` says how many kills there are.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rmqcli.client import Admin, ClientError, Message, Producer, SendStatus
from rmqcli.codec.records.reading import decode_record
from rmqcli.store.read.commit_log import CommitLogFiles
from tests.crash.real_broker import PRODUCERS, Settings, running
from tests.crash.real_store import check_sound
from tests.support import PATIENCE

TOPIC = "Later"
LONGEST_S = 8.0
"""The longest delay, over which a broker is killed several times."""
REPEATED_MS = 3000
"""What was delivered so long before a kill may be delivered again: two saves, each of which may take a while."""
SETTINGS: Settings = {"mappedFileSizeTimerLog": 5200, "mappedFileSizeCommitLog": 4 << 20}


class Pending:
    """What was sent: the earliest time of delivery (ms) of each body, and whether it was acknowledged."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.due: dict[str, int] = {}
        self.acknowledged: set[str] = set()
        self.kills: list[int] = []

    async def send(self, namesrv: str, round_: int, seconds: float) -> None:
        """Send from four producers for a time."""
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for number in range(PRODUCERS):
                    nursery.start_soon(self._produce, namesrv, f"{round_}-{number}")

    async def _produce(self, namesrv: str, name: str) -> None:
        async with Producer(f"crash-{name}", namesrv=namesrv, retries=0, send_timeout=2.0) as producer:
            for number in range(10_000):
                body, delay = f"{name}-{number}", self.chance.uniform(0.2, LONGEST_S)
                self.due[body] = int((time.time() + delay) * 1000)
                try:
                    result = await producer.send(Message.of(TOPIC, body, delay=delay))
                except ClientError:
                    continue
                if result.status is SendStatus.SEND_OK:
                    self.acknowledged.add(body)


def delivered(store: Path) -> dict[str, list[int]]:
    """Return the store times of each body in the topic."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, data in CommitLogFiles(store).records():
        message = decode_record(data, place.position)
        if message.topic == TOPIC:
            found[message.body.decode()].append(message.store_timestamp)
    return found


async def _drained(namesrv: str) -> None:
    async with Admin(namesrv=namesrv) as admin:
        (address,) = (await admin.brokers.seats()).values()
        while (await admin.brokers.runtime_info(address))["timerCongestNum"] != "0":  # noqa: ASYNC110
            await trio.sleep(0.2)


def test_timers_survive_kills(
    tmp_path: Path, request: pytest.FixtureRequest, show: Callable[[str], None]
) -> None:
    store, sent = tmp_path / "store", Pending(random.Random(4711))
    rounds = request.config.getoption("--crash-rounds")
    for number in range(rounds):
        with running(store, SETTINGS) as (process, words):
            trio.run(sent.send, words["namesrv"], number, sent.chance.uniform(0.2, 1.5))
            process.kill()
            process.wait(PATIENCE)
            sent.kills.append(time.time_ns() // 1_000_000)
    with running(store, SETTINGS) as (process, words):
        trio.run(_drained, words["namesrv"])
        process.terminate()
        assert process.wait(PATIENCE) == 0
    check_sound(store)
    found = delivered(store)
    assert sent.acknowledged - found.keys() == set()
    assert found.keys() <= sent.due.keys()
    assert [body for body, times in found.items() if min(times) < sent.due[body]] == []
    repeated = {body: times for body, times in found.items() if len(times) > 1}
    for body, times in repeated.items():
        for before in times[:-1]:
            assert any(0 <= kill - before < REPEATED_MS for kill in sent.kills), (
                f"{body} is repeated: {times}"
            )
    show(
        f"{rounds} kills, {len(sent.acknowledged)} timer messages acknowledged, 0 lost, 0 early, "
        f"{len(repeated)} repeated"
    )
