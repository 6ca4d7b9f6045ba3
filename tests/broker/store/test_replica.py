"""What comes through the second door of a store leaves the files that its first door left elsewhere."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from rmqcli.broker.errors import ReplicaRefused
from rmqcli.broker.store import GetStatus, MessageStore, StoreMessage, open_store
from rmqcli.codec.ha.frames import RecordStream
from rmqcli.codec.records.encoding import encode_filler
from rmqcli.codec.store.consume_queue import FILLER_SIZE
from tests.broker.store.support import (
    HOST,
    ITEMS,
    LOG_SIZE,
    SLOTS,
    Clock,
    Heard,
    Rebuild,
    inline,
    killed,
    loaded,
    message,
    numbers,
    queue_bytes,
    small_config,
)
from tests.codec.samples import make_record
from tests.seeds import seeds


def some_messages(seed: int, count: int = 120) -> list[StoreMessage]:
    """Several queues, sizes that roll files, transactions and delays."""
    rng = random.Random(seed)
    messages = []
    for number in range(count):
        made = message(
            number, topic=rng.choice(["A", "B"]), queue_id=rng.randrange(3), size=rng.choice([10, 100, 3000])
        )
        kind = rng.randrange(30)
        if kind == 0:
            made = structs.replace(made, sys_flag=rng.choice([4, 8, 12]))
        elif kind == 1:
            made = message(number, topic="SCHEDULE_TOPIC_XXXX", queue_id=2, DELAY="3")
        messages.append(made)
    return messages


@contextmanager
def source(folder: Path, messages: list[StoreMessage]) -> Iterator[MessageStore]:
    with loaded(small_config(folder)) as store:
        for each in messages:
            store.writer.append(each)
        yield store


def follow(source: MessageStore, target: MessageStore, rng: random.Random, stop: int | None = None) -> None:
    """Has a store follow another through blocks of random sizes, from its end on."""
    begin = target.commit_log_max_offset or source.commit_log_min_offset
    stream = RecordStream(begin)
    end = source.commit_log_max_offset if stop is None else stop
    while stream.next_offset < end:
        offset = stream.next_offset
        part = source.log_part(offset, min(rng.choice([1, 50, 700, 5000, 32768]), end - offset))
        for run in stream.feed(offset, part):
            target.replica.append_at(run.offset, run.data)


def same_files(one: Path, other: Path, log_files: int = 3) -> None:
    for name in sorted(path.name for path in (one / "commitlog").iterdir())[-log_files:]:
        assert (one / "commitlog" / name).read_bytes() == (other / "commitlog" / name).read_bytes(), name
    assert queue_bytes(one) == queue_bytes(other)


@pytest.mark.parametrize("seed", seeds(1))
def test_all_files_are_the_same(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with source(tmp_path / "a", some_messages(seed)) as first, loaded(small_config(tmp_path / "b")) as second:
        follow(first, second, rng)
        assert second.commit_log_max_offset == first.commit_log_max_offset
        for key in ("k7", "all", f"{9:032X}"):
            found = [store.query("A", key, 64, 0, 2**62).views for store in (first, second)]
            assert [bytes(one) for one in found[0]] == [bytes(one) for one in found[1]]
        same_files(tmp_path / "a", tmp_path / "b", log_files=100)
        index = [path.read_bytes() for path in sorted((tmp_path / "b" / "index").iterdir())]
    assert index == Rebuild(tmp_path / "a").index_files(SLOTS, ITEMS)


def test_a_killed_one_continues_where_its_log_ends(tmp_path: Path) -> None:
    rng, folder = random.Random(5), tmp_path / "b0"
    with source(tmp_path / "a", some_messages(5)) as first:
        end = first.commit_log_max_offset
        for number in range(12):
            with loaded(small_config(folder)) as second:
                reached = second.commit_log_max_offset
                follow(first, second, rng, min(end, reached + rng.randrange(LOG_SIZE)))
                folder = killed(folder, tmp_path / f"b{number + 1}")
        with loaded(small_config(folder)) as second:
            follow(first, second, rng)
            assert second.recovery.rebuilt_queues == 0
            same_files(tmp_path / "a", folder, log_files=100)


def test_listeners_hear_of_every_entry(tmp_path: Path) -> None:
    heard = Heard()
    with (
        source(tmp_path / "a", some_messages(1, 50)) as first,
        loaded(small_config(tmp_path / "b")) as second,
    ):
        second.add_arrival_listener(heard)
        follow(first, second, random.Random(1))
        entries = [
            entry
            for topic in first.topics()
            for queue_id in first.queue_ids(topic)
            for entry in first.search.consume_queue_entries(topic, queue_id, 0, 999)
        ]
    assert sorted(offset for _, _, _, offset, *_ in heard.messages) == sorted(
        offset for offset, _, _ in entries
    )


def test_a_log_may_begin_at_any_file(tmp_path: Path) -> None:
    with source(tmp_path / "a", some_messages(2)) as first, loaded(small_config(tmp_path / "b")) as second:
        stream = RecordStream(LOG_SIZE * 2)
        while part := first.log_part(stream.next_offset, 4096):
            for run in stream.feed(stream.next_offset, part):
                second.replica.append_at(run.offset, run.data)
        assert second.commit_log_min_offset == LOG_SIZE * 2
        for topic in ("A", "B"):
            for queue_id in first.queue_ids(topic):
                low = second.search.min_offset(topic, queue_id)
                assert second.search.max_offset(topic, queue_id) == first.search.max_offset(topic, queue_id)
                assert numbers(second, topic, queue_id) == numbers(first, topic, queue_id)[low:]
    with loaded(small_config(tmp_path / "b")) as again:
        assert again.commit_log_min_offset == LOG_SIZE * 2
        assert again.recovery.rebuilt_queues == 0


def test_nothing_is_stored_of_what_is_damaged(tmp_path: Path) -> None:
    rng = random.Random(3)
    with (
        source(tmp_path / "a", some_messages(3, 20)) as first,
        loaded(small_config(tmp_path / "b")) as second,
    ):
        whole = bytes(first.log_part(0, first.search.consume_queue_entries("A", 0, 0, 9)[-1][0]))
        refused = 0
        for _ in range(60):
            run = bytearray(whole)
            run[rng.randrange(len(run))] ^= 1 << rng.randrange(8)
            before = second.commit_log_max_offset
            assert before == 0
            with loaded(small_config(tmp_path / "c")) as third:
                try:
                    third.replica.append_at(0, bytes(run))
                except ReplicaRefused:
                    refused += 1
                    assert third.commit_log_max_offset == 0
                    assert not third.reader.get("A", 0, 0, 9).count
            for path in sorted((tmp_path / "c").rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
        assert refused > 40  # a flipped bit of a time, a host or a property is none that can be seen


@pytest.mark.parametrize("offset", [1, LOG_SIZE - 1, 91])
def test_an_empty_store_begins_with_a_file(tmp_path: Path, offset: int) -> None:
    with source(tmp_path / "a", [message(1)]) as first, loaded(small_config(tmp_path / "b")) as second:
        run = bytes(first.log_part(0, 4096))
        with pytest.raises(ReplicaRefused, match="mappedFileSizeCommitLog"):
            second.replica.append_at(offset, run)
        second.replica.append_at(0, run)
        for wrong in (0, second.commit_log_max_offset + offset):
            with pytest.raises(ReplicaRefused, match="do not continue"):
                second.replica.append_at(wrong, run)


def test_files_of_another_size(tmp_path: Path) -> None:
    messages = [message(number, size=3000) for number in range(20)]
    for size, what in ((LOG_SIZE * 2, "a file ends at offset"), (LOG_SIZE // 2, "records end")):
        config = small_config(tmp_path / str(size), mapped_file_size_commit_log=size)
        with (
            source(tmp_path / f"a{size}", messages) as first,
            loaded(config) as second,
            pytest.raises(ReplicaRefused, match=what),
        ):
            follow(first, second, random.Random(0))
    with loaded(small_config(tmp_path / "c")) as third, pytest.raises(ReplicaRefused, match="a file ends"):
        third.replica.append_at(0, encode_filler(LOG_SIZE))


async def test_a_topic_that_was_created_again(tmp_path: Path) -> None:
    async with open_store(
        small_config(tmp_path / "a"), now_ms=Clock(step=7), store_host=HOST, in_thread=inline
    ) as first:
        for number in range(30):
            first.writer.append(message(number))
        await first.retention.delete_topic("TopicA")
        for number in range(30, 40):
            first.writer.append(message(number))
        with loaded(small_config(tmp_path / "b")) as second:
            follow(first, second, random.Random(0))
            assert numbers(second, "TopicA", 0) == list(range(30, 40))


def test_the_last_record_of_a_long_log_is_not_a_filler(tmp_path: Path) -> None:
    """The size of a filler entry, 2 GiB, is within a log that is longer than that."""
    begin = (2**31 // LOG_SIZE + 1) * LOG_SIZE
    with loaded(small_config(tmp_path)) as store:
        for number in range(2):
            offset = store.commit_log_max_offset or begin
            record = make_record(topic=b"TopicA", queue_id=0, queue_offset=number, physical_offset=offset)
            last = offset, len(record)
            store.replica.append_at(offset, record)
        queue = store.search._queues.find("TopicA", 0)
        assert queue is not None
        assert store.last_record_before(store.commit_log_max_offset) == last
        queue.append(0, FILLER_SIZE, 0)  # as rmq inspect salvage leaves for a lost record
        assert store.last_record_before(store.commit_log_max_offset) == last


async def test_a_cut_leaves_what_was_before(tmp_path: Path) -> None:
    clock = Clock(step=7)
    async with open_store(
        small_config(tmp_path / "b", mapped_file_size_commit_log=LOG_SIZE),
        now_ms=clock,
        store_host=HOST,
        in_thread=inline,
    ) as store:
        for number in range(300):
            store.writer.append(message(number, queue_id=number % 2, size=300))
        kept = store.search.consume_queue_entries("TopicA", 0, 80, 1)[0][0]
        assert store.last_record_before(kept + 1) == store.last_record_before(kept)
        await store.make_durable()
        log = (tmp_path / "b" / "commitlog").iterdir()
        before = b"".join(path.read_bytes() for path in sorted(log))
        folder = await store.cut(kept)
        assert store.commit_log_max_offset == kept
        assert store.flushed_offset == kept
        assert numbers(store, "TopicA", 0) == list(range(0, 160, 2))
        assert store.reader.get("TopicA", 0, 80, 1).status is GetStatus.OFFSET_OVERFLOW_ONE
        assert len(store.query("TopicA", "k11", 9, 0, 2**62).views) == 1
        assert store.query("TopicA", "k200", 9, 0, 2**62).views == []
        copies = sorted(folder.iterdir())
        begin = int(copies[0].name)
        assert b"".join(path.read_bytes() for path in copies).rstrip(b"\0") == before[begin:].rstrip(b"\0")
        for number in range(500, 520):
            store.writer.append(message(number))
        assert numbers(store, "TopicA", 0)[80:] == list(range(500, 520))
        left = killed(tmp_path / "b", tmp_path / "c")
    for folder in (tmp_path / "b", left):
        with loaded(small_config(folder)) as again:
            assert numbers(again, "TopicA", 0) == [*range(0, 160, 2), *range(500, 520)]
            assert len(again.query("TopicA", "k11", 9, 0, 2**62).views) == 1


def record_of(folder: Path, topic: str, queue_id: int, queue_offset: int) -> bytes:
    """A whole record at commit-log offset 0, whatever it says about its queue."""
    name = b"T" * len(topic.encode())
    with loaded(small_config(folder)) as store:
        store.writer.append(message(topic=name.decode()))
        record = bytes(store.log_part(0, LOG_SIZE)).replace(name, topic.encode(), 1)
    head = bytearray(record)
    head[12:16] = queue_id.to_bytes(4, "big", signed=True)
    head[20:28] = queue_offset.to_bytes(8, "big", signed=True)
    return bytes(head)


@pytest.mark.parametrize(
    ("topic", "queue_id", "queue_offset"),
    [
        ("../../../elsewhere", 0, 0),
        ("/elsewhere", 0, 0),
        ("..", 0, 0),
        ("a/b", 0, 0),
        ("nul\0l", 0, 0),
        ("Topic", -1, 0),
        ("Topic", 0, -1),
        ("Topic", 0, -(1 << 63)),
        ("Topic", 0, 1 << 62),
        ("Topic", 0, (1 << 63) - 1),
    ],
)
def test_a_record_of_a_queue_that_cannot_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, topic: str, queue_id: int, queue_offset: int
) -> None:
    """It has no entry, and no file outside of the store; nor after a kill and a start that reads it again."""
    record = record_of(tmp_path / "other", topic, queue_id, queue_offset)
    store, after = tmp_path / "own" / "a", tmp_path / "own" / "b"
    with loaded(small_config(store)) as one:
        assert one.replica.append_at(0, record) == len(record)
        killed(store, after)
    assert "is of no queue that can be; it has no entry" in caplog.text
    shutil.rmtree(after / "consumequeue", ignore_errors=True)
    with loaded(small_config(after)) as one:
        assert one.commit_log_max_offset == len(record)
        assert one.topics() == []
    outside = [path for path in tmp_path.rglob("*") if path.is_file()]
    kept = (tmp_path / "other", store / "commitlog", after / "commitlog")
    files = {path.name for path in outside if not any(path.is_relative_to(folder) for folder in kept)}
    assert files <= {"abort", "checkpoint", "lock", *(path.name for path in outside if "index" in path.parts)}
