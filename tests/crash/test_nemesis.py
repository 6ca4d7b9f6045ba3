"""What is done to a real broker beside kills: it stands still, its clock is set, it has no descriptors, its disk is
full. Acknowledged messages survive, nothing is stored twice, and it serves again when it can. A twentieth of
`--crash-rounds` of each.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from rmqcli.client import PullConsumer, PullStatus
from tests.broker.store.full_tmpfs import fill
from tests.crash.aims import until
from tests.crash.real_broker import SMALL_FILES, Round, Settings, load, running, starting, stopped
from tests.crash.real_store import TOPIC, Acked, check_sound, check_store
from tests.crash.runner import Machine
from tests.support import PATIENCE, sparse_copy

HOUR_S, DAY_S = 3600, 86400
JUMPS_S = (HOUR_S, -HOUR_S, DAY_S, -DAY_S)
SOME = 30
"""Messages that show that a broker serves."""
STANDSTILL_S = 0.5
"""As long as the producers wait then, and once more as long at most."""
REFUSING_S = 0.3
LARGE = 20_000
"""The length of the largest body where files are to end with unused pages."""
SMALL_DISK = "size=48m"
"""More than the broker keeps free, and little more than the messages of the test."""

Trouble = Callable[[Round], Awaitable[None]]


class Nemesis:
    """Broker after broker on one store, each under load, in trouble, and killed."""

    def __init__(self, store: Path, settings: Settings, machine: Machine | None = None) -> None:
        self.store = store
        self.settings = settings
        self.machine = machine
        self.acked = Acked()
        self.chance = random.Random(4714)
        self.failed: Counter[str] = Counter()
        """Sends without a reply or with a refusal, by error."""
        self.rounds = 0

    def meet(self, trouble: Trouble, *, send_timeout: float = 2.0, most: int = 700) -> None:
        """One broker."""
        with running(self.store, self.settings, self.machine) as round_:

            async def end() -> None:
                await trouble(round_)
                round_.process.kill()

            wanted = self.chance.randint(1, 300)
            loading = partial(load, send_timeout=send_timeout, failed=self.failed, most=most)
            trio.run(loading, round_.words["namesrv"], self.acked, self.rounds, wanted, end)
            round_.process.wait(PATIENCE)
        self.rounds += 1

    async def served(self, count: int = SOME) -> None:
        """Waits until that many more messages are acknowledged."""
        wanted = len(self.acked) + count
        await until(lambda: len(self.acked) >= wanted)

    async def failing(self) -> None:
        """Waits until a send fails."""
        before = self.failed.total()
        await until(lambda: self.failed.total() > before)

    def check(self) -> str:
        """Checks the store that the next broker recovers; returns the figures."""
        stopped(self.store, self.settings)
        check_store(self.store, self.acked)
        check_sound(self.store)
        errors = "".join(f", {count} times {name}" for name, count in sorted(self.failed.items()))
        return f"{self.rounds} times, {len(self.acked)} messages acknowledged, 0 lost{errors}"


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    return max(1, int(request.config.getoption("--crash-rounds")) // 20)


def test_a_broker_that_stands_still(tmp_path: Path, rounds: int, show: Callable[[str], None]) -> None:
    """Its clients time out, and do not know what became of their messages; its clock goes on meanwhile."""
    machine = Machine(tmp_path / "machine")
    nemesis = Nemesis(tmp_path / "store", SMALL_FILES, machine)
    wrong = 0

    async def stand_still(round_: Round) -> None:
        nonlocal wrong
        round_.process.send_signal(signal.SIGSTOP)
        await nemesis.failing()
        await trio.sleep(nemesis.chance.uniform(0.0, STANDSTILL_S))
        wrong += nemesis.chance.choice((0, 10, 60, HOUR_S))
        machine.set_clock(wrong)
        round_.process.send_signal(signal.SIGCONT)
        await nemesis.served()

    for number in range(rounds):
        nemesis.settings = {**SMALL_FILES, "flushDiskType": ("SYNC_FLUSH", "ASYNC_FLUSH")[number % 2]}
        nemesis.meet(stand_still, send_timeout=STANDSTILL_S)
    show(nemesis.check())


def test_a_clock_that_is_set(tmp_path: Path, rounds: int, show: Callable[[str], None]) -> None:
    """By ±1 h and ±1 d, while the broker runs and between its runs."""
    machine = Machine(tmp_path / "machine")
    # In many rounds the clock comes so far ahead that files are as old as they may become.
    nemesis = Nemesis(tmp_path / "store", {**SMALL_FILES, "fileReservedTime": 10_000}, machine)
    wrong = 0

    def jump() -> None:
        nonlocal wrong
        wrong += nemesis.chance.choice(JUMPS_S)
        machine.set_clock(wrong)

    async def set_it(_: Round) -> None:
        for _jump in range(nemesis.chance.randint(1, 4)):
            jump()
            await nemesis.served()

    for _ in range(rounds):
        nemesis.meet(set_it)
        jump()
    show(nemesis.check())


def test_no_descriptors(tmp_path: Path, rounds: int, show: Callable[[str], None]) -> None:
    """Files roll, flushes open files and clients connect while there are none."""
    nemesis = Nemesis(tmp_path / "store", SMALL_FILES)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def take_them(round_: Round) -> None:
        resource.prlimit(round_.process.pid, resource.RLIMIT_NOFILE, (3, hard))
        with trio.move_on_after(REFUSING_S) as scope:
            await _pulled(round_)
        assert scope.cancelled_caught, "no connection can be accepted"
        resource.prlimit(round_.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        await nemesis.served(SOME * 10)
        assert await _pulled(round_) is PullStatus.FOUND

    for number in range(rounds):
        nemesis.settings = {**SMALL_FILES, "flushDiskType": ("SYNC_FLUSH", "ASYNC_FLUSH")[number % 2]}
        nemesis.meet(take_them)
    show(nemesis.check())


async def _pulled(round_: Round) -> PullStatus:
    """Pulls by a connection of its own."""
    async with PullConsumer("reader", namesrv=round_.words["namesrv"]) as consumer:
        queues = await consumer.message_queues(TOPIC)
        found = [await consumer.pull(queue, 0) for queue in queues]
        return min((one.status for one in found), key=lambda status: status is not PullStatus.FOUND)


def _forget_pages(folder: Path) -> None:
    """Has the page cache drop every file of a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def _nothing(_: Round) -> None:
    """The broker is killed, and no more."""


