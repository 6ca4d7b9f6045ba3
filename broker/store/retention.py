"""Deletion of old files and queues (Java `CleanCommitLogService`, `CleanConsumeQueueService`; store.md §8).

A run removes log files whose last modification is older than `fileReservedTime`, at most 10, oldest first,
never the last file. Runs happen in the hours of `deleteWhen`, above `diskMaxUsedSpaceRatio`, or on request.
Above 85 % disk usage, files are removed whether expired or not; above 90 %, the store also refuses messages
until there is room again. It also refuses them with less than `LEAST_FREE` bytes left, which is checked after
every megabyte written. Queue and index files follow once they only refer to records before the start of the
log.

The queue entries of a log file are made durable before it is removed, so that no queue offset is assigned
twice. Once a flush has failed, nothing is removed.

Removals are made durable one by one, oldest first: after a power cut, no file is missing between two others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial

import trio

from rmqcli.broker.disk import Disk, Usage
from rmqcli.broker.store.checkpoint import DeletedTopics
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queue_ext import Require
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.index import Index
from rmqcli.broker.store.readiness import InThread, Readiness
from rmqcli.broker.store.segment import Segment
from rmqcli.broker.store.values import Statistics
from rmqcli.codec.names import LMQ_PREFIX, SystemTopic
from rmqcli.codec.store.consume_queue import ENTRY_SIZE, is_address

FIRST_RUN_S = 60
MANUAL_RUNS = 20
HOUR_MS = 3_600_000
KEPT_TOPICS = frozenset({SystemTopic.SCHEDULE, SystemTopic.TRANS_OP_HALF})
LEAST_FREE = 32 * 1024 * 1024
"""More than one megabyte of small messages can require in log, queues and the slots of an index file (20
MB)."""
_log = logging.getLogger(__name__)


class Retention:
    """Decides what to delete, and deletes it.

    `config` may be replaced. `usage` is the usage of the fullest file system at the last check.
    """

    def __init__(
        self,
        disk: Disk,
        config: StoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        deleted: DeletedTopics,
        statistics: Statistics,
        now_ms: Callable[[], int],
        readiness: Readiness,
        in_thread: InThread,
        make_known: Callable[[int], Awaitable[None]],
    ) -> None:
        """`make_known` makes the queue entries of records before an offset durable."""
        self.config = config
        self.usage = Usage(1, 0, 1)
        self._disk = disk
        self._log = log
        self._queues = queues
        self._index = index
        self._deleted = deleted
        self._statistics = statistics
        self._now_ms = now_ms
        self._readiness = readiness
        self._in_thread = in_thread
        self._make_known = make_known
        self._manual_runs = 0
        self._cleaned_up_to = 0
        self._space_wanted = trio.Event()
        self._doomed: list[Segment] = []
        """Files that the store has dropped but the disk still holds: a file that cannot be removed blocks the
        removal of later ones."""

    async def run(self) -> None:
        """Run the service that deletes."""
        await trio.sleep(FIRST_RUN_S)
        while True:
            await self.run_once()
            await trio.sleep(self.config.clean_resource_interval / 1000)

    async def watch_space(self) -> None:
        """Run the service that checks the free space whenever `want_check` was called."""
        while True:
            await self._space_wanted.wait()
            # Replaced before the check, which does not cover what is written during it.
            self._space_wanted = trio.Event()
            self.check_space(await self._in_thread(self.usages))

    def want_check(self) -> None:
        """Request a check of the free space."""
        self._space_wanted.set()

    async def run_once(self) -> int:
        """Do one run, with pauses between files. Return the number of log files deleted."""
        at_once = self._judge(await self._in_thread(self.usages))
        deleted = 0
        if at_once is not None or self._manual_runs > 0 or self._is_time():
            self._manual_runs = max(self._manual_runs - 1, 0)
            pause_s = self.config.delete_commit_log_files_interval / 1000
            deleted = await self._delete(at_once=bool(at_once), pause_s=pause_s)
        await self._follow_log()
        return deleted

    def request_runs(self) -> None:
        """Make the next 20 runs delete, regardless of the hour."""
        self._manual_runs = MANUAL_RUNS

    async def delete_expired_files(self) -> int:
        """Delete expired log files now, without pauses, and make the next 20 runs delete (code 329).

        Return the number of log files deleted.
        """
        self.request_runs()
        deleted = await self._delete(at_once=False, pause_s=0)
        await self._follow_log()
        return deleted

    async def _delete(self, *, at_once: bool, pause_s: float) -> int:
        deleted = 0
        while deleted < self.config.delete_files_batch_max and await self._delete_first(at_once=at_once):
            deleted += 1
            await trio.sleep(pause_s)
        return deleted

    async def _delete_first(self, *, at_once: bool) -> bool:
        segments = self._log.segments
        if len(segments.segments) < 2 or self._statistics.damaged:
            return False
        first = segments.segments[0]
        if not at_once:
            age = self._now_ms() - await self._in_thread(lambda: first.modified_ms)
            if age < self.config.file_reserved_time * HOUR_MS:
                return False
        await self._make_known(first.end)
        # Another caller may have removed the file in the meantime.
        if segments.segments[0] is first and len(segments.segments) > 1:
            _log.info("deleting %s", first.path)
            await self._destroy([segments.take_first()])
        return True

    async def _follow_log(self) -> None:
        """Remove files of queues and index that only refer to records before the start of the log."""
        start = self._log.start
        if start <= self._cleaned_up_to:
            return
        if self._index is not None:
            await self._destroy(self._index.take_expired(start))
        for queue in list(self._queues):
            taken = await self._readiness.when_ready(_take_expired, queue, start, self._readiness.require)
            await self._destroy(taken)  # now, before the topic can be deleted and its file names reused
        self._cleaned_up_to = start

    async def _destroy(self, segments: Sequence[Segment]) -> None:
        self._doomed += segments
        if self._doomed:
            await self._readiness.change_files(self._destroy_doomed)

    def _destroy_doomed(self) -> None:
        while self._doomed:
            segment = self._doomed[0]
            segment.destroy()
            self._disk.sync_folder(segment.path.parent)
            del self._doomed[0]

    def _is_time(self) -> bool:
        hour = time.localtime(self._now_ms() // 1000).tm_hour
        return any(
            text.strip().isdigit() and int(text) == hour for text in self.config.delete_when.split(";")
        )

    # --- queues

    async def delete_topic(self, topic: str, last: int | None = None) -> int:
        """Remove the queues of a topic; its records are removed with their log files. Return the number of
        queues.

        Nothing is removed if a record of the topic ends after `last`.
        """
        return await self._delete_topics([topic], last)

    def deletable(self) -> set[str]:
        """Return the topics whose queues are removed if the topic has no configuration."""
        return {
            topic
            for topic in self._queues.by_topic
            if topic not in KEPT_TOPICS and not topic.startswith(LMQ_PREFIX)
        }

    async def clean_unused(self, topics: Iterable[str]) -> int:
        """Remove the queues of all topics except `topics` (codes 316, 215). Return the number of topics
        removed."""
        gone = self.deletable().difference(topics)
        await self._delete_topics(gone)
        return len(gone)

    async def _delete_topics(self, topics: Collection[str], last: int | None = None) -> int:
        """Remove queues, after durably recording that no record before the end of the log belongs to them.

        If OSError is raised, the queues stay, and a restart decides whether their messages are deleted.
        """
        end, before = 0, self._deleted.ends
        while queues := [queue for queue in self._queues if queue.topic in topics]:
            own_end = max(queue.max_physical_offset for queue in queues)
            if last is not None and own_end > last:
                return 0
            # Messages may have been stored while the mark was saved: then it is saved again, with a later
            # end.
            if own_end <= end:
                return await self._delete_queues(queues)
            end = self._log.end
            content = self._deleted.add(topics, end, self._log.start)
            try:
                await self._readiness.change_files(partial(self._deleted.save, content))
            except OSError:
                self._deleted.ends = before  # a later deletion must not save the mark that was refused
                raise
        return 0

    async def clean_expired_consume_queues(self) -> int:
        """Remove queues that only refer to records before the start of the log (code 306). Return their
        number."""
        start = self._log.start
        expired = [queue for queue in self._queues if queue.max_physical_offset < start]
        return await self._delete_queues([queue for queue in expired if queue.topic not in KEPT_TOPICS])

    async def _delete_queues(self, queues: list[ConsumeQueue]) -> int:
        if queues:
            await self._readiness.change_files(self._queues.take(queues))
        return len(queues)

    # --- space

    def usages(self) -> list[Usage]:
        """Return the usage of the file systems that hold the store. Blocks."""
        log = self.config.commit_log_path
        return [self._disk.usage(path) for path in (self.config.root, log) if path is not None]

    def _judge(self, usages: Sequence[Usage]) -> bool | None:
        """Return None if there is enough room, False to delete expired files, True to delete files whether
        expired or not."""
        config = self.config
        percent = max(usage.percent for usage in usages)
        full = percent > config.disk_space_warning_level_ratio
        if full and not self._statistics.disk_full:
            _log.error("the disk of %s is %.0f %% full: the store refuses messages", config.root, percent)
        self._statistics.set_disk(percent / 100, full=full)
        self.check_space(usages)
        if percent > config.disk_space_clean_forcibly_ratio:
            return config.clean_file_forcibly_enable
        # The bounds are those of Java's `MessageStoreConfig.getDiskMaxUsedSpaceRatio`.
        return False if percent > min(max(config.disk_max_used_space_ratio, 10), 95) else None

    def check_space(self, usages: Sequence[Usage]) -> None:
        """Make the store refuse messages if less than `LEAST_FREE` bytes are left."""
        self.usage = max(usages, key=lambda usage: usage.percent)
        free = min(usage.free for usage in usages)
        if free >= LEAST_FREE or self._statistics.disk_full:
            return
        root = self.config.root
        _log.error("the disk of %s has %d MB left: the store refuses messages", root, free // 1_000_000)
        self._statistics.set_disk(self.usage.percent / 100, full=True)


def _take_expired(queue: ConsumeQueue, physical_min: int, require: Require) -> list[Segment]:
    """Correct the minimum offset of a queue; detach and return the files before it, except the last one.

    The caller destroys them, extension files included. `ConsumeQueue.first_at` may raise before anything is
    changed.
    """
    files = queue.segments
    if not files.segments:
        return []
    queue.min_offset = queue.first_at(max(physical_min, 0), require)
    taken = []
    expired_end = queue.min_offset * ENTRY_SIZE
    while len(files.segments) > 1 and files.segments[0].end <= expired_end:
        taken.append(files.take_first())
    if queue.extension is not None and queue.min_offset < queue.next_offset:
        code = queue.entry(queue.min_offset)[2]
        if is_address(code):
            taken += queue.extension.take_before(code)
    return taken
