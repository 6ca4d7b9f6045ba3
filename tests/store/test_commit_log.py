"""Walking commit log files: what Java wrote is found whole, what is damaged is named by file and byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codec.errors import CorruptionError
from codec.record import decode_record
from rmqcli.store import CommitLog, ConsumeQueueFiles, explain_entry, explain_record, queue_folders
from rmqcli.store.commit_log import next_record
from rmqcli.store.files import NamedFile, mapped
from tests.support import JavaStore


def test_every_record_of_java_is_found(java_store: JavaStore) -> None:
    found = [place.offset for place, _ in CommitLog(java_store.root).records()]
    assert found == [line["phy"] for line in java_store.of_kind("msg")]


@pytest.mark.parametrize(
    "choose", [lambda root: root, lambda root: root / "commitlog"], ids=["store", "folder"]
)
def test_a_store_and_its_commit_log_folder_are_the_same(
    store_clean: JavaStore, choose: Callable[[Path], Path]
) -> None:
    assert [file.base for file in CommitLog(choose(store_clean.root)).files] == [0, 524288, 1048576, 1572864]


def test_records_from_an_offset_on(store_clean: JavaStore) -> None:
    log = CommitLog(store_clean.root)
    everything = [place.offset for place, _ in log.records()]
    assert [place.offset for place, _ in log.records(from_offset=everything[2000])] == everything[2000:]
    assert log.last(7) == everything[-7]


def test_the_first_file_of_a_time(store_clean: JavaStore) -> None:
    log = CommitLog(store_clean.root)
    firsts = [decode_record(file.path.read_bytes()).store_timestamp for file in log.files]
    assert [log.first_file_at(time + 1) for time in firsts] == [0, 1, 2, 3]
    assert log.first_file_at(0) == 0


def test_a_renamed_copy_takes_its_place_from_its_records(store_clean: JavaStore, tmp_path: Path) -> None:
    copy = tmp_path / "copy.bin"
    shutil.copy(store_clean.commit_logs[1], copy)
    assert next(CommitLog(copy).records())[0].offset == 524288


@pytest.mark.parametrize("path", ["", "missing"])
def test_no_commit_log(tmp_path: Path, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        CommitLog(tmp_path / path)


def test_damage_names_file_and_byte(copy_java_store: Callable[[str], JavaStore]) -> None:
    store = copy_java_store("store-clean")
    second = store.of_kind("msg")[1]["phy"]
    with store.commit_logs[0].open("r+b") as file:
        file.seek(second + 4)
        file.write(b"\0\0\0\0")
    found = []
    with pytest.raises(CorruptionError, match=rf"{store.commit_logs[0].name}: byte {second}") as caught:
        found.extend(place for place, _ in CommitLog(store.root).records())
    assert caught.value.position == second
    assert len(found) == 1


def test_the_next_record_is_found_from_every_byte(store_clean: JavaStore) -> None:
    offsets = [line["phy"] for line in store_clean.of_kind("msg")][:4]
    file = NamedFile(store_clean.commit_logs[0], 0, 524288)
    with mapped(file) as data:
        for start in range(1, offsets[3]):
            assert next_record(file, data, start) == next(at for at in offsets if at >= start)


def test_a_record_inside_a_body_is_not_taken_for_one(tmp_path: Path, store_clean: JavaStore) -> None:
    """A body may hold a whole record; its commit-log offset gives it away."""
    record = store_clean.commit_log[:722]
    path = tmp_path / "00000000000000000000"
    path.write_bytes(bytes(100) + record)
    file = NamedFile(path, 0, 822)
    with mapped(file) as data:
        assert next_record(file, data, 0) is None
        assert next_record(file._replace(base=-100), data, 0) == 100


def test_a_record_explained_is_the_record(store_clean: JavaStore) -> None:
    for line in store_clean.of_kind("msg")[::97]:
        message = decode_record(store_clean.commit_log, line["phy"])
        fields = explain_record(store_clean.commit_log, line["phy"])
        assert (
            b"".join(field.raw for field in fields)
            == store_clean.commit_log[line["phy"] :][: message.store_size]
        )
        values = {field.name: field.value for field in fields}
        assert (values["topic"], values["queue_offset"]) == (message.topic, str(message.queue_offset))
        assert (values["born_host"], values["magic"]) == (message.born_host, "0xDAA320A7")
        assert [field.position for field in fields][:4] == [0, 4, 8, 12]


@pytest.mark.parametrize("length", [0, 3, 50, 87, 90])
def test_a_cut_record_is_not_explained(store_clean: JavaStore, length: int) -> None:
    with pytest.raises(CorruptionError):
        explain_record(store_clean.commit_log[:length])


def test_queue_entries_are_those_of_the_dump(java_store: JavaStore) -> None:
    expected: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    for line in java_store.of_kind("consumequeue-file"):
        topic, queue_id, _ = line["path"].split("/")
        expected.setdefault((topic, int(queue_id)), []).extend(tuple(entry) for entry in line["data"])
    found = {
        (queue.topic, queue.queue_id): [tuple(entry[1:4]) for entry in queue.files.entries()]
        for queue in queue_folders(java_store.root)
    }
    assert found == expected


def test_a_range_of_queue_entries(store_clean: JavaStore) -> None:
    queue = ConsumeQueueFiles(store_clean.root / "consumequeue/SeedNormal/0")
    assert queue.bounds() == (0, 375)
    assert [entry.queue_offset for entry in queue.entries(298, 303)] == [298, 299, 300, 301, 302]
    entry = next(queue.entries(300))
    assert [field.value for field in explain_entry(entry)] == [str(value) for value in entry[1:4]]
    assert (entry.file.path.name, entry.position) == ("00000000000000006000", 0)
