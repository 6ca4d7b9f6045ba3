"""The check of real stores sees what is wrong: each fault is planted in a sound one, or in what is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.broker.store import MessageStore
from rmqcli.broker.store.config import StoreConfig
from rmqcli.codec.records.reading import decode_record
from tests.broker.store.support import loaded, message, small_config
from tests.crash.real_store import TOPIC, Ack, Acked, check_store

Fault = Callable[[Path, Acked], None]
COUNT = 60


def _config(root: Path) -> StoreConfig:
    return small_config(root, mapped_file_size_commit_log=4096)


@pytest.fixture
def acked(tmp_path: Path) -> Acked:
    """Messages in files that roll, all acknowledged."""
    with loaded(_config(tmp_path)) as store:
        return dict(_stored(store, number) for number in range(COUNT))


def _stored(store: MessageStore, number: int) -> tuple[tuple[int, int], Ack]:
    stored = store.writer.append(message(number, topic=TOPIC))
    record = decode_record(store.search.record_at(stored.physical_offset) or b"")
    return (0, stored.queue_offset), Ack(record.msg_id, record.body.decode(), stored.physical_offset)


def _files(root: Path, folder: str) -> list[Path]:
    return sorted(path for path in (root / folder).rglob("*") if path.is_file())


def lost(_: Path, acked: Acked) -> None:
    acked[0, COUNT] = Ack("id", "body", 10**6)


def changed(_: Path, acked: Acked) -> None:
    acked[0, 1] = acked[0, 1]._replace(body="another")


def stored_twice(root: Path, acked: Acked) -> None:
    with loaded(_config(root)) as store:
        _stored(store, 1)


def file_gone(root: Path, acked: Acked) -> None:
    _files(root, "commitlog")[1].unlink()


def begins_late(root: Path, acked: Acked) -> None:
    _files(root, "commitlog")[0].unlink()


def entry_gone(root: Path, acked: Acked) -> None:
    path = _files(root, "consumequeue")[0]
    path.write_bytes(bytes(20) + path.read_bytes()[20:])


FAULTS: dict[Fault, str] = {
    lost: "are gone or changed",
    changed: "are gone or changed",
    stored_twice: "stored twice",
    file_gone: "no commit log file begins",
    begins_late: "begins at",
    entry_gone: "other entries",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault: Fault, tmp_path: Path, acked: Acked) -> None:
    check_store(tmp_path, acked)
    fault(tmp_path, acked)
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        check_store(tmp_path, acked)


def test_removed_files_are_forgotten(tmp_path: Path, acked: Acked) -> None:
    begins_late(tmp_path, acked)
    check_store(tmp_path, acked, expires=True)
    assert 0 < len(acked) < COUNT
