"""Repeated kill -9 on one store folder: acknowledged messages survive, and queues are whole. `--crash-rounds`
says how many kills there are of all kinds together.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from tests.crash.aims import Aim, AnyMoment, Deleting, Expiring, Rolling
from tests.crash.real_broker import Round, Settings, load, running, starting, stopped
from tests.crash.real_store import Acked, check_sound, check_store
from tests.crash.runner import Machine
from tests.support import PATIENCE


class Kind(NamedTuple):
    """Kills of one kind: `share` of 20."""

    aim: type[Aim]
    flush: str
    share: int
    most: int = 0
    """Acknowledgements of a round; 0 for those of the aim."""


KINDS = {
    "at any moment": Kind(AnyMoment, "ASYNC_FLUSH", 3),
    "at any moment, SYNC_FLUSH": Kind(AnyMoment, "SYNC_FLUSH", 3, 300),
    "files roll": Kind(Rolling, "ASYNC_FLUSH", 2),
    "files roll, SYNC_FLUSH": Kind(Rolling, "SYNC_FLUSH", 2, 100),
    "a topic is deleted": Kind(Deleting, "ASYNC_FLUSH", 2),
    "files are removed": Kind(Expiring, "ASYNC_FLUSH", 4),
}
STARTS = 4
"""The share of kills during a start."""
assert sum(kind.share for kind in KINDS.values()) + STARTS == 20


@pytest.mark.parametrize("name", KINDS)
def test_what_was_acknowledged_survives(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, show: Callable[[str], None]
) -> None:
    kind, acked, chance = KINDS[name], Acked(), random.Random(name)
    store = tmp_path / "store"
    machine = Machine(tmp_path / "machine")
    aim = kind.aim(store, acked, chance, machine)
    settings = {**aim.settings, "flushDiskType": kind.flush}
    rounds = max(2, request.config.getoption("--crash-rounds") * kind.share // 20)
    count = 0
    for number in range(rounds):
        with running(store, settings, machine) as round_:
            if number:
                aim.check()
            count += _loaded(round_, aim, number, chance.randint(aim.least, kind.most or aim.most))
    stopped(store, settings)
    aim.check()
    check_store(store, acked, expires=aim.expires)
    check_sound(store)
    show(f"{rounds} kills, {count} messages acknowledged, 0 lost{_figures(aim.counts)}")


def _loaded(round_: Round, aim: Aim, number: int, wanted: int) -> int:
    """Loads a broker and kills it. Returns the number of messages that were acknowledged."""
    before = len(aim.acked)

    async def end() -> None:
        await aim.take(round_)
        round_.process.kill()

    trio.run(load, round_.words["namesrv"], aim.acked, number, wanted, end)
    round_.process.wait(PATIENCE)
    return len(aim.acked) - before


def _figures(counts: Counter[str]) -> str:
    return "".join(f", {count} {what}" for what, count in sorted(counts.items()))


def test_a_start_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest, show: Callable[[str], None]
) -> None:
    """A broker that was killed under load is killed again while it starts and recovers, up to four times."""
    acked, chance, store = Acked(), random.Random(4713), tmp_path / "store"
    aim = Rolling(store, acked, chance, Machine(tmp_path / "machine"))
    rounds = request.config.getoption("--crash-rounds") * STARTS // 20
    counts: Counter[str] = Counter()
    while counts.total() < rounds:
        with running(store, aim.settings) as round_:
            _loaded(round_, aim, counts.total(), chance.randint(1, 1000))
        counts["under load"] += 1
        for _ in range(chance.randint(1, 4)):
            counts[_killed_in_start(store, aim.settings, chance.uniform(0.0, 0.06))] += 1
    stopped(store, aim.settings)
    check_store(store, acked)
    check_sound(store)
    show(f"{counts.total()} kills, {len(acked)} messages acknowledged, 0 lost{_figures(counts)}")


def _killed_in_start(store: Path, settings: Settings, seconds: float) -> str:
    """Kills a broker so long after it began to start. Returns when that was."""
    with starting(store, settings) as process:
        trio.run(trio.sleep, seconds)
        process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        return "after the start" if process.stdout.read() else "in the start"
