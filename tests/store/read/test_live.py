"""Files that a broker keeps writing while they are read."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from rmqcli.codec.records.encoding import encode_filler
from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.codec.store.file_names import file_name
from rmqcli.export import RowFilter, export_store
from rmqcli.store import CommitLogFiles, queue_folders
from rmqcli.store.read.commit_log import LogReader, as_written
from rmqcli.store.read.files import NamedFile
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.lock import is_locked
from rmqcli.store.verify import consume_queues as verify_queues_module
from rmqcli.store.verify.store import verify_store
from tests.codec.samples import make_record

FILE_SIZE = 1 << 16


class Broker:
    """Writes to a preallocated log and queue, one record for each call."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.written = self.end = 0
        self.queue = store / "consumequeue" / "TopicA" / "1" / file_name(0)
        self.queue.parent.mkdir(parents=True)
        self.queue.write_bytes(bytes(100 * FILE_SIZE))
        (store / "commitlog").mkdir()
        (store / "abort").touch()
        self.preallocate(0)

    def preallocate(self, base: int) -> Path:
        path = self.store / "commitlog" / file_name(base)
        with path.open("wb") as file:
            file.truncate(FILE_SIZE)
        return path

    def write(self, *_: object) -> None:
        base = self.end - self.end % FILE_SIZE
        record = make_record(queue_offset=self.written, physical_offset=self.end)
        if self.end - base + len(record) + 8 > FILE_SIZE:
            put(
                self.store / "commitlog" / file_name(base),
                self.end - base,
                encode_filler(base + FILE_SIZE - self.end),
            )
            self.end = base = base + FILE_SIZE
            self.preallocate(base)
            record = make_record(queue_offset=self.written, physical_offset=self.end)
        put(self.store / "commitlog" / file_name(base), self.end - base, record)
        tags_code = 2598919  # of TagA
        put(self.queue, self.written * ENTRY.size, ENTRY.pack(self.end, len(record), tags_code))
        self.end += len(record)
        self.written += 1


def put(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Yields a broker that has written ten records and holds its lock."""
    found = Broker(tmp_path / "store")
    for _ in range(10):
        found.write()
    with (found.store / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0)
        yield found


def test_verification_while_a_broker_writes(broker: Broker) -> None:
    """New records, entries and whole files are written before and between all steps."""

    def much(*_: object) -> None:
        for _number in range(700):
            broker.write()

    @contextmanager
    def step(name: str, size: int) -> Iterator[Callable[[int], None]]:
        much()
        yield much

    report = verify_store(StoreFolder(broker.store), step)
    assert report.sound, report.findings
    assert report.parts["commitlog"].items == report.parts["consumequeue"].items == 10
    assert report.remarks == [
        "a broker runs on this folder: the check covers what was written when it began",
        "no index file: messages are not found by key, unless a broker keeps no index",
    ]
    assert len(CommitLogFiles(broker.store).files) > 1


def test_verification_of_queues_while_a_broker_writes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = verify_queues_module.verify_queues

    def late(*arguments: Any, **how: Any) -> Any:
        broker.write()
        return check(*arguments, **how)

    monkeypatch.setattr(verify_queues_module, "verify_queues", late)
    report = verify_queues_module.verify_consume_queues(queue_folders(broker.store))
    assert (report.findings, report.items) == ([], 10)


@pytest.mark.parametrize(
    "rows", [RowFilter(), RowFilter(topics=frozenset({"TopicA"})), RowFilter(begin_time=1)]
)
def test_an_export_while_a_broker_writes(broker: Broker, tmp_path: Path, rows: RowFilter) -> None:
    """A resumed export then has every record once."""
    out = tmp_path / "out"
    for turn in count():
        export_store(
            broker.store, out, rows, broker.write if turn < 3 else lambda size: None, resume=turn > 0
        )
        if turn == 3:
            break
    offsets = parquet.read_table(out)["queue_offset"].to_pylist()
    assert sorted(offsets) == list(range(broker.written))
    assert broker.written > 10


def test_an_entry_that_came_behind_the_last_look_at_the_log(broker: Broker) -> None:
    with LogReader(broker.store) as log:
        while broker.end < 2 * FILE_SIZE:
            broker.write()
        place = (broker.end // FILE_SIZE) * FILE_SIZE
        found = log.message(place)
    assert found is not None
    assert found.commit_log_offset == place


def test_without_the_lock_all_of_a_file_counts(broker: Broker) -> None:
    (broker.store / "lock").unlink()
    assert [file.size for file in CommitLogFiles(broker.store).files] == [FILE_SIZE]


@pytest.mark.parametrize("records", [0, 1, 20_000])
def test_the_end_of_what_is_written(tmp_path: Path, records: int) -> None:
    """The file is larger than the reach of the walk."""
    data = bytearray()
    for number in range(records):
        data += make_record(body=bytes(900), physical_offset=len(data), queue_offset=number)
    path = tmp_path / file_name(0)
    path.write_bytes(data)
    size = 1 << 26
    with path.open("r+b") as file:
        file.truncate(size)
    assert as_written([NamedFile(path, 0, size)]) == [NamedFile(path, 0, len(data))]


@pytest.mark.parametrize("garbage", [b"\x00\x00\x01\x00abcdefgh", b"\xff" * 16])
def test_what_is_no_record_is_left_to_the_reader(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / file_name(0)
    data = make_record(physical_offset=0) + garbage
    path.write_bytes(data)
    assert as_written([NamedFile(path, 0, len(data))]) == [NamedFile(path, 0, len(data))]


def test_a_lock_of_this_process_is_seen_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    imports = "import sys; from pathlib import Path; from rmqcli.store.read.lock import is_locked"
    look = f"{imports}; print(is_locked(Path(sys.argv[1])))"

    def seen_by_another() -> str:
        return subprocess.check_output([sys.executable, "-c", look, str(tmp_path)], text=True).strip()

    with path.open("w") as lock:
        assert seen_by_another() == "False"
        fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0)
        assert is_locked(tmp_path)
        assert seen_by_another() == "True"
    assert not is_locked(tmp_path)
