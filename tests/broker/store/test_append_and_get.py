"""Appends and reads: statuses, limits, filters, rolling, batches, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from rmqcli.broker.store import GetResult, GetStatus, MessageStore, PutStatus, StoreMessage
from rmqcli.broker.store.values import AppendResult
from rmqcli.codec.core.hashing import tags_code
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.records.reading import decode_record, decode_records, peek_record
from rmqcli.codec.store.record_layout import MAGIC_FILLER
from tests.broker.store.support import (
    BORN,
    ITEMS,
    LOG_SIZE,
    QUEUE_SIZE,
    SLOTS,
    START_MS,
    Clock,
    Heard,
    Rebuild,
    loaded,
    message,
    numbers,
    queue_bytes,
    small_config,
    told_of,
)

UNITS_A_FILE = QUEUE_SIZE // 20


def test_a_record_holds_what_was_appended(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path), Clock()) as store:
        result = store.writer.append(message(5, queue_id=2))
        found = store.reader.get("TopicA", 2, 0, 32)
    assert (result.status, result.physical_offset, result.queue_offset) == (PutStatus.PUT_OK, 0, 0)
    assert (found.status, found.next_begin_offset, found.count) == (GetStatus.FOUND, 1, 1)
    record = decode_record(found.views[0], check_crc=True)
    assert record.body == message(5).body
    assert record.properties == message(5).properties
    assert (record.store_timestamp, record.born_timestamp) == (START_MS, START_MS - 5)
    assert (record.store_host, record.born_host) == ("127.0.0.1:10911", "10.0.0.7:40000")
    assert record.store_size == result.size == found.size


@pytest.mark.parametrize(
    ("offset", "status", "begin"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 3),
        (2, GetStatus.OFFSET_TOO_SMALL, 3),
        (3, GetStatus.FOUND, 5),
        (5, GetStatus.OFFSET_OVERFLOW_ONE, 5),
        (6, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
    ],
)
def test_status_by_offset(tmp_path: Path, offset: int, status: GetStatus, begin: int) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number in range(5):
            store.writer.append(message(number))
        store._queues.ensure("TopicA", 0).min_offset = 3
        result = store.reader.get("TopicA", 0, offset, 32)
    assert (result.status, result.next_begin_offset) == (status, begin)
    assert (result.min_offset, result.max_offset) == (3, 5)


def test_queues_that_do_not_exist_or_are_empty(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        absent = store.reader.get("TopicA", 0, 7, 32)
        store._queues.ensure("TopicA", 0)
        empty = store.reader.get("TopicA", 0, 7, 32)
        assert (store.search.min_offset("TopicA", 1), store.search.max_offset("TopicA", 1)) == (0, 0)
    assert absent == GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
    assert empty == GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [])


@pytest.mark.parametrize(
    ("settings", "max_nums", "count"),
    [
        ({}, 4, 4),
        ({"max_transfer_count_on_message_in_memory": 3}, 32, 3),
        ({"max_transfer_bytes_on_message_in_memory": 700}, 32, 2),
        ({"max_transfer_bytes_on_message_in_memory": 1}, 32, 1),
        ({"access_message_in_memory_max_ratio": -1}, 32, 8),
        ({"access_message_in_memory_max_ratio": -1, "max_transfer_bytes_on_message_in_disk": 700}, 32, 2),
    ],
)
def test_a_batch_is_full(tmp_path: Path, settings: dict[str, Any], max_nums: int, count: int) -> None:
    with loaded(small_config(tmp_path, **settings)) as store:
        for number in range(12):
            store.writer.append(message(number))
        result = store.reader.get("TopicA", 0, 0, max_nums)
        assert (result.count, result.next_begin_offset) == (count, count)
        assert result.slow == ("access_message_in_memory_max_ratio" in settings)


def test_filters_scan_on(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number in range(9):
            store.writer.append(message(number))
        wanted = tags_code("Tag1")
        by_code = store.reader.get("TopicA", 0, 0, 32, accepts_code=lambda code: code == wanted)
        by_record = store.reader.get("TopicA", 0, 0, 32, accepts_record=lambda view: b"7:bbb" in bytes(view))
        nothing = store.reader.get("TopicA", 0, 2, 32, accepts_code=lambda code: False)
    assert [decode_record(view).queue_offset for view in by_code.views] == [1, 4, 7]
    assert [decode_record(view).queue_offset for view in by_record.views] == [7]
    assert (nothing.status, nothing.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 9)


def test_a_read_ends_with_the_queue_file(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number in range(UNITS_A_FILE + 4):
            store.writer.append(message(number))
        assert store.reader.get("TopicA", 0, UNITS_A_FILE - 2, 32).next_begin_offset == UNITS_A_FILE
        assert numbers(store, "TopicA", 0) == list(range(UNITS_A_FILE + 4))


def test_neighbours_are_one_view_and_views_are_not_copies(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number in range(3):
            store.writer.append(message(number))
        store.writer.append(message(0, queue_id=1))
        store.writer.append(message(3))
        result = store.reader.get("TopicA", 0, 0, 32)
        assert [len(decode_records(view)) for view in result.views] == [3, 1]
        assert all(view.obj is store._log.segments.segments[0].view.obj for view in result.views)


def test_records_never_cross_files(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        offsets = [
            store.writer.append(message(number, size=700 + number)).physical_offset for number in range(60)
        ]
        assert numbers(store, "TopicA", 0) == list(range(60))
    files = sorted((tmp_path / "commitlog").iterdir())
    assert [int(path.name) for path in files] == [number * LOG_SIZE for number in range(len(files))]
    assert len(files) > 3
    last_of_first = max(offset for offset in offsets if offset < LOG_SIZE)
    data = files[0].read_bytes()
    end = last_of_first + peek_record(data, last_of_first).total_size
    assert peek_record(data, end) == (LOG_SIZE - end, MAGIC_FILLER)
    assert not any(data[end + 8 :])


@pytest.mark.parametrize("room", [7, 8, 9])
def test_eight_bytes_stay_for_the_filler_record(tmp_path: Path, room: int) -> None:
    with loaded(small_config(tmp_path)) as store:
        overhead = store.writer.append(message(0)).size - 100
        rest = LOG_SIZE - store.commit_log_max_offset - overhead - room
        second = store.writer.append(message(1, size=rest))
        assert second.physical_offset == (LOG_SIZE if room < 8 else overhead + 100)


def test_queues_and_index_equal_a_rebuild(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    with loaded(config) as store:
        for number in range(300):
            store.writer.append(message(number, topic=f"Topic{number % 5}", queue_id=number % 3))
        for number in range(300, 306):
            store.writer.append(message(number, sys_flag=4))
        store.writer.append(message(306, sys_flag=8))
        store.writer.append(message(307, sys_flag=12))
        store.query("TopicA", "k1", 1, 0, 1)  # writes what was gathered for the index
    rebuilt = Rebuild(tmp_path)
    assert len(rebuilt.records) == 308
    assert queue_bytes(tmp_path) == rebuilt.queues()
    index = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    assert len(index) > 2
    assert index == rebuilt.index_files(SLOTS, ITEMS)


def _stored_batch(store: MessageStore, message: StoreMessage) -> AppendResult:
    steps = store.writer.prepare_batch(message)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            results = [store.writer.append_batch(part) for part in end.value]
            return structs.replace(results[0], size=sum(result.size for result in results))


def _batch(store: MessageStore, *bodies: bytes) -> Any:
    items = [
        Message(topic="TopicA", body=body, properties={"UNIQ_KEY": f"u{n}", "TAGS": "T"})
        for n, body in enumerate(bodies)
    ]
    return _stored_batch(
        store,
        StoreMessage(
            topic="TopicA",
            queue_id=1,
            body=encode_batch(items),
            properties={},
            properties_text=b"CLUSTER\x01c",
            born_timestamp=1,
            born_host=BORN,
        ),
    )


def test_a_batch_lies_in_one_file_with_offsets_in_a_row(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        store.writer.append(message(0, size=LOG_SIZE - 3000))
        result = _batch(store, *[bytes([65 + n]) * 900 for n in range(5)])
        found = store.reader.get("TopicA", 1, 0, 32)
        assert store.query("TopicA", "u3", 9, 0, 1 << 50).views
    assert (result.status, result.physical_offset, result.queue_offset) == (PutStatus.PUT_OK, LOG_SIZE, 0)
    records = decode_records(b"".join(found.views), check_crc=True)
    assert tuple(record.commit_log_offset for record in records) == result.physical_offsets
    assert [record.queue_offset for record in records] == [0, 1, 2, 3, 4]
    assert [record.body[:1] for record in records] == [b"A", b"B", b"C", b"D", b"E"]
    assert records[0].properties == {"UNIQ_KEY": "u0", "TAGS": "T", "CLUSTER": "c"}


def test_a_batch_of_small_items_may_be_longer_stored_than_sent(tmp_path: Path) -> None:
    """Each record has some 100 bytes of its own, which the limit of messages does not count."""
    limit = 50_000
    items = encode_batch([Message(topic="TopicA", body=b"x")] * (limit // 23))
    assert limit - 23 < len(items) <= limit
    batch = structs.replace(message(queue_id=1), body=items)
    config = small_config(tmp_path, max_message_size=limit, mapped_file_size_commit_log=1 << 20)
    with loaded(config) as store:
        results = [_stored_batch(store, batch) for _ in range(6)]
    assert {result.status for result in results} == {PutStatus.PUT_OK}
    assert results[0].size > limit + 65536
    assert results[-1].physical_offset > 1 << 20


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (message(topic="t" * 128), PutStatus.MESSAGE_ILLEGAL),
        (message(size=4001), PutStatus.MESSAGE_ILLEGAL),
        (structs.replace(message(), properties_text=b"p" * 32768), PutStatus.PROPERTIES_SIZE_EXCEEDED),
        (message(size=4000, PAD="p" * 15000), PutStatus.MESSAGE_ILLEGAL),
    ],
)
def test_refusals_leave_nothing(tmp_path: Path, bad: StoreMessage, status: PutStatus) -> None:
    with loaded(small_config(tmp_path, max_message_size=4000)) as store:
        assert store.writer.append(bad).status is status
        assert store.commit_log_max_offset == 0
        assert store.writer.append(message()).queue_offset == 0


def test_a_full_disk_refuses(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        store.stats.set_disk(0.95, full=True)
        assert store.writer.append(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert _batch(store, b"x").status is PutStatus.SERVICE_NOT_AVAILABLE
        store.stats.set_disk(0.5, full=False)
        assert store.writer.append(message()).status is PutStatus.PUT_OK


def test_a_file_that_cannot_be_created(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        (tmp_path / "commitlog").write_bytes(b"in the way")
        assert store.writer.append(message()).status is PutStatus.CREATE_MAPEDFILE_FAILED


@pytest.mark.parametrize(
    ("name", "last_taken"),
    [("consumequeue", PutStatus.CREATE_MAPEDFILE_FAILED), ("index", PutStatus.PUT_OK)],
)
def test_a_queue_or_index_file_that_cannot_be_created(
    tmp_path: Path, name: str, last_taken: PutStatus
) -> None:
    """The record is in the log: no more are accepted, and the next start adds its entry and index items."""
    with loaded(small_config(tmp_path)) as store:
        (tmp_path / name).write_bytes(b"in the way")
        results = [store.writer.append(message(number)).status for number in range(300)]
        refused = results.index(PutStatus.SERVICE_NOT_AVAILABLE)
        assert results[refused - 1] is last_taken
        assert set(results[refused:]) == {PutStatus.SERVICE_NOT_AVAILABLE}
    (tmp_path / name).unlink()
    with loaded(small_config(tmp_path)) as store:
        assert numbers(store, "TopicA", 0) == list(range(refused))
        assert store.query("TopicA", "k0", 9, 0, 1 << 50).views


def test_units_of_delayed_messages_hold_the_deliver_time(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path), Clock()) as store:
        for level in ("3", "99", "0"):
            store.writer.append(message(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, DELAY=level))
        codes = [code for _, _, code in store.search.consume_queue_entries("SCHEDULE_TOPIC_XXXX", 2, 0, 9)]
        assert codes == [START_MS + 10_000, START_MS + 7_200_000, tags_code("Tag0")]


def test_transactions_that_are_not_committed_have_no_unit(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        results = [
            store.writer.append(message(number, sys_flag=flag)) for number, flag in enumerate((4, 12, 8))
        ]
        assert [result.queue_offset for result in results] == [0, 0, 0]
        assert numbers(store, "TopicA", 0) == [2]
        found = [len(store.query("TopicA", f"k{number}", 9, 0, 1 << 50).views) for number in range(3)]
        assert found == [1, 0, 1]


def test_listeners_hear_of_every_unit(tmp_path: Path) -> None:
    heard = Heard()
    with loaded(small_config(tmp_path), Clock()) as store:
        store.add_arrival_listener(heard)
        stored = store.writer.append(message(1, queue_id=3))
        store.writer.append(message(2, queue_id=3, sys_flag=4))
    assert heard.messages == [told_of(message(1, queue_id=3), stored)]


def test_listeners_hear_of_a_batch_of_requests_when_it_ends(tmp_path: Path) -> None:
    heard = Heard()
    with loaded(small_config(tmp_path), Clock()) as store:
        store.add_arrival_listener(heard)
        store.begin_batch()
        stored = [store.writer.append(message(number)) for number in range(3)]
        assert numbers(store, "TopicA", 0) == [0, 1, 2]
        assert heard.messages == []
        store.end_batch()
        stored.append(store.writer.append(message(3)))
        assert heard.messages == [told_of(message(number), stored[number]) for number in range(4)]


def test_keys_are_found_before_the_batch_of_requests_ends(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        store.begin_batch()
        store.writer.append(message(1))
        assert len(store.query("TopicA", "k1", 9, 0, 1 << 50).views) == 1


def test_records_by_physical_offset(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        first = store.writer.append(message(1))
        second = store.writer.append(message(2))
        record = store.search.record_at(second.physical_offset)
        assert record is not None and decode_record(record).body == message(2).body
        assert store.search.record_at_size(first.physical_offset, first.size) == store.search.record_at(0)
        for nowhere in (-1, 3, store.commit_log_max_offset, 1 << 40):
            assert store.search.record_at(nowhere) is None


def test_query_respects_time_and_count(tmp_path: Path) -> None:
    clock = Clock()
    with loaded(small_config(tmp_path), clock) as store:
        for number in range(10):
            store.writer.append(message(number))
            clock.now += 10_000
        all_found = store.query("TopicA", "all", 100, START_MS, clock.now)
        some = store.query("TopicA", "all", 100, START_MS + 30_000, START_MS + 50_000)
        newest = store.query("TopicA", "all", 2, START_MS, clock.now)
        none = store.query("TopicA", "absent", 2, START_MS, clock.now)
    assert [decode_record(view).queue_offset for view in all_found.views] == list(range(10))
    assert [decode_record(view).queue_offset for view in some.views] == [3, 4, 5]
    assert [decode_record(view).queue_offset for view in newest.views] == [8, 9]
    assert all_found.index_last_update_timestamp == START_MS + 90_000
    assert none == ([], 0, 0, 0)


def test_a_store_without_index(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path, message_index_enable=False)) as store:
        store.writer.append(message(1))
        assert store.query("TopicA", "k1", 9, 0, 1 << 50).views == []
    assert not (tmp_path / "index").exists()


def test_records_and_units_that_are_being_removed(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number in range(60):
            store.writer.append(message(number, size=600))
        store._log.segments.take_first().destroy()
        first = store.reader.get("TopicA", 0, 0, 32)
        second = store.reader.get("TopicA", 0, UNITS_A_FILE, 32)
        store._queues.ensure("TopicA", 0).segments.take_first().destroy()
        third = store.reader.get("TopicA", 0, 3, 32)
    assert (first.status, first.next_begin_offset, first.count) == (
        GetStatus.MESSAGE_WAS_REMOVING,
        UNITS_A_FILE,
        0,
    )
    assert second.status is GetStatus.FOUND
    assert decode_record(second.views[0]).commit_log_offset == LOG_SIZE
    assert (third.status, third.next_begin_offset) == (GetStatus.OFFSET_FOUND_NULL, UNITS_A_FILE)


def test_pages_that_leave_memory_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.broker.store.commit_log.TRIM_BYTES", 4096)
    monkeypatch.setattr("rmqcli.broker.store.index.RELEASE_ITEMS", 100)
    with loaded(small_config(tmp_path)) as store:
        for number in range(400):
            store.writer.append(message(number, size=600))
        for _ in range(2):
            assert numbers(store, "TopicA", 0) == list(range(400))
        assert len(store.query("TopicA", "k17", 9, 0, 1 << 50).views) == 1


def test_one_get_looks_at_few_entries_however_many_messages_it_asks_for(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path, mapped_file_size_consume_queue=100_000)) as store:
        for number in range(3300):
            store.writer.append(message(number))
        found = store.reader.get("TopicA", 0, 0, 1 << 30, accepts_code=lambda _code: False)
    assert (found.status, found.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 3200)
