"""`rmq inspect verify` on one core and on two, against one zlib.crc32 call over the commit log.

Page cache warm, bodies of 1 KB. The start of the second process is included. Two processes that share
nothing, each with zlib.crc32 of half of every file, show the gain that the machine allows at that moment:
cores of a virtual machine can be shared threads. Reading is not part of the CRC's time. The bytes are in
shared memory, because a fork copies the page tables of private memory, which `rmq inspect` does not have.
"""

from __future__ import annotations

import mmap
import multiprocessing
import random
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.codec import record
from benchmarks.harness import Measured, best_of, have_memory
from rmqcli.codec.records.encoding import encode_filler
from rmqcli.store import CommitLogFiles, verify_commit_log
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair.rebuild import Shape, build
from rmqcli.store.verify.store import verify_store
from rmqcli.store.workers import Workers

LOG_BYTES = 768 * 1024 * 1024
FILE_BYTES = 256 * 1024 * 1024
_BODY = 1024
_JOBS = 2


def write_store(store: Path) -> int:
    """Write full commit-log files, queues and index; return the bytes of the log."""
    source = random.Random(7)
    (store / "commitlog").mkdir(parents=True)
    number = 0
    for base in range(0, LOG_BYTES, FILE_BYTES):
        with (store / "commitlog" / f"{base:020d}").open("wb") as file:
            at = 0
            while at + 2 * _BODY < FILE_BYTES:
                at += file.write(record(source.randbytes(_BODY), base + at, number))
                number += 1
            file.write(encode_filler(FILE_BYTES - at))
            file.truncate(FILE_BYTES)
    build(CommitLogFiles(store), store, Shape())
    return LOG_BYTES


def _shared(data: bytes) -> mmap.mmap:
    pages = mmap.mmap(-1, len(data))
    pages[:] = data
    return pages


def _crc_of_halves(paths: list[Path], halves: tuple[int, ...]) -> None:
    for path in paths:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            middle = len(pages) // 2
            for half in halves:
                with memoryview(pages) as whole, whole[half * middle : (half + 1) * middle] as part:
                    zlib.crc32(part)


def _crc_by_two(paths: list[Path]) -> None:
    other = multiprocessing.get_context("fork").Process(target=_crc_of_halves, args=(paths, (1,)))
    other.start()
    _crc_of_halves(paths, (0,))
    other.join()


def verify() -> Iterator[Measured]:
    """Verify the commit log alone, and the whole folder with queues and index."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        size = write_store(store)
        log = CommitLogFiles(store)

        def whole_log(jobs: int) -> None:
            with Workers(jobs) as workers:
                assert verify_commit_log(log, workers=workers).sound

        def whole_store(jobs: int) -> None:
            with Workers(jobs) as workers:
                assert verify_store(StoreFolder(store), workers=workers).sound

        have_memory()
        contents = [_shared(file.path.read_bytes()) for file in log.files]
        paths = [file.path for file in log.files]
        crc, one, two, all_one, all_two, crc_one, crc_two = best_of(
            lambda: [zlib.crc32(content) for content in contents],
            lambda: whole_log(1),
            lambda: whole_log(_JOBS),
            lambda: whole_store(1),
            lambda: whole_store(_JOBS),
            lambda: _crc_of_halves(paths, (0, 1)),
            lambda: _crc_by_two(paths),
            rounds=5,
        )
        yield Measured("commit log", size / one / 1e6, "MB/s", crc / one, "zlib.crc32", "0.3")
        yield Measured("commit log, 2 jobs", size / two / 1e6, "MB/s", one / two, "one core", "1.7")
        rate = size / crc_two / 1e6
        yield Measured("zlib.crc32, 2 processes", rate, "MB/s", crc_one / crc_two, "one")
        yield Measured("whole store", size / all_one / 1e6, "MB/s", crc / all_one, "zlib.crc32")
        yield Measured("whole store, 2 jobs", size / all_two / 1e6, "MB/s", all_one / all_two, "one core")
