"""What is deleted, and when (Java `CleanCommitLogService`, `CleanConsumeQueueService`). See store.md §8.

A run removes log files whose last modification is older than `fileReservedTime`, at most 10, oldest first, never the
last file. It happens in the hours of `deleteWhen`, above `diskMaxUsedSpaceRatio`, or when asked for. Above 85 % of the disk
files go whether expired or not; above 90 % the store also refuses messages until there is room again. It does so, too, with
less than `LEAST_FREE` bytes left, which the writer has looked at every megabyte.
Queue and index files follow: those that only know records before the start of the log.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import trio

from broker.store.commit_log import CommitLog
from broker.store.config import StoreConfig
from broker.store.consume_queues import ConsumeQueues
from broker.store.index import Index
from broker.store.statistics import Statistics

__all__ = ["Retention"]

FIRST_RUN_S = 60
MANUAL_RUNS = 20
HOUR_MS = 3_600_000
LEAST_FREE = 32 * 1024 * 1024
"""More than what one megabyte of small messages can take in log, queues and the slots of an index file (20 MB)."""
_log = logging.getLogger(__name__)


def used_percent(path: Path) -> float:
    """How full the file system of a folder is."""
    usage = shutil.disk_usage(path)
    return usage.used * 100 / usage.total


def free_bytes(path: Path) -> int:
    """What is left for us on the file system of a folder."""
    return shutil.disk_usage(path).free


class Retention:
    """Decides and deletes. `config` may be replaced; `disk_percent` and `disk_free` are in tests."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        statistics: Statistics,
        now_ms: Callable[[], int],
    ) -> None:
        self.config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._statistics = statistics
        self._now_ms = now_ms
        self._manual_runs = 0
        self._cleaned_up_to = 0
        self.disk_percent: Callable[[Path], float] = used_percent
        self.disk_free: Callable[[Path], int] = free_bytes

    async def run(self) -> None:
        """The service."""
        await trio.sleep(FIRST_RUN_S)
        while True:
            await self.run_once()
            await trio.sleep(self.config.clean_resource_interval / 1000)

    async def run_once(self) -> int:
        """One run with pauses between files. Returns how many log files went."""
        at_once = self._look_at_disk()
        deleted = 0
        if at_once is not None or self._manual_runs > 0 or self._is_time():
            self._manual_runs = max(self._manual_runs - 1, 0)
            while deleted < self.config.delete_files_batch_max and self._drop_first(at_once=bool(at_once)):
                deleted += 1
                await trio.sleep(self.config.delete_commit_log_files_interval / 1000)
        self.follow_log()
        return deleted

    def request_runs(self) -> None:
        """Makes the next 20 runs delete, whatever the hour (code 329)."""
        self._manual_runs = MANUAL_RUNS

    def delete_expired(self) -> int:
        """Deletes expired files now, without pauses. Returns how many log files went."""
        deleted = 0
        while deleted < self.config.delete_files_batch_max and self._drop_first(at_once=False):
            deleted += 1
        self.follow_log()
        return deleted

    def _is_time(self) -> bool:
        hour = time.localtime(self._now_ms() // 1000).tm_hour
        return any(
            text.strip().isdigit() and int(text) == hour for text in self.config.delete_when.split(";")
        )

    def _look_at_disk(self) -> bool | None:
        """None: there is room. False: delete expired files. True: delete even those that are not expired."""
        config = self.config
        percent = max(map(self.disk_percent, self._folders()))
        full = percent > config.disk_space_warning_level_ratio
        if full and not self._statistics.disk_full:
            _log.error("the disk of %s is %.0f %% full: the store refuses messages", config.root, percent)
        self._statistics.set_disk(percent / 100, full=full)
        self.look_for_space()
        if percent > config.disk_space_clean_forcibly_ratio:
            return config.clean_file_forcibly_enable
        return False if percent > min(max(config.disk_max_used_space_ratio, 10), 95) else None

    def look_for_space(self) -> None:
        """Makes the store refuse messages when there is hardly any room left."""
        free = min(map(self.disk_free, self._folders()))
        if free >= LEAST_FREE or self._statistics.disk_full:
            return
        root = self.config.root
        _log.error("the disk of %s has %d MB left: the store refuses messages", root, free // 1_000_000)
        self._statistics.set_disk(max(map(self.disk_percent, self._folders())) / 100, full=True)

    def _folders(self) -> list[Path]:
        log = self.config.commit_log_path
        return [self.config.root, *([log] if log is not None and log.exists() else [])]

    def _drop_first(self, *, at_once: bool) -> bool:
        segments = self._log.segments
        if len(segments.segments) < 2:
            return False
        first = segments.segments[0]
        age = self._now_ms() - first.modified_ms
        if not at_once and age < self.config.file_reserved_time * HOUR_MS:
            return False
        _log.info("deleting %s", first.path)
        segments.drop_first()
        return True

    def follow_log(self) -> int:
        """Cleans queues and index of what lies before the log's start. Returns how many files went."""
        start = self._log.start
        if start <= self._cleaned_up_to:
            return 0
        self._cleaned_up_to = start
        dropped = self._index.drop_expired(start) if self._index is not None else 0
        for queue in self._queues:
            dropped += queue.drop_expired(start)
            queue.correct_min(start)
        return dropped
