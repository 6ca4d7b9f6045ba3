"""Settings of a store. Field names are Java's `MessageStoreConfig` in snake_case; defaults are Java's.

Units: bytes, milliseconds (`*_interval_*`), hours (`file_reserved_time`), percent (`*_ratio`). A size of None
adopts the size of existing files, otherwise Java's default; an explicit size is enforced.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from rmqcli.broker.config import BrokerConfig, expand_path

_JAVA = BrokerConfig()
ADOPTED = (
    "mapped_file_size_commit_log",
    "mapped_file_size_consume_queue",
    "max_hash_slot_num",
    "max_index_num",
)
COMMIT_LOG_FILE_SIZE = _JAVA.mapped_file_size_commit_log
CONSUME_QUEUE_FILE_SIZE = _JAVA.mapped_file_size_consume_queue


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
    """Location and behaviour of a store (Java `MessageStoreConfig`)."""

    root: Path
    commit_log_path: Path | None = None
    mapped_file_size_commit_log: int | None = None
    mapped_file_size_consume_queue: int | None = None
    enable_consume_queue_ext: bool = _JAVA.enable_consume_queue_ext
    mapped_file_size_consume_queue_ext: int = _JAVA.mapped_file_size_consume_queue_ext
    max_hash_slot_num: int | None = None
    max_index_num: int | None = None
    message_index_enable: bool = _JAVA.message_index_enable
    message_index_safe: bool = _JAVA.message_index_safe
    check_crc_on_recover: bool = _JAVA.check_crc_on_recover
    check_store_on_start: bool = _JAVA.check_store_on_start
    move_damaged_log_aside: bool = _JAVA.move_damaged_log_aside
    ignore_unsupported: bool = _JAVA.ignore_unsupported

    data_read_ahead_enable: bool = _JAVA.data_read_ahead_enable
    flush_disk_type: str = _JAVA.flush_disk_type
    sync_flush_timeout: int = _JAVA.sync_flush_timeout
    flush_interval_commit_log: int = _JAVA.flush_interval_commit_log
    flush_commit_log_least_pages: int = _JAVA.flush_commit_log_least_pages
    flush_commit_log_thorough_interval: int = _JAVA.flush_commit_log_thorough_interval
    flush_interval_consume_queue: int = _JAVA.flush_interval_consume_queue
    flush_consume_queue_least_pages: int = _JAVA.flush_consume_queue_least_pages
    flush_consume_queue_thorough_interval: int = _JAVA.flush_consume_queue_thorough_interval

    delete_when: str = _JAVA.delete_when
    file_reserved_time: int = _JAVA.file_reserved_time
    disk_max_used_space_ratio: int = _JAVA.disk_max_used_space_ratio
    disk_space_clean_forcibly_ratio: int = _JAVA.disk_space_clean_forcibly_ratio
    disk_space_warning_level_ratio: int = _JAVA.disk_space_warning_level_ratio
    clean_file_forcibly_enable: bool = _JAVA.clean_file_forcibly_enable
    clean_resource_interval: int = _JAVA.clean_resource_interval
    delete_commit_log_files_interval: int = _JAVA.delete_commit_log_files_interval
    delete_files_batch_max: int = 10

    max_message_size: int = _JAVA.max_message_size
    max_transfer_bytes_on_message_in_memory: int = _JAVA.max_transfer_bytes_on_message_in_memory
    max_transfer_count_on_message_in_memory: int = _JAVA.max_transfer_count_on_message_in_memory
    max_transfer_bytes_on_message_in_disk: int = _JAVA.max_transfer_bytes_on_message_in_disk
    max_transfer_count_on_message_in_disk: int = _JAVA.max_transfer_count_on_message_in_disk
    access_message_in_memory_max_ratio: int = _JAVA.access_message_in_memory_max_ratio
    max_msgs_num_batch: int = _JAVA.max_msgs_num_batch
    message_delay_level: str = _JAVA.message_delay_level

    @classmethod
    def of(cls, config: BrokerConfig) -> StoreConfig:
        """Return the settings of a broker's store. Java's default for a size adopts the size of existing
        files."""
        values = {
            field.name: getattr(config, field.name) for field in fields(cls) if hasattr(config, field.name)
        }
        for name in ADOPTED:
            if values[name] == getattr(_JAVA, name):
                values[name] = None
        commit_log = config.store_path_commit_log
        return cls(
            root=expand_path(config.store_path_root_dir),
            commit_log_path=expand_path(commit_log) if commit_log else None,
            **values,
        )

    def changed_to(self, wanted: StoreConfig) -> StoreConfig:
        """Return `wanted`, except for the settings that require a restart: paths, sizes and kinds of
        files."""
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
    def tables_folder(self) -> Path:
        return self.root / "config"

    @property
    def deleted_topics_file(self) -> Path:
        return self.tables_folder / "deletedTopics.json"

    @property
    def abort_file(self) -> Path:
        return self.root / "abort"

    @property
    def folders(self) -> list[Path]:
        """The folders that the broker writes to."""
        return [
            self.root,
            self.tables_folder,
            self.commit_log_folder,
            self.consume_queue_folder,
            *([self.consume_queue_ext_folder] if self.enable_consume_queue_ext else []),
            *([self.index_folder] if self.message_index_enable else []),
        ]

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"
