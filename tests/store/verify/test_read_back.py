"""A store folder that is read back as it grows: sound as Java or our broker wrote it, and with damage named."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.store.consume_queue import ENTRY_SIZE
from rmqcli.codec.store.index_file import HEADER, ITEM, item_position, slot_position
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.files import files_in
from rmqcli.store.verify.findings import Finding
from rmqcli.store.verify.read_back import ReadBack
from tests.broker.store.support import LOG_SIZE, SLOTS, loaded, message, small_config
from tests.store.damage import used_bytes
from tests.support import INDEX_SLOTS, JavaStore

Copy = Callable[[str], JavaStore]


def end_of(store: Path) -> int:
    return max(place.offset + place.size for place, _ in CommitLogFiles(store).records())


def read_back(store: Path, begin: int = 0, end: int | None = None) -> Finding | None:
    """Checks all of a store of Java piece by piece."""
    size = files_in(store / "commitlog")[0].size
    back = ReadBack(store, begin, slots=INDEX_SLOTS, file_size=size)
    end = end_of(store) if end is None else end
    position = -1
    while position < back.position:
        position = back.position
        if finding := back.check(end):
            return finding
    assert (back.position, back.verified) == (end, end)
    return None


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def longest_queue(store: Path) -> Path:
    """Its first file."""
    return max((store / "consumequeue").glob("*/*/" + "0" * 20), key=used_bytes)


def test_a_store_of_java_is_sound(store_clean: JavaStore) -> None:
    assert read_back(store_clean.root) is None


@pytest.mark.parametrize("number", [1, 700, 3000])
def test_from_any_record_on(store_clean: JavaStore, number: int) -> None:
    places = [place.offset for place, _ in CommitLogFiles(store_clean.root).records()]
    assert read_back(store_clean.root, places[number]) is None


def test_bytes_of_records(copy_java_store: Copy) -> None:
    """Of sizes, magic, CRC, queue, offsets and body: what else a record says is said nowhere else."""
    store = copy_java_store("store-clean").root
    places = [place for place, _ in CommitLogFiles(store).records()]
    chance = random.Random(1)
    found = 0
    for place in chance.sample(places, 60):
        path = place.file.path
        record = path.read_bytes()[place.position :]
        body = int.from_bytes(record[84:88], "big")
        at = chance.choice([*range(16), *range(20, 36), *range(84, 88 + body)])
        before = record[at]
        overwrite(path, place.position + at, bytes([before ^ 1 << chance.randrange(8)]))
        finding = read_back(store, place.offset, place.offset + place.size)
        found += finding is not None
        assert finding is None or str(store) in str(finding)
        overwrite(path, place.position + at, bytes([before]))
    assert found == 60


@pytest.mark.parametrize("at", [0, 7, 8, 11, 12, 19])
def test_every_byte_of_an_entry(copy_java_store: Copy, at: int) -> None:
    store = copy_java_store("store-clean").root
    path = longest_queue(store)
    before = path.read_bytes()[ENTRY_SIZE + at]
    overwrite(path, ENTRY_SIZE + at, bytes([before ^ 4]))
    finding = read_back(store)
    assert finding is not None
    assert (finding.path, finding.position) == (path, ENTRY_SIZE)
    assert finding.problem.startswith("queue offset 1: ")


def test_an_entry_and_a_queue_that_are_missing(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean").root
    path = longest_queue(store)
    overwrite(path, ENTRY_SIZE, bytes(ENTRY_SIZE))
    finding = read_back(store)
    assert finding is not None
    assert "queue offset 1: no entry for the record at commit-log offset" in str(finding)
    path.unlink()
    finding = read_back(store)
    assert finding is not None
    assert finding.path == path.parent


@pytest.mark.parametrize("at", [0, 3, 4, 11, 12, 15, 16, 19])
def test_every_byte_of_an_index_item(copy_java_store: Copy, at: int) -> None:
    store = copy_java_store("store-clean").root
    path = sorted((store / "index").iterdir())[0]
    position = item_position(INDEX_SLOTS, 900)
    before = path.read_bytes()[position + at]
    overwrite(path, position + at, bytes([before ^ 64]))
    finding = read_back(store)
    assert finding is not None
    assert (finding.path, finding.position) == (path, position)


def test_a_slot_that_leads_elsewhere(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean").root
    path = sorted((store / "index").iterdir())[0]
    data = path.read_bytes()
    key_hash = ITEM.unpack_from(data, item_position(INDEX_SLOTS, 900))[0]
    for wrong in (3, 1 << 30, -1):
        overwrite(path, slot_position(key_hash % INDEX_SLOTS), wrong.to_bytes(4, "big", signed=True))
        finding = read_back(store)
        assert finding is not None
        assert "does not lead to it" in finding.problem


def test_a_log_file_that_is_missing_or_zeros(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean").root
    end = end_of(store)
    path = files_in(store / "commitlog")[1].path
    overwrite(path, 0, bytes(FILLER_HEAD_SIZE))
    finding = read_back(store, 0, end)
    assert finding is not None
    assert (finding.path, finding.position) == (path, 0)
    path.unlink()
    assert str(read_back(store, 0, end)) == f"{path}: byte 0: it is missing"


def test_what_the_writer_has_not_settled_is_left(tmp_path: Path) -> None:
    """Of an open store the log and the queues are there, index items a little later; all come in the end."""
    with loaded(small_config(tmp_path)) as store:
        back = ReadBack(tmp_path, 0, slots=SLOTS, file_size=LOG_SIZE)
        for number in range(400):
            store.writer.append(message(number, queue_id=number % 3))
            if number % 7 == 0:
                while back.position < store.commit_log_max_offset:
                    assert back.check(store.commit_log_max_offset) is None
                assert back.verified <= back.position == store.commit_log_max_offset
        assert store.commit_log_max_offset - back.verified < LOG_SIZE
        assert store._index is not None
        store._index.drain(may_create=True)
        while back.position < store.commit_log_max_offset:
            assert back.check(store.commit_log_max_offset) is None
        assert back.check(store.commit_log_max_offset) is None
        assert back.verified == store.commit_log_max_offset


def test_items_that_are_half_written_are_left(tmp_path: Path) -> None:
    """A writer raises the count first, then writes items and slots, then the rest of the header."""
    with loaded(small_config(tmp_path)) as store:
        for number in range(4):
            store.writer.append(message(number))
        assert store._index is not None
        store._index.drain(may_create=True)
        end = store.commit_log_max_offset
        (path,) = (tmp_path / "index").iterdir()
        whole = path.read_bytes()
        count = HEADER.unpack_from(whole)[-1]
        last = item_position(SLOTS, count - 1)
        overwrite(path, last, bytes(ITEM.size))
        back = ReadBack(tmp_path, 0, slots=SLOTS, file_size=LOG_SIZE)
        assert back.check(end) is None
        assert back.verified < end
        overwrite(path, last, whole[last : last + ITEM.size])
        assert back.check(end) is None
        assert back.verified == end


def test_a_topic_that_was_created_again(tmp_path: Path) -> None:
    """Records of the first one have no entries, which is no damage; another first entry would be."""
    with loaded(small_config(tmp_path)) as store:
        for number in range(5):
            store.writer.append(message(number))
        second = store.commit_log_max_offset
        runs = bytes(store.log_part(0, second))
    copy = tmp_path / "copy"
    with loaded(small_config(copy)) as store:
        store.replica.append_at(0, runs)
        again = bytearray(runs)
        for at in (
            position for position in range(len(again)) if again[position : position + 2] == b"\xda\xa3"
        ):
            start = at - 4
            own = int.from_bytes(again[start + 28 : start + 36], "big")
            again[start + 28 : start + 36] = (own + second).to_bytes(8, "big")
        store.replica.append_at(second, bytes(again))
        back = ReadBack(copy, 0, slots=SLOTS, file_size=LOG_SIZE)
        assert back.check(store.commit_log_max_offset) is None
        queue = next((copy / "consumequeue").glob("*/*/0*"))
        overwrite(queue, 0, (second + 1).to_bytes(8, "big"))
        finding = ReadBack(copy, 0, slots=SLOTS, file_size=LOG_SIZE).check(store.commit_log_max_offset)
        assert finding is not None
        assert finding.path == queue


def test_a_record_of_a_queue_that_cannot_be(tmp_path: Path) -> None:
    """The copy has the record, as its master does, and no entry: its queue would be elsewhere."""
    with loaded(small_config(tmp_path / "a")) as store:
        store.writer.append(message(topic="T" * 5))
        record = bytes(store.log_part(0, LOG_SIZE)).replace(b"TTTTT", b"../up", 1)
    with loaded(small_config(tmp_path / "b")) as store:
        store.replica.append_at(0, record)
        finding = ReadBack(tmp_path / "b", 0, slots=SLOTS, file_size=LOG_SIZE).check(len(record))
    path = tmp_path / "b" / "commitlog" / ("0" * 20)
    text = "there is no topic '../up' with a queue 0 and offset 0"
    assert str(finding) == f"{path}: byte 0: {text}"
