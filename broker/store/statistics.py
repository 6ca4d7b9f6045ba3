"""States of a store that the broker reports and obeys (Java `RunningFlags`)."""

from __future__ import annotations


class Statistics:
    """`last_store_timestamp` is in ms; `writable` follows from `disk_full` and `damaged`."""

    __slots__ = ("damaged", "disk_full", "disk_ratio", "last_store_timestamp", "writable")

    def __init__(self) -> None:
        self.last_store_timestamp = 0
        self.disk_ratio = 0.0
        self.disk_full = False
        self.damaged = False
        self.writable = True

    def set_disk(self, ratio: float, *, full: bool) -> None:
        """`full` makes the store refuse messages until the next call without it."""
        self.disk_ratio = ratio
        self.disk_full = full
        self.writable = not full and not self.damaged

    def set_damaged(self) -> None:
        """Refuse everything from now on: the disk failed. The stop will not be a clean one."""
        self.damaged = True
        self.writable = False
