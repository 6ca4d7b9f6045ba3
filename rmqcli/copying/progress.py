"""The progress of a copy: one small file, replaced as a whole.

It may be older than the copies: at and after the offset `floor` of each queue of the target are all copies of
messages that `next` does not cover. A run that continues reads the target from there, identifies by their
marks the messages that a killed run had sent, and does not send them again.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from rmqcli.client.wire.addresses import name_servers
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.copying.errors import ProgressError
from rmqcli.files import replacing
from rmqcli.state import state_folder


class Landing(msgspec.Struct, rename="camel"):
    """The messages from one queue of the source in one of the target, with their `first` and `last` offset."""

    broker_name: str
    queue_id: int
    messages: int
    first: int
    last: int

    def add(self, offset: int) -> None:
        self.messages += 1
        self.first, self.last = min(self.first, offset), max(self.last, offset)


class Source(msgspec.Struct, rename="camel"):
    """The copy of one queue: its offsets [begin, next) are copied, filtered out, or missing.

    Missing messages were deleted before they could be read. `twice` counts messages that the target has a
    second time.
    """

    broker_name: str
    queue_id: int
    begin: int
    next: int
    copied: int = 0
    filtered: int = 0
    missing: int = 0
    twice: int = 0
    targets: list[Landing] = []

    def landed(self, queue: MessageQueue, offset: int) -> None:
        """Count a copied message by its place in the target."""
        place = queue.broker_name, queue.queue_id
        for landing in self.targets:
            if (landing.broker_name, landing.queue_id) == place:
                landing.add(offset)
                return
        self.targets.append(Landing(*place, 1, offset, offset))


class Target(msgspec.Struct, rename="camel"):
    """A queue of the target. Messages that it may have twice are at or after the offset `doubt`, if any."""

    broker_name: str
    queue_id: int
    floor: int
    doubt: int | None = None


class Job(msgspec.Struct, frozen=True, rename="camel"):
    """The topics of a copy and its options; a progress file belongs to one job."""

    namesrv: str
    topic: str
    to_namesrv: str
    to_topic: str
    queues: str
    range: str = "start"
    tag: str = "*"
    where: str | None = None

    def differs(self, other: Job) -> str | None:
        """Return the first difference, with both values; None if both are the same job."""
        for name in self.__struct_fields__:
            ours, theirs = getattr(self, name), getattr(other, name)
            same = ours == theirs
            if name.endswith("namesrv"):
                same = not set(name_servers(ours)).isdisjoint(name_servers(theirs))
            if not same:
                return f"{name.replace('_', '-')} {theirs}, not {ours}"
        return None


class _File(msgspec.Struct, rename="camel"):
    copy: str
    job: Job
    clean: bool
    sources: list[Source]
    targets: list[Target]


@dataclass(slots=True)
class State:
    """The content of a progress file. `clean`: the last run ended with nothing in flight or in doubt."""

    copy: str
    clean: bool = True
    sources: dict[MessageQueue, Source] = field(default_factory=dict)
    targets: dict[MessageQueue, Target] = field(default_factory=dict)


def default_path(job: Job) -> Path:
    """Return the file of a job in the user's state folder, or in the one that RMQ_STATE_DIR names."""
    servers = [sorted(name_servers(one)) for one in (job.namesrv, job.to_namesrv)]
    digest = sha256(repr((servers, job.queues, job.range, job.tag, job.where)).encode()).hexdigest()[:8]
    return state_folder() / "copy" / f"{job.topic}-{job.to_topic}-{digest}.json".replace("%", "_")


class Progress:
    """A context manager that holds the lock of a progress file. With a path of None, nothing is kept."""

    def __init__(self, path: Path | None, job: Job, *, resume: bool) -> None:
        """Raise ProgressError if the file exists without `resume`, or belongs to another job."""
        self.path = path
        self.job = job
        self.state = State(secrets.token_hex(4))
        self._descriptor = -1
        if path is not None and path.is_dir():
            raise ProgressError(f"--progress {path}: expected a file")
        if path is not None and path.exists():
            if not resume:
                raise ProgressError(
                    f"{path} belongs to an earlier copy: "
                    "continue with --resume, or remove it to copy all again"
                )
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_File)
        except msgspec.MsgspecError as error:
            raise ProgressError(f"{path}: not the progress file of a copy: {error}") from error
        if (difference := self.job.differs(found.job)) is not None:
            raise ProgressError(f"{path} is of a copy with {difference}")
        sources = {MessageQueue(self.job.topic, one.broker_name, one.queue_id): one for one in found.sources}
        targets = {
            MessageQueue(self.job.to_topic, one.broker_name, one.queue_id): one for one in found.targets
        }
        self.state = State(found.copy, found.clean, sources, targets)

    def __enter__(self) -> Self:
        if self.path is None:
            return self
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self._descriptor = os.open(self.path, os.O_RDONLY)
            self._lock(self.path)
            # Again, under the lock, because another process may have written the file in the meantime.
            self._read(self.path)
        return self

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have replaced the file since it was opened: this lock would protect nothing.
            is_current = os.path.samestat(os.fstat(self._descriptor), path.stat())
        except BlockingIOError:
            is_current = False
        if not is_current:
            os.close(self._descriptor)
            raise ProgressError(f"{path} is in use: another rmq copies with it")

    def save(self, *, clean: bool = False) -> None:
        """Replace the file. Raises OSError."""
        if self.path is None:
            return
        state = self.state
        queues = list(state.sources.values()), list(state.targets.values())
        content = _File(state.copy, self.job, clean, *queues)
        with replacing(self.path) as file:
            file.write(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
            # The new file has its lock before it has its name.
            descriptor = os.dup(file.fileno())
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptor, former = descriptor, self._descriptor
        if former >= 0:
            os.close(former)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
