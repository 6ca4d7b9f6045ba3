"""Selection of records by key, tag and condition, against decoding every record. One core, page cache
warm.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.export import write_store
from benchmarks.harness import Measured, best_of, have_memory
from benchmarks.scan import one_core
from rmqcli.codec.records.filter import RecordFilter, record_filter
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.log_records import log_records

LOG_BYTES = 64 * 1024 * 1024


def inspections() -> Iterator[Measured]:
    """Select no record by key, one in fifty by tag, one in twenty by topic."""
    with tempfile.TemporaryDirectory() as folder, one_core():
        count = write_store(Path(folder), LOG_BYTES)
        log = CommitLogFiles(Path(folder))
        chosen = {
            "--key": record_filter(key="no such key"),
            "--tag": record_filter(tag="rare"),
            "--where with columns": record_filter(where="topic = 'Bench7' AND store_size > 4096"),
            "--where with a property": record_filter(where="queue_id = 0 AND region = 'eu'"),
        }
        have_memory()
        every, *seconds = best_of(
            lambda: sum(1 for _ in log_records(log, OffsetRange(), RecordFilter())),
            *(
                lambda one=one: sum(1 for _ in log_records(log, OffsetRange(), one))
                for one in chosen.values()
            ),
            rounds=3,
        )
        for name, taken in zip(chosen, seconds, strict=True):
            yield Measured(
                f"1024 B bodies, inspect commitlog {name}",
                count / taken,
                "msg/s",
                every / taken,
                "every record",
            )
