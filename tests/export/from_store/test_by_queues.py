"""A topic of a store read by its consume queues equals one found by a walk of the whole commit log."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.export import RowFilter, export_store
from rmqcli.export.from_store.by_queues import queue_places, scan
from rmqcli.export.from_store.parts import parts_of
from rmqcli.export.from_store.queue_check import StoreQueues
from rmqcli.store.read.lock import holding_lock
from tests.export.support import Row, by_place, java_rows, rows_of, rows_of_table
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]
TOPIC = "SeedTags"


def exported(store: JavaStore, out: Path, rows: RowFilter) -> list[Row]:
    export_store(store.root, out, rows)
    return rows_of(out)


def of_topic(store: JavaStore, topic: str = TOPIC) -> list[Row]:
    return [row for row in java_rows(store) if row["topic"] == topic]


def queue_files(store: JavaStore, topic: str = TOPIC) -> list[Path]:
    return sorted(path for path in (store.root / "consumequeue" / topic).rglob("*") if path.is_file())


def test_every_topic(store_clean: JavaStore, tmp_path: Path) -> None:
    rows = java_rows(store_clean)
    topics = {row["topic"] for row in rows}
    assert len(topics) > 20
    for number, topic in enumerate(sorted(topics)):
        expected = [row for row in rows if row["topic"] == topic]
        assert exported(store_clean, tmp_path / str(number), RowFilter(topics=frozenset({topic}))) == expected


def test_only_its_records_are_read(store_clean: JavaStore, tmp_path: Path, read: list[int]) -> None:
    """The last record of the log, behind all trusted entries, is read, too."""
    expected = of_topic(store_clean)
    assert exported(store_clean, tmp_path / "out", RowFilter(topics=frozenset({TOPIC}))) == expected
    assert len(expected) <= sum(read) <= len(expected) + 1
    assert 0 < len(expected) < 1000


@pytest.mark.parametrize(
    ("rows", "takes"),
    [
        (RowFilter(begin=3, end=9), lambda row: 3 <= row["queue_offset"] < 9),
        (RowFilter(queue_id=1), lambda row: row["queue_id"] == 1),
        (RowFilter(tags=frozenset({"TagA"})), lambda row: row["tags"] == "TagA"),
        (
            RowFilter(done={(TOPIC, 0): 5, (TOPIC, 1): 7}),
            lambda row: row["queue_offset"] >= {0: 5, 1: 7}.get(row["queue_id"], 0),
        ),
    ],
    ids=["offsets", "queue", "tags", "done"],
)
def test_what_is_not_wanted_is_not_read(
    store_clean: JavaStore, tmp_path: Path, read: list[int], rows: RowFilter, takes: Callable[[Row], bool]
) -> None:
    every = of_topic(store_clean)
    expected = [row for row in every if takes(row)]
    assert 0 < len(expected) < len(every)
    assert exported(store_clean, tmp_path / "out", replace(rows, topics=frozenset({TOPIC}))) == expected
    assert len(expected) <= sum(read) <= len(expected) + 1


@pytest.mark.parametrize(
    ("rows", "takes"),
    [
        (RowFilter(begin=3, end=9), lambda row: 3 <= row["queue_offset"] < 9),
        (RowFilter(queue_id=1), lambda row: row["queue_id"] == 1),
        (RowFilter(tags=frozenset({"TagA"})), lambda row: row["tags"] == "TagA"),
        (RowFilter(tags=frozenset({"lv5"})), lambda row: row["tags"] == "lv5"),
        (
            RowFilter(queue_id=2, begin_commit_log=900_000),
            lambda row: row["queue_id"] == 2 and row["commit_log_offset"] >= 900_000,
        ),
    ],
    ids=["offsets", "queue", "tags", "tag of a delayed message", "resumed"],
)
def test_all_topics_at_once(
    store_clean: JavaStore, tmp_path: Path, read: list[int], rows: RowFilter, takes: Callable[[Row], bool]
) -> None:
    expected = [row for row in java_rows(store_clean) if takes(row)]
    # Entries of delayed messages hold times instead of hashes, so their records are read.
    unsure = [row for row in java_rows(store_clean) if rows.tags and row["topic"] == "SCHEDULE_TOPIC_XXXX"]
    assert 0 < len(expected) < 1500
    assert exported(store_clean, tmp_path / "out", rows) == expected
    assert len(expected) <= sum(read) <= len(expected) + len(unsure) + 1


@pytest.mark.parametrize("most", [0, 10_000], ids=["all walked", "gaps walked"])
def test_a_deleted_topic_keeps_its_rows(copy_java_store: Copy, most: int) -> None:
    """Its records are no longer in any queue."""
    store, rows = copy_java_store("store-clean"), RowFilter(queue_id=1)
    shutil.rmtree(store.root / "consumequeue" / TOPIC)
    places = queue_places(StoreQueues(store.root, rows))
    assert places is not None
    parts = parts_of(store.root, rows)
    batches = [batch for part in parts for batch in scan(part, rows, places._replace(most_gaps=most))]
    found = rows_of_table(pa.Table.from_batches(batches))
    assert any(row["topic"] == TOPIC for row in found)
    assert by_place(found) == [row for row in java_rows(store) if row["queue_id"] == 1]


def test_what_is_behind_the_queues_is_walked(copy_java_store: Copy, tmp_path: Path) -> None:
    """Every queue ends at the third quarter of the log, as when a broker is about to write the entries and then
    the index.
    """
    store = copy_java_store("store-clean")
    shutil.rmtree(store.root / "index")
    limit = java_rows(store)[2300]["commit_log_offset"]
    for path in (path for path in (store.root / "consumequeue").rglob("*") if path.is_file()):
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), 20):
            if struct.unpack_from(">q", data, at)[0] >= limit:
                data[at : at + 20] = bytes(20)
        path.write_bytes(data)
    for number, topic in enumerate(sorted({row["topic"] for row in java_rows(store)})):
        assert exported(store, tmp_path / str(number), RowFilter(topics=frozenset({topic}))) == of_topic(
            store, topic
        )


def test_no_queue_of_another_topic_is_opened(
    copy_java_store: Copy, tmp_path: Path, read: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are garbage: whoever read one would not trust the queues."""
    store = copy_java_store("store-clean")
    own, expected = queue_files(store), of_topic(store)
    for path in (store.root / "consumequeue").rglob("*"):
        if path.is_file() and path not in own:
            path.write_bytes(b"\x7f" * path.stat().st_size)
    assert exported(store, tmp_path / "out", RowFilter(topics=frozenset({TOPIC}))) == expected
    assert len(expected) <= sum(read) <= len(expected) + 1
    assert "instead" not in capsys.readouterr().err


