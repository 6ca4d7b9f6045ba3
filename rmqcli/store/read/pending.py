"""Pending work of a broker: the delayed messages of each level, and half messages without commit or rollback.

An op message names finished half messages by their queue offsets: one in 4.9, several separated by commas in
5.x.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import TRANSACTION_GROUP, SystemTopic
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels
from rmqcli.store.read.commit_log import LogReader, Place, ignore_damage, plain_bodies
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, QueueEntry, queue_folders
from rmqcli.store.read.tables import delay_offsets, group_offsets


class DelayLevel(NamedTuple):
    """A delay level; `delay` in ms, None above the known levels; due times in ms, 0 if nothing is pending."""

    level: int
    delay: int | None
    offset: int
    max_offset: int
    first_due: int
    last_due: int

    @property
    def pending(self) -> int:
        return max(self.max_offset - self.offset, 0)

    @property
    def row(self) -> tuple[int | None, ...]:
        return (
            self.level,
            self.delay,
            self.pending,
            self.offset,
            self.max_offset,
            self.first_due,
            self.last_due,
        )


class DelayedMessage(NamedTuple):
    """A waiting message, `due` in ms.

    Its topic and queue are the real ones, its queue offset that in the level's queue.
    """

    level: int
    due: int
    place: Place
    message: MessageExt


class HalfMessage(NamedTuple):
    """A half message without an op message; `checks` is the number of checks sent to its producer.

    `message` has its real topic and queue, and its offset in the queue of half messages.
    """

    queue_offset: int
    place: Place
    message: MessageExt
    group: str
    checks: int

    @property
    def topic(self) -> str:
        return self.message.topic


def delay_levels(store: Path, levels: DelayLevels = DEFAULT_LEVELS) -> list[DelayLevel]:
    offsets = delay_offsets(store)
    found = []
    for level, files in _queues(store, SystemTopic.SCHEDULE):
        first, end = files.bounds()
        offset = max(offsets.get(level + 1, first), first)
        due = _due(files, offset, end)
        delay = levels.delay_ms(level + 1) if level < levels.highest else None
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


def delayed_messages(store: Path, level: DelayLevel) -> Iterator[DelayedMessage]:
    """Yield the undelivered messages in the order of delivery.

    Raises DamagedFile where there is no record.
    """
    with LogReader(store) as log:
        for number, files in _queues(store, SystemTopic.SCHEDULE):
            for entry in files.entries(level.offset) if number + 1 == level.level else ():
                found = log.read(entry.commit_log_offset)
                if found is not None:
                    place, message = found
                    real = with_real_topic(message, entry.queue_offset)
                    yield DelayedMessage(level.level, entry.tags_code, place, real)


def half_messages(store: Path) -> Iterator[HalfMessage]:
    """Yield the half messages after the last one known to be finished, oldest first, queue by queue."""
    known = {
        (one.topic, one.queue_id): one.offset
        for one in group_offsets(store)
        if one.group == TRANSACTION_GROUP
    }
    queues = _queues(store, SystemTopic.TRANS_HALF)
    if not queues:
        return  # the store may have no commit log either
    with LogReader(store) as log:
        for queue_id, files in queues:
            done = _done(store, queue_id, log)
            for entry in files.entries(known.get((SystemTopic.TRANS_HALF, queue_id), 0)):
                found = None if entry.queue_offset in done else log.find(entry.commit_log_offset)
                if found is not None:
                    yield _half(entry, *found)


def _half(entry: QueueEntry, place: Place, message: MessageExt) -> HalfMessage:
    properties = message.properties
    checks = properties.get(PropertyName.TRANSACTION_CHECK_TIMES, "0")
    return HalfMessage(
        entry.queue_offset,
        place,
        with_real_topic(message, entry.queue_offset),
        properties.get(PropertyName.PGROUP, ""),
        int(checks) if checks.isdecimal() else 0,
    )


def with_real_topic(message: MessageExt, queue_offset: int) -> MessageExt:
    """Return a message that waits in a system topic with the topic and queue in which it is delivered."""
    queue = message.properties.get(PropertyName.REAL_QID, "")
    return msgspec.structs.replace(
        message,
        topic=message.properties.get(PropertyName.REAL_TOPIC, message.topic),
        queue_id=int(queue) if queue.isdecimal() else message.queue_id,
        queue_offset=queue_offset,
    )


def _done(store: Path, queue_id: int, log: LogReader) -> set[int]:
    """Return the queue offsets named by the op messages of a queue."""
    done: set[int] = set()
    for number, files in _queues(store, SystemTopic.TRANS_OP_HALF):
        for entry in files.entries() if number == queue_id else ():
            found = log.find(entry.commit_log_offset)
            for _, message in plain_bodies([] if found is None else [found], ignore_damage):
                texts = message.body.decode("ascii", "replace").split(",")
                # An offset has at most 19 digits, and int() raises ValueError for thousands of them.
                done.update(int(text) for text in texts if text.isdecimal() and len(text) < 20)
    return done