def test_cold_and_sparse_files(tmp_path: Path, rounds: int, show: Callable[[str], None]) -> None:
    """The pages of a killed broker's files leave the cache, or its folder is copied with holes; a clean stop follows.

    Messages are so large that log files end with pages that nothing is written to.
    """
    nemesis = Nemesis(tmp_path / "store", {**SMALL_FILES, "maxMessageSize": LARGE})
    for _ in range(rounds):
        nemesis.meet(_nothing, most=LARGE)
        _forget_pages(nemesis.store)
        nemesis.meet(_nothing, most=LARGE)
        nemesis.store = sparse_copy(nemesis.store, tmp_path / str(nemesis.rounds))
        stopped(nemesis.store, nemesis.settings)
        _forget_pages(nemesis.store)
    show(nemesis.check())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "mounted"
    folder.mkdir()
    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("needs root to mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", SMALL_DISK, "none", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk(small_disk: Path, rounds: int, show: Callable[[str], None]) -> None:
    """Another program takes all the room there is: the broker refuses messages, serves readers, and lives.

    The next one starts on the full disk, or says in one line why not.
    """
    nemesis, ballast = Nemesis(small_disk / "store", SMALL_FILES), small_disk / "ballast"
    refused = 0

    async def fill_it(round_: Round) -> None:
        fill(ballast)
        await nemesis.failing()
        assert await _pulled(round_) is PullStatus.FOUND
        assert round_.process.poll() is None

    for _ in range(rounds):
        nemesis.meet(fill_it)
        with starting(nemesis.store, nemesis.settings) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                refused += 1
                assert process.wait(PATIENCE) > 0, "a signal has ended it"
        ballast.unlink()
    show(f"{nemesis.check()}, {refused} starts refused")