@pytest.mark.parametrize("end", [1, -1, 1 << 60, None], ids=["no record", "negative", "far", "no index"])
def test_an_index_that_does_not_tell(
    copy_java_store: Copy, tmp_path: Path, read: list[int], end: int | None
) -> None:
    """What follows the last entry of the topic is walked."""
    store = copy_java_store("store-clean")
    for path in (store.root / "index").iterdir():
        if end is None:
            path.unlink()
        else:
            data = path.read_bytes()
            path.write_bytes(data[:24] + end.to_bytes(8, "big", signed=True) + data[32:])
    expected = of_topic(store)
    walked = [row for row in java_rows(store) if row["commit_log_offset"] > expected[-1]["commit_log_offset"]]
    assert exported(store, tmp_path / "out", RowFilter(topics=frozenset({TOPIC}))) == expected
    assert len(walked) > 100
    assert sum(read) == len(expected) + len(walked)


def test_a_topic_without_messages_is_not_searched(copy_java_store: Copy, read: list[int]) -> None:
    store = copy_java_store("store-clean")
    (store.root / "consumequeue" / "Empty" / "0").mkdir(parents=True)
    rows = RowFilter(topics=frozenset({"Empty"}))
    places = queue_places(StoreQueues(store.root, rows))
    assert places is not None and not places.files
    assert [batch for part in parts_of(store.root, rows) for batch in scan(part, rows, places)] == []
    assert sum(read) <= 1


def test_a_store_that_was_not_stopped_is_walked(store_killed: JavaStore, tmp_path: Path) -> None:
    assert (store_killed.root / "abort").exists()
    topic = java_rows(store_killed)[0]["topic"]
    rows = RowFilter(topics=frozenset({topic}))
    assert queue_places(StoreQueues(store_killed.root, rows)) is None
    assert exported(store_killed, tmp_path / "out", rows) == of_topic(store_killed, topic)


def test_a_store_that_a_broker_runs_on(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    (store.root / "abort").touch()
    assert queue_places(StoreQueues(store.root, RowFilter(topics=frozenset({TOPIC})))) is None
    with holding_lock(store.root):
        assert queue_places(StoreQueues(store.root, RowFilter(topics=frozenset({TOPIC})))) is not None


def _hole(data: bytearray) -> None:
    data[20:40] = bytes(20)


def _swapped(data: bytearray) -> None:
    data[0:20], data[20:40] = data[20:40], data[0:20]


def _of_another(data: bytearray) -> None:
    """Returns the first record of the log, which is of another topic."""
    data[0:8] = bytes(8)


def _into_a_record(data: bytearray) -> None:
    data[7] ^= 1


def _other_size(data: bytearray) -> None:
    data[11] ^= 1


@pytest.mark.parametrize(
    "wanted", [RowFilter(topics=frozenset({TOPIC})), RowFilter(begin=1, end=90)], ids=["topic", "all"]
)
@pytest.mark.parametrize("harm", [_hole, _swapped, _of_another, _into_a_record, _other_size])
def test_queues_that_are_wrong_are_not_used(
    copy_java_store: Copy,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    harm: Callable[[bytearray], None],
    wanted: RowFilter,
) -> None:
    store = copy_java_store("store-clean")
    path = queue_files(store)[0]
    data = bytearray(path.read_bytes())
    assert data[20:40].strip(b"\0")
    harm(data)
    path.write_bytes(data)
    every = of_topic(store) if wanted.topics else java_rows(store)
    begin, end = wanted.begin or 0, wanted.end or 1 << 60
    expected = [row for row in every if begin <= row["queue_offset"] < end]
    assert exported(store, tmp_path / "out", wanted) == expected
    assert "the whole commit log is read instead" in capsys.readouterr().err


def test_damage_is_named_as_by_a_walk(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    damaged = of_topic(store)[3]["commit_log_offset"]
    path, position = store.commit_logs[damaged // 524288], damaged % 524288
    data = bytearray(path.read_bytes())
    data[position + 90] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match=f"{path}: byte {position}: the CRC"):
        export_store(store.root, tmp_path / "out", RowFilter(topics=frozenset({TOPIC})))
    assert not (tmp_path / "out").exists()
