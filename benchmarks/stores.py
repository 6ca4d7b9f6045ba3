"""Work on stores of many queues and of small messages, each against what no tool can do without.

One core, page cache warm. Each topic has one queue, which has one preallocated file of 6 MB, as a broker
writes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.export import write_store
from benchmarks.harness import Measured, best_of, have_memory
from benchmarks.scan import one_core
from rmqcli.export import RowFilter, export_store
from rmqcli.export.from_store.by_queues import queue_places
from rmqcli.export.from_store.queue_check import StoreQueues
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.files import mapped
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair.rebuild import Shape, build
from rmqcli.store.repair.salvage import salvage
from rmqcli.store.stats.overview import overview
from rmqcli.store.verify.store import verify_store

LOG_BYTES = 128 * 1024 * 1024
QUEUES = 800
_SMALL = 20


def stores() -> Iterator[Measured]:
    have_memory()
    with tempfile.TemporaryDirectory() as folder, one_core():
        yield from _many_queues(Path(folder))
    with tempfile.TemporaryDirectory() as folder, one_core():
        yield from _small_messages(Path(folder))


def _many_queues(folder: Path) -> Iterator[Measured]:
    store, out = folder / "store", folder / "out"
    write_store(store, LOG_BYTES, topics=QUEUES)
    paths = list((store / "consumequeue").glob("*/*/*"))
    seconds, states = best_of(
        lambda: overview(StoreFolder(store)), lambda: [path.stat() for path in paths], rounds=3
    )
    name = f"{QUEUES} queues, inspect store"
    yield Measured(name, len(paths) / seconds, "queue/s", seconds / states, "os.stat")
    seconds, crc = best_of(lambda: verify_store(StoreFolder(store)), lambda: _crc(store), rounds=3)
    name = f"{QUEUES} queues, inspect verify --jobs 1"
    yield Measured(
        name, LOG_BYTES / seconds / 1e6, "MB/s", seconds / crc, "zlib.crc32 of the mapped log", "4"
    )
    seconds, read = best_of(
        lambda: queue_places(StoreQueues(store, RowFilter(queue_id=0))), lambda: _read_queues(store), rounds=3
    )
    name = f"{QUEUES} queues, plan of an export"
    yield Measured(name, len(paths) / seconds, "queue/s", seconds / read, "os.scandir, open and read")
    every, topic = best_of(_export(store, out), _export(store, out, "Bench7"), rounds=3)
    yield Measured(f"{QUEUES} queues, export, one topic", 1 / topic, "1/s", every / topic, "all topics")


def _read_queues(store: Path) -> None:
    """Read the first page of each queue file, as no tool can do without."""
    for topic in os.scandir(store / "consumequeue"):
        for queue in os.scandir(topic):
            for file in os.scandir(queue):
                handle = os.open(file, os.O_RDONLY)
                os.pread(handle, 4096, 0)
                os.close(handle)


def _crc(store: Path) -> None:
    for file in CommitLogFiles(store).files:
        with mapped(file) as data:
            zlib.crc32(data)


def _export(store: Path, out: Path, *topics: str) -> Callable[[], object]:
    def run() -> None:
        shutil.rmtree(out, ignore_errors=True)
        export_store(store, out, RowFilter(topics=frozenset(topics)))

    return run


def _small_messages(folder: Path) -> Iterator[Measured]:
    store, out = folder / "store", folder / "out"
    count = write_store(store, LOG_BYTES // 2, _SMALL)

    def anew(repair: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            shutil.rmtree(out, ignore_errors=True)
            repair()

        return run

    saved, built = best_of(
        anew(lambda: salvage(store, out)),
        anew(lambda: build(CommitLogFiles(store), out, Shape())),
        rounds=3,
    )
    name = f"{_SMALL} B bodies, inspect salvage"
    yield Measured(name, count / saved, "msg/s", saved / built, "inspect rebuild", "3")
