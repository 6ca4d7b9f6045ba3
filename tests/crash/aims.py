"""What a broker is doing when it is killed, and what its store must hold then beside the messages."""

from __future__ import annotations

import itertools
import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import trio

from rmqcli.client import Admin, ClientError, Producer, SendStatus
from rmqcli.codec.headers.topics import DeleteTopicRequestHeader
from rmqcli.codec.message import Message
from rmqcli.codec.operations.brokers import DELETE_EXPIRED_COMMITLOG
from rmqcli.codec.operations.topics import DELETE_TOPIC_IN_BROKER
from tests.crash.real_broker import SMALL_FILES, Round, Settings
from tests.crash.real_store import Acked, log_start, queue_entries
from tests.crash.runner import ROOMY, Machine

SHORT_LIVED = "ShortLived"
POLL = 0.0002
LONGEST_REMOVAL = 0.5
"""Seconds after which the broker is killed whether or not it has removed anything."""


HOUR_S = 3600
HOURS_TO_GO = 12
"""From the start of the test to the hour of `deleteWhen`."""
FILLING, FORCING = 76, 86
"""Percent of the disk in use: enough for expired files to go, and for any."""
REQUEST = "request"
CAUSES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        REQUEST: (2, ROOMY),
        "the hour": (HOURS_TO_GO, ROOMY),
        "a disk that fills": (2, FILLING),
        "a full disk": (0, FORCING),
    }
)
"""What has files removed → hours by which the clock is ahead, percent of the disk in use."""


async def until(is_so: Callable[[], bool]) -> None:
    """Waits for what another process does."""
    while not is_so():  # noqa: ASYNC110  nothing tells of it
        await trio.sleep(POLL)


class Aim(ABC):
    """One kind of kill. `counts` are what it has met."""

    settings: Settings = SMALL_FILES
    least = 1
    most = 300
    """Acknowledgements of a round before it aims."""
    expires = False
    """Log files may be removed."""

    def __init__(self, store: Path, acked: Acked, chance: random.Random, machine: Machine) -> None:
        self.store = store
        self.acked = acked
        self.chance = chance
        self.machine = machine
        self.counts: Counter[str] = Counter()

    @abstractmethod
    async def take(self, round_: Round) -> None:
        """Returns when the broker is to be killed."""

    @abstractmethod
    def check(self) -> None:
        """Checks what the next broker has recovered."""

    async def in_the_midst(self, path: Path) -> None:
        """Waits some time for a removal that begins, or until a file or folder is gone, and then a little."""
        if self.chance.random() < 0.3:
            await trio.sleep(self.chance.uniform(0.0, 0.02))
            return
        with trio.move_on_after(LONGEST_REMOVAL):
            await until(lambda: not path.exists())
        await trio.sleep(self.chance.choice((0.0, 0.001, 0.01)))


class AnyMoment(Aim):
    """The broker is under load."""

    settings: Settings = MappingProxyType({})
    most = 3000

    async def take(self, round_: Round) -> None:
        await trio.sleep(self.chance.uniform(0.0, 0.1))

    def check(self) -> None:
        """The messages are all there is."""


class Rolling(Aim):
    """A file of the log is nearly full, or the next one has just been made."""

    async def take(self, round_: Round) -> None:
        if self.chance.random() < 0.5:
            await self._nearly_full(self.chance.randrange(3000))
        else:
            await self._next_file()
            await trio.sleep(self.chance.uniform(0.0, 0.003))

    async def _nearly_full(self, left: int) -> None:
        size = self.settings["mappedFileSizeCommitLog"]
        assert isinstance(size, int)
        await until(lambda: -next(reversed(self.acked.values())).offset % size <= left)

    async def _next_file(self) -> None:
        before = self._files()
        await until(lambda: self._files() > before)

    def _files(self) -> int:
        return len(list((self.store / "commitlog").iterdir()))

    def check(self) -> None:
        """The messages are all there is."""


class Deleting(Aim):
    """A topic is deleted."""

    count = 0
    """Messages of the topic that were acknowledged and not deleted."""
    is_answered = False

    async def take(self, round_: Round) -> None:
        async with Producer("deleting", namesrv=round_.words["namesrv"], retries=0) as producer:
            for number in range(self.chance.randint(1, 40)):
                message = Message.of(SHORT_LIVED, str(number), keys=[str(number)])
                assert (await producer.send(message)).status is SendStatus.SEND_OK
                self.count += 1
        async with Admin(namesrv=round_.words["namesrv"]) as admin, trio.open_nursery() as nursery:
            nursery.start_soon(self._delete, admin, round_.words["broker"])
            await self.in_the_midst(self.store / "consumequeue" / SHORT_LIVED)
            round_.process.kill()
            nursery.cancel_scope.cancel()

    async def _delete(self, admin: Admin, broker: str) -> None:
        header = DeleteTopicRequestHeader(topic=SHORT_LIVED)
        try:
            await admin.instance.ask(broker, DELETE_TOPIC_IN_BROKER, header, None)
        except ClientError:
            return
        self.is_answered = True

    def check(self) -> None:
        """The deletion has succeeded, as it must if it was answered, or nothing is deleted."""
        folder = self.store / "consumequeue" / SHORT_LIVED
        queues = [int(path.name) for path in folder.iterdir()] if folder.exists() else []
        left = sum(len(queue_entries(self.store, SHORT_LIVED, queue)) for queue in queues)
        assert left in ({0} if self.is_answered else {0, self.count}), f"{left} of {self.count} are left"
        kind = "answered" if self.is_answered else "kept" if left else "deleted"
        self.counts[f"deletions {kind}"] += self.count > 0
        self.count, self.is_answered = left, False


class Expiring(Aim):
    """Old log files are removed, for one cause after the other."""

    settings: Settings = MappingProxyType(
        {
            **SMALL_FILES,
            "fileReservedTime": 1,
            "deleteWhen": f"{(time.localtime().tm_hour + HOURS_TO_GO) % 24:02d}",
            "cleanResourceInterval": 20,
        }
    )
    least = 300
    most = 1000
    expires = True
    begin = 0

    def __init__(self, store: Path, acked: Acked, chance: random.Random, machine: Machine) -> None:
        super().__init__(store, acked, chance, machine)
        self._causes = itertools.cycle(CAUSES)
        self.cause = ""

    async def take(self, round_: Round) -> None:
        self.cause = next(self._causes)
        first = min((self.store / "commitlog").iterdir())
        assert int(first.name) == self.begin, "files were removed without a cause"
        async with Admin(namesrv=round_.words["namesrv"]) as admin, trio.open_nursery() as nursery:
            hours, percent = CAUSES[self.cause]
            self.machine.set_clock(hours * HOUR_S)
            self.machine.fill(percent)
            if self.cause == REQUEST:
                nursery.start_soon(self._request, admin, round_.words["broker"])
            await self.in_the_midst(first)
            round_.process.kill()
            nursery.cancel_scope.cancel()
        self.machine.set_clock(0)
        self.machine.fill(ROOMY)

    async def _request(self, admin: Admin, broker: str) -> None:
        try:
            await admin.instance.ask(broker, DELETE_EXPIRED_COMMITLOG, None, None)
        except ClientError:
            return
        self.counts["removals answered"] += 1

    def check(self) -> None:
        """The log begins with a file, no later than the newest message."""
        begin = log_start(self.store)
        assert begin >= self.begin
        assert not self.acked or begin <= next(reversed(self.acked.values())).offset
        self.counts[f"removals begun by {self.cause}"] += begin > self.begin
        self.begin = begin
