"""Committed offsets and lags of groups in a store folder, and the messages that the groups get next."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rmqcli.store.read.commit_log import Found, LogReader
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, queue_folders
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.tables import group_offsets
from rmqcli.store.stats.overview import queue_ranges


class GroupPosition(NamedTuple):
    """A committed offset; `max_offset` and `lag` are None if the queue is missing, or without a store.

    `lag` is also None for an offset beyond the end, which belongs to an earlier topic of the same name.
    """

    group: str
    topic: str
    queue_id: int
    offset: int
    max_offset: int | None
    lag: int | None


class TopicLag(NamedTuple):
    """The lag of a group in a topic: `behind` of `queues` queues lag, by `lag` messages in total and at most
    `greatest` in one queue.
    """

    group: str
    topic: str
    queues: int
    behind: int
    lag: int
    greatest: int


def group_positions(path: Path) -> list[GroupPosition]:
    """Return positions by group, topic and queue; `path` is a store folder, or consumerOffset.json."""
    of_store = queue_ranges(StoreFolder(path)) if path.is_dir() else []
    ends = {(one.topic, one.queue_id): one.max_offset for one in of_store}
    found = []
    for one in group_offsets(path):
        end = ends.get((one.topic, one.queue_id))
        lag = None if end is None or one.offset > end else end - one.offset
        found.append(GroupPosition(*one, end, lag))
    return found


def topic_lags(positions: Iterable[GroupPosition]) -> list[TopicLag]:
    """Sum up positions by group and topic, in order of appearance."""
    lags: dict[tuple[str, str], list[int]] = {}
    for one in positions:
        lags.setdefault((one.group, one.topic), []).append(one.lag or 0)
    return [
        TopicLag(*key, len(each), sum(map(bool, each)), sum(each), max(each)) for key, each in lags.items()
    ]


def next_messages(store: Path, positions: Iterable[GroupPosition]) -> list[tuple[GroupPosition, Found]]:
    """Return the first message not yet consumed for each position before the end. Raises DamagedFile."""
    behind = [one for one in positions if one.lag]
    if not behind:
        return []
    queues = {(queue.topic, queue.queue_id): queue.files for queue in queue_folders(store)}
    with LogReader(store) as log:
        found = [(one, _next(queues[one.topic, one.queue_id], one.offset, log)) for one in behind]
    return [(one, message) for one, message in found if message is not None]


def _next(files: ConsumeQueueFiles, offset: int, log: LogReader) -> Found | None:
    """Return the first message at or after an offset that retention has not removed."""
    kept = (log.read(entry.commit_log_offset) for entry in files.entries(max(offset, 0)))
    return next((found for found in kept if found is not None), None)
