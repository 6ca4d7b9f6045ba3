"""One seed of the programme: a session, a power cut or kill, a recovery, a second session and its end, a
second recovery, and a broker that finishes what is due. The image of the store is checked after each.

    .venv/bin/python -m tests.crash.programme SEED…

replays seeds and tells how each went.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
import trio
import trio.testing

from rmqcli.broker.config import checks
from rmqcli.broker.store import retention
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.power_cut import Journal
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.verify.store import verify_store
from tests.crash.check import check, check_done
from tests.crash.clients import Clients
from tests.crash.image import Image
from tests.crash.model import Model
from tests.crash.plan import DAY_S, QUEUE_FILES, Clock, Fault, Plan, image_of
from tests.crash.retention import FILLING, FORCING, KINDS, ROOMY, Causes, draw_settings
from tests.crash.script import Session
from tests.scheduling import seed_scheduler

REPLAY = ".venv/bin/python -m tests.crash.programme"
ENDS = 2
TIMERS_EVERY = 7
"""The seeds that are multiples of this number send timer messages."""
"""Power cuts and kills of one seed."""
FIRST_RETENTION_S = 0.5
"""Seconds from a start to the first look for files to remove, which are a minute else."""
LEAVING_ROOM = (ROOMY, ROOMY, FILLING, FORCING)
"""Uses of the disk with which messages are accepted."""
PAGES = (None, SimulatedDisk.forget_pages, SimulatedDisk.make_sparse)
"""What becomes of pages between an end and the next start: nothing, none is in the page cache, or each page of
zeros, of any file, is a hole."""
IDLE_S = 25
"""Long enough for the longest delay, and for all checks of a half message."""


class Programme:
    """The course of one seed. `counts` are what it has met, `image` is the last that was checked."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self._folder = folder
        self.clock = Clock()
        kinds = self._rng.choice(KINDS)
        self.causes = Causes(self.clock, kinds, draw_settings(self._rng, kinds))
        self.model = Model(self.clock.span_ms, self.causes.names, self.causes.forces_since)
        # The wheel has 38 MB, which are copied for each check.
        self.model.has_timers = seed % TIMERS_EVERY == 0
        self._settings = {"mapped_file_size_consume_queue": self._rng.choice(QUEUE_FILES)}
        self._images = 0
        self.image = Image({})

    def sessions(self) -> Iterator[tuple[Plan, Fault | None]]:
        for _ in range(ENDS):
            yield Plan.draw(self._rng), None

    async def run(self) -> None:
        disk = SimulatedDisk(self._rng.getrandbits(32), now_ms=self.clock)
        chance = random.Random(self.seed)
        for plan, fault in self.sessions():
            session = self._session(disk, plan, fault)
            await session.run()
            assert session.after is not None
            self._count(session)
            disk = session.after
            lose = chance.choice(PAGES)
            if lose is not None:
                lose(disk)
                self.counts[f"starts after {lose.__name__}"] += 1
        last = self._session(disk, Plan(1, 0, 0, None))
        if "disk" in self.causes.kinds:
            last.fill(self._rng.choice(LEAVING_ROOM))
        await last.live(self._finish)
        self.image = image_of(disk.contents())
        check(self.model, self.image)
        check_done(self.model, self.image)
        self._verify(self.image)
        self._count_removals(self.image)
        self.counts["messages"] += len(self.model.messages)
        self.counts["timer messages"] += sum(sent.delay_s > 0 for sent in self.model.messages.values())
        self.counts["messages sent back"] += len(self.model.backs)
        self.counts["logs without their first file"] += self.image.start > 0
        self.counts["queues in several files"] += self.image.rolled

    def _session(self, disk: SimulatedDisk, plan: Plan, fault: Fault | None = None) -> Session:
        session = Session(self.model, disk, self.clock, self._rng, plan, self.causes, fault, self._settings)
        session.opened = self._recovered
        return session

    def _count(self, session: Session) -> None:
        journal, fault = session.plan.journal, session.fault
        self.counts["kills" if journal is None else f"cuts ({journal.value})"] += 1
        self.counts["ends before the first request"] += session.requests == 0
        self.counts["refused calls"] += fault is not None and session.calls >= fault.call
        self.counts["refused starts"] += session.refused_starts

    async def _finish(self, clients: Clients) -> None:
        await clients.heartbeat()
        self.clock.jump(10 * DAY_S)
        await trio.sleep(IDLE_S)

    def _recovered(self, session: Session) -> None:
        image = image_of(session.disk.contents())
        check(self.model, image, is_indexed=not session.had_no_room)
        self._verify(image)
        self._count_removals(image)
        self.model.settle(image, trio.current_time())
        self.causes.settle(trio.current_time())

    def _count_removals(self, image: Image) -> None:
        if image.start > self.model.start:
            causes = self.causes.names()
            self.counts[f"removals: {causes[0] if len(causes) == 1 else 'several causes'}"] += 1

    def _verify(self, image: Image) -> None:
        """`rmq inspect verify` agrees."""
        root = self._folder / str(self._images)
        self._images += 1
        for path, content in image.content.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        report = verify_store(StoreFolder(root))
        assert report.sound, f"verify: {report.findings[0]}"
        shutil.rmtree(root)


class Faulty(Programme):
    """One in which the disk refuses one call of a session: of the first, or the second, which recovers."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        fault: Fault,
        *,
        sync: bool,
        journal: Journal | None,
        in_second: bool = False,
    ) -> None:
        super().__init__(seed, folder)
        self._faults = (None, fault) if in_second else (fault, None)
        self._plans = Plan(2 - in_second, 8, 0, journal, sync), Plan(1 + in_second, 4, 0, Journal.NONE, sync)

    def sessions(self) -> Iterator[tuple[Plan, Fault | None]]:
        return zip(self._plans, self._faults, strict=True)


class Seeded(Protocol):
    """A course that a seed determines."""

    seed: int
    counts: Counter[str]

    async def run(self) -> None:
        """Runs it. AssertionError tells what a checker found."""


def run(programme: Seeded) -> Counter[str]:
    """Runs a programme, the same on every machine. AssertionError tells what a checker found."""
    with pytest.MonkeyPatch.context() as patched:
        seed_scheduler(patched, programme.seed)
        patched.setattr(retention, "FIRST_RUN_S", FIRST_RETENTION_S)
        patched.delitem(checks._BROKER_VALUES, "mapped_file_size_consume_queue")  # so that they roll soon
        trio.run(programme.run, clock=trio.testing.MockClock(autojump_threshold=0))
    return programme.counts


def main() -> None:
    for text in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            print(text, dict(run(Programme(int(text), Path(folder)))))


if __name__ == "__main__":
    main()
