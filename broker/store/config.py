"""Settings of a store. Field names are Java's `MessageStoreConfig` in snake_case; defaults are Java's.

Units: bytes, milliseconds (`*_interval_*`), hours (`file_reserved_time`), percent (`*_ratio`).
A file size of None adopts the size of the files that are there, else Java's default; a given size is enforced.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from codec.store.consume_queue import ENTRY_SIZE, FILE_ENTRIES
from codec.store.consume_queue_ext import FILE_SIZE
from codec.store.delay_levels import DEFAULT_DELAY_LEVELS
from codec.store.index_file import FILE_ITEMS, FILE_SLOTS

__all__ = [
    "COMMIT_LOG_FILE_SIZE",
    "CONSUME_QUEUE_FILE_SIZE",
    "PAGE",
    "StoreConfig",
    "physical_memory",
]

PAGE = 4096
COMMIT_LOG_FILE_SIZE = 1 << 30
CONSUME_QUEUE_FILE_SIZE = FILE_ENTRIES * ENTRY_SIZE


def physical_memory() -> int:
    """Bytes of RAM of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


FIXED = (
    "root",
    "commit_log_path",
    "mapped_file_size_commit_log",
    "mapped_file_size_consume_queue",
    "enable_consume_queue_ext",
    "mapped_file_size_consume_queue_ext",
    "max_hash_slot_num",
    "max_index_num",
    "message_index_enable",
    "message_delay_level",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Where a store lies and how it behaves (Java `MessageStoreConfig`)."""

    root: Path
    commit_log_path: Path | None = None
    mapped_file_size_commit_log: int | None = None
    mapped_file_size_consume_queue: int | None = None
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = FILE_SIZE
    max_hash_slot_num: int = FILE_SLOTS
    max_index_num: int = FILE_ITEMS
    message_index_enable: bool = True
    message_index_safe: bool = False
    check_crc_on_recover: bool = True

    flush_disk_type: str = "ASYNC_FLUSH"
    sync_flush_timeout: int = 5_000
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000

    delete_when: str = "04"
    file_reserved_time: int = 72
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    delete_commit_log_files_interval: int = 100
    delete_files_batch_max: int = 10

    max_message_size: int = 4 * 1024 * 1024
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    max_msgs_num_batch: int = 64
    message_delay_level: str = DEFAULT_DELAY_LEVELS

    def changed_to(self, wanted: StoreConfig) -> StoreConfig:
        """`wanted`, but for what only a new start changes: where the files lie, how large they are and what they hold."""
        return replace(wanted, **{name: getattr(self, name) for name in FIXED})

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def commit_log_folder(self) -> Path:
        return self.commit_log_path or self.root / "commitlog"

    @property
    def consume_queue_folder(self) -> Path:
        return self.root / "consumequeue"

    @property
    def consume_queue_ext_folder(self) -> Path:
        return self.root / "consumequeue_ext"

    @property
    def index_folder(self) -> Path:
        return self.root / "index"

    @property
    def checkpoint_file(self) -> Path:
        return self.root / "checkpoint"

    @property
    def abort_file(self) -> Path:
        return self.root / "abort"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"
