"""Counters and states of a store that the broker reports (Java `StoreStatsService`, `RunningFlags`)."""

from __future__ import annotations

from broker.store.commit_log import CommitLog


class Statistics:
    """Since the store was opened. Times are ms, sizes bytes."""

    __slots__ = (
        "_log",
        "damaged",
        "disk_full",
        "disk_ratio",
        "get_found",
        "get_messages",
        "get_missed",
        "last_store_timestamp",
        "writable",
    )

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.last_store_timestamp = 0
        self.get_messages = 0
        self.get_found = 0
        self.get_missed = 0
        self.disk_ratio = 0.0
        self.disk_full = False
        self.damaged = False
        self.writable = True

    @property
    def commit_log_min_offset(self) -> int:
        return self._log.start

    @property
    def commit_log_max_offset(self) -> int:
        return self._log.end

    @property
    def flushed_offset(self) -> int:
        """End of the part of the log that is known to be on the disk."""
        return self._log.flushed

    @property
    def dispatch_behind_bytes(self) -> int:
        """Always 0: a record is dispatched before its append returns."""
        return 0

    def count_get(self, messages: int) -> None:
        self.get_messages += messages
        if messages:
            self.get_found += 1
        else:
            self.get_missed += 1

    def set_disk(self, ratio: float, *, full: bool) -> None:
        """`full` makes the store refuse messages until the next call without it."""
        self.disk_ratio = ratio
        self.disk_full = full
        self._decide()

    def set_damaged(self) -> None:
        """Refuses everything from now on: a flush failed or a file could not be created.

        The stop is not a clean one.
        """
        self.damaged = True
        self._decide()

    def _decide(self) -> None:
        self.writable = not self.disk_full and not self.damaged
