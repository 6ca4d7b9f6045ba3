"""Exports of a store with many topics: parts located by consume queues and by time against the whole log, and
one process against two.

Page cache warm, all cores, best of several rounds; the consume queues come from `rmq inspect rebuild`.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.codec import HOST, PROPERTIES
from benchmarks.harness import Measured, best_of, have_memory
from rmqcli.codec.records.encoding import encode_record
from rmqcli.export import RowFilter, export_store
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.repair.rebuild import build, shape_of
from rmqcli.store.workers import Workers

LOG_BYTES = 256 * 1024 * 1024
TOPICS = 20
_STORED = 1795224776029
_MS_APART = 100
_RARE = 50


def write_store(store: Path, size: int = LOG_BYTES, body_size: int = 1024, topics: int = TOPICS) -> int:
    """Write a cleanly stopped store of about `size` bytes and return its number of messages."""
    source = random.Random(7)
    path = store / "commitlog" / f"{0:020d}"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        offset = number = 0
        while offset < size:
            offset += file.write(_record(source.randbytes(body_size), offset, number, topics))
            number += 1
    build(CommitLogFiles(store), store, shape_of(store))
    return number


def stored_at(number: int) -> int:
    """Return the time (ms) at which a message of the store was stored."""
    return _STORED + _MS_APART * number


def _record(body: bytes, offset: int, number: int, topics: int) -> bytes:
    return encode_record(
        topic=b"Bench%d" % (number % topics),
        queue_id=0,
        flag=0,
        queue_offset=number // topics,
        physical_offset=offset,
        sys_flag=0,
        born_timestamp=1795224776027 + number,
        born_host=HOST,
        store_timestamp=stored_at(number),
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=PROPERTIES if number % _RARE else b"TAGS\x01rare",
    )


def exports() -> Iterator[Measured]:
    """Export one topic of twenty, and all with `--jobs 2`, against one process that exports everything."""
    with tempfile.TemporaryDirectory() as folder, Workers(2) as workers:
        store, out = Path(folder) / "store", Path(folder) / "out"
        count = write_store(store)

        def export(rows: RowFilter, several: Workers | None = None) -> None:
            shutil.rmtree(out, ignore_errors=True)
            export_store(store, out, rows, workers=several)

        have_memory()
        late = stored_at(count * 19 // 20)
        every, topic, tag, time, two = best_of(
            lambda: export(RowFilter()),
            lambda: export(RowFilter(topics=frozenset({"Bench7"}))),
            lambda: export(RowFilter(tags=frozenset({"rare"}))),
            lambda: export(RowFilter(begin_time=late)),
            lambda: export(RowFilter(), workers),
            rounds=3,
        )
        against = "all topics, --jobs 1"
        yield Measured("1024 B bodies, export, --jobs 1", count / every, "msg/s")
        yield Measured("1024 B bodies, export, one topic of 20", 1 / topic, "1/s", every / topic, against)
        yield Measured(f"1024 B bodies, export, a tag of 1 in {_RARE}", 1 / tag, "1/s", every / tag, against)
        yield Measured("1024 B bodies, export, last 20th of the time", 1 / time, "1/s", every / time, against)
        yield Measured("1024 B bodies, export, --jobs 2", count / two, "msg/s", every / two, against)
