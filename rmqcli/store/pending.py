"""What a broker has yet to do: delayed messages of each level, half messages that nobody ended.

An op message names half messages that are done by their queue offsets: one in 4.9, several with commas in 5.x.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from codec.errors import CorruptionError
from codec.message import MessageExt
from codec.names import SystemTopic
from codec.properties import PropertyName
from codec.record import decode_record
from rmqcli.store.commit_log import CommitLog
from rmqcli.store.consume_queue import ConsumeQueueFiles, QueueEntry, queue_folders
from rmqcli.store.dispatch import DEFAULT_DELAYS
from rmqcli.store.files import NamedFile, mapped
from rmqcli.store.tables import delay_offsets, group_offsets

__all__ = ["DelayLevel", "HalfMessage", "LogReader", "delay_levels", "half_messages"]

_TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"


class DelayLevel(NamedTuple):
    """`delay` in ms, None for a level beyond the known ones; due times are store times in ms, 0 when nothing is pending."""

    level: int
    delay: int | None
    offset: int
    max_offset: int
    first_due: int
    last_due: int

    @property
    def pending(self) -> int:
        return max(self.max_offset - self.offset, 0)


class HalfMessage(NamedTuple):
    """A half message without an op message; `checks` is how often its producer was asked."""

    queue_offset: int
    message: MessageExt
    topic: str
    group: str
    checks: int


class LogReader:
    """Reads records by their commit-log offsets; a context manager that keeps the files mapped."""

    def __init__(self, store: Path) -> None:
        self._files = CommitLog(store).files
        self._views: dict[NamedFile, memoryview] = {}
        self._stack = ExitStack()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._views.clear()
        self._stack.close()

    @property
    def begin(self) -> int:
        """The first commit-log offset."""
        return self._files[0].base or 0

    def message(self, offset: int) -> MessageExt | None:
        """None when no whole record is there."""
        file = next(
            (f for f in reversed(self._files) if (f.base or 0) <= offset < (f.base or 0) + f.size), None
        )
        if file is None:
            return None
        if file not in self._views:
            self._views[file] = self._stack.enter_context(mapped(file))
        try:
            return decode_record(self._views[file], offset - (file.base or 0), decompress=True)
        except CorruptionError:
            return None


def delay_levels(store: Path, delays: tuple[int, ...] = DEFAULT_DELAYS) -> list[DelayLevel]:
    """Every level that has a queue."""
    offsets = delay_offsets(store)
    found = []
    for level, files in _queues(store, SystemTopic.SCHEDULE):
        first, end = files.bounds()
        offset = max(offsets.get(level + 1, first), first)
        due = _due(files, offset, end)
        delay = delays[level] if level < len(delays) else None
        found.append(DelayLevel(level + 1, delay, offset, end, *due))
    return found


def _due(files: ConsumeQueueFiles, offset: int, end: int) -> tuple[int, int]:
    if offset >= end:
        return 0, 0
    ends = [entry.tags_code for at in (offset, end - 1) for entry in files.entries(at, at + 1)]
    return (ends[0], ends[-1]) if ends else (0, 0)


def _queues(store: Path, topic: str) -> list[tuple[int, ConsumeQueueFiles]]:
    folder = store / "consumequeue" / topic
    if not folder.is_dir():
        return []
    return [(queue.queue_id or 0, queue.files) for queue in queue_folders(folder)]


def half_messages(store: Path) -> Iterator[HalfMessage]:
    """The half messages behind the last one that is known to be done, oldest first, by queue."""
    known = {
        (one.topic, one.queue_id): one.offset
        for one in group_offsets(store)
        if one.group == _TRANSACTION_GROUP
    }
    with LogReader(store) as log:
        for queue_id, files in _queues(store, SystemTopic.TRANS_HALF):
            done = _done(store, queue_id, log)
            for entry in files.entries(known.get((SystemTopic.TRANS_HALF, queue_id), 0)):
                message = None if entry.queue_offset in done else log.message(entry.commit_log_offset)
                if message is not None:
                    yield _half(entry, message)


def _half(entry: QueueEntry, message: MessageExt) -> HalfMessage:
    properties = message.properties
    checks = properties.get(PropertyName.TRANSACTION_CHECK_TIMES, "0")
    return HalfMessage(
        entry.queue_offset,
        message,
        properties.get(PropertyName.REAL_TOPIC, ""),
        properties.get(PropertyName.PGROUP, ""),
        int(checks) if checks.isdecimal() else 0,
    )


def _done(store: Path, queue_id: int, log: LogReader) -> set[int]:
    """The queue offsets that any op message of a queue names."""
    done: set[int] = set()
    for number, files in _queues(store, SystemTopic.TRANS_OP_HALF):
        for entry in files.entries() if number == queue_id else ():
            message = log.message(entry.commit_log_offset)
            if message is not None:
                texts = message.body.decode("ascii", "replace").split(",")
                done.update(int(text) for text in texts if text.isdecimal() and len(text) < 20)
    return done
