"""A store of many queues: what is done once for the log, and what for each queue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.codec.store.file_names import file_name
from rmqcli.store import CommitLogFiles, queue_folders, verify_consume_queues
from rmqcli.store.read import commit_log
from rmqcli.store.read.files import NamedFile, mapping
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair.rebuild import Shape, build
from rmqcli.store.verify import consume_queues, index
from rmqcli.store.verify.consume_queues import QueuePart
from rmqcli.store.verify.store import verify_store
from tests.codec.samples import make_record
from tests.store.one_by_one import one_by_one

QUEUES = 40
RECORDS = 800
"""Twenty in each queue: in as many as are checked together."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queues")
    data = bytearray()
    for number in range(RECORDS):
        queue = number % QUEUES
        fields = {"queue_id": queue, "queue_offset": number // QUEUES, "physical_offset": len(data)}
        data += make_record(**fields, properties=b"KEYS\x01k")
    (folder / "commitlog").mkdir()
    (folder / "commitlog" / file_name(0)).write_bytes(data)
    build(CommitLogFiles(folder), folder, Shape(queue_file_size=300 * ENTRY.size))
    return folder


def test_the_log_is_mapped_for_many_queues_at_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[NamedFile] = []

    def noted(file: NamedFile) -> object:
        seen.append(file)
        return mapping(file)

    monkeypatch.setattr(commit_log, "mapping", noted)
    monkeypatch.setattr(consume_queues, "_TASK_PARTS", QUEUES // 2)
    assert verify_consume_queues(queue_folders(store)).items == RECORDS
    assert len(seen) == 2


def test_sound_entries_and_items_are_not_compared_one_by_one(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are compared with what the log says, so a look at their records is as wrong as a longer time."""
    monkeypatch.setattr(consume_queues, "_verify_part", None)
    monkeypatch.setattr(index, "verify_part", None)
    report = verify_store(StoreFolder(store))
    assert report.sound
    assert [report.parts[name].items for name in ("commitlog", "consumequeue", "index")] == [RECORDS] * 3


@pytest.mark.parametrize("name", ["commitlog", "consumequeue/TopicA/7"])
def test_damage_leads_to_its_entries(store: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One entry or record is wrong; its entry alone is compared."""
    path = store / name / file_name(0)
    sound, compared = path.read_bytes(), []
    record = len(sound) // RECORDS * QUEUES + (len(sound) // RECORDS) * 7
    place = sound.index(b"hello0", record) if name == "commitlog" else ENTRY.size + 19
    verify_part = consume_queues._verify_part

    def noted(part: QueuePart, check: Any) -> None:
        compared.append(part.queue.queue_id)
        verify_part(part, check)

    monkeypatch.setattr(consume_queues, "_verify_part", noted)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\x01")
    report = verify_store(StoreFolder(store))
    path.write_bytes(sound)
    of_queue = report.parts["consumequeue"].findings
    assert [finding.position for finding in of_queue] == [ENTRY.size]
    assert report.parts["consumequeue"].items == RECORDS - 1
    assert compared == [7]


def test_one_by_one_the_same_is_found(store: Path) -> None:
    """Each entry of a queue is damaged in another way; the last one has the size 0, as if it was not written."""
    path = store / "consumequeue" / "TopicA" / "7" / file_name(0)
    sound = path.read_bytes()
    with path.open("r+b") as file:
        for number in range(20):
            file.seek(number * ENTRY.size + number)
            file.write(b"\x01")
        file.seek(19 * ENTRY.size)
        file.write(bytes(ENTRY.size))
    report = verify_store(StoreFolder(store))
    with one_by_one():
        slow = verify_store(StoreFolder(store))
    path.write_bytes(sound)
    assert len(report.findings) > 10
    assert (report.findings, report.remarks) == (slow.findings, slow.remarks)


def test_an_entry_that_a_sparse_copy_ends_in_a_hole(tmp_path: Path) -> None:
    """Tags code 0: entry 204 begins before byte 4096 and ends behind, with zeros from byte 4092 on."""
    data = bytearray()
    for number in range(205):
        fields = {"queue_offset": number, "physical_offset": len(data)}
        data += make_record(**fields, properties=b"")
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / file_name(0)).write_bytes(data)
    build(CommitLogFiles(tmp_path), tmp_path, Shape())
    path = tmp_path / "consumequeue" / "TopicA" / "1" / file_name(0)
    size, entries = path.stat().st_size, path.read_bytes()[:4092]
    assert verify_store(StoreFolder(tmp_path)).parts["consumequeue"].items == 205
    path.write_bytes(entries)
    os.truncate(path, size)
    assert verify_store(StoreFolder(tmp_path)).parts["consumequeue"].items == 205
