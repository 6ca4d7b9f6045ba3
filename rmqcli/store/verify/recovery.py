"""The records that a start after a kill dispatches again, by the checkpoint."""

from __future__ import annotations

from pathlib import Path

from codec.errors import CorruptionError
from codec.store.checkpoint import Checkpoint
from codec.store.record import peek_record, store_timestamp_at
from codec.store.record_layout import MAGIC_V1, MAGIC_V2
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.files import DamagedFile, mapped
from rmqcli.store.read.tables import read_checkpoint


def known_checkpoint(store: Path) -> Checkpoint:
    """Return the checkpoint of a store folder; zeros if it cannot be read, as for a broker."""
    try:
        return read_checkpoint(store) or Checkpoint()
    except DamagedFile:
        return Checkpoint()


def dispatched_again_from(log: CommitLogFiles, checkpoint: Checkpoint) -> int:
    """Return the commit-log offset from which a start after a kill dispatches records again (Java
    `CommitLog.recoverAbnormally`).

    That is the start of the last file whose first record was stored, with a margin, before log and queues
    were flushed, else of the first file.
    """
    for file in reversed(log.files):
        with mapped(file) as data:
            if 0 < _first_stored(data) <= checkpoint.min_timestamp:
                return file.base or 0
    return log.files[0].base or 0


def _first_stored(data: memoryview) -> int:
    """Return the store time (ms) of the first record; 0 without one."""
    try:
        return store_timestamp_at(data) if peek_record(data, 0).magic in (MAGIC_V1, MAGIC_V2) else 0
    except CorruptionError:
        return 0
