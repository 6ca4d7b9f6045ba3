"""The statistics of a log are those of its decoded messages."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.codec.records.filter import RecordFilter, record_filter
from rmqcli.codec.records.reading import decode_record
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store import CommitLogFiles, DamagedFile
from rmqcli.store.read.commit_log import ignore_damage, plain_bodies
from rmqcli.store.stats.counts import LogCounts
from rmqcli.store.stats.distribution import Distribution
from rmqcli.store.stats.log_counts import count_chosen, count_records
from tests.codec.samples import make_record
from tests.store.scalar import decoded
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


def said(counts: LogCounts) -> dict[str, Any]:
    found, rate = counts.distribution, counts.distribution.rate
    topics = [
        (t.topic, t.messages, t.size, t.body_size, t.queues, t.first_store_timestamp, t.last_store_timestamp)
        for t in counts.statistics.topics
    ]
    spread = {size: count for size, count in found.sizes.items() if count}
    return {
        "topics": topics,
        "sizes": spread,
        "keys": found.keys,
        "rate": (rate.begin, rate.step, rate.counts),
    }


def counted(
    log: CommitLogFiles,
    wanted: OffsetRange,
    chosen: RecordFilter = RecordFilter(),  # noqa: B008  immutable
    progress: Callable[[int], None] = lambda size: None,
) -> LogCounts:
    return count_chosen(log, wanted, chosen, None, progress)


def one_by_one(log: CommitLogFiles, wanted: OffsetRange, chosen: RecordFilter) -> dict[str, Any]:
    return said(count_records(plain_bodies(decoded(log, wanted, chosen), ignore_damage)))


def test_both_ways_count_the_same(java_store: JavaStore) -> None:
    log, lines = CommitLogFiles(java_store.root), java_store.of_kind("msg")
    chance = random.Random(4)
    topics = sorted({line["topic"] for line in lines})
    every = OffsetRange()
    asked = [
        (every, record_filter()),
        (every, record_filter(topics=topics[:3])),
        (every, record_filter(queue_id=1)),
    ]
    for _ in range(20):
        first, second = sorted(chance.sample(lines, 2), key=lambda line: int(line["phy"]))
        offsets = OffsetRange(begin=first["phy"], end=second["phy"])
        times = OffsetRange(begin_time=first["storeTimestamp"], end_time=second["storeTimestamp"])
        two = record_filter(topics=chance.sample(topics, 2), queue_id=chance.choice((None, 0)))
        asked += [(offsets, record_filter()), (times, two)]
    for wanted, chosen in asked:
        assert said(counted(log, wanted, chosen)) == one_by_one(log, wanted, chosen)


def test_everything_is_counted_once(java_store: JavaStore) -> None:
    lines = java_store.of_kind("msg")
    told: list[int] = []
    counts = counted(CommitLogFiles(java_store.root), OffsetRange(), progress=told.append)
    messages = [decode_record(java_store.commit_log, line["phy"], decompress=True) for line in lines]
    assert sum(topic.messages for topic in counts.statistics.topics) == len(lines)
    assert sum(topic.body_size for topic in counts.statistics.topics) == sum(len(m.body) for m in messages)
    own = [message for message in messages if message.topic != "RMQ_SYS_TRACE_TOPIC"]
    assert counts.distribution.keys.total() == sum(len(message.keys) for message in own)
    assert 0 < sum(told) <= sum(path.stat().st_size for path in java_store.commit_logs)


def test_a_log_without_its_name(copy_java_store: Copy) -> None:
    path = copy_java_store("store-clean").commit_logs[1]
    log = CommitLogFiles(path.rename(path.with_name("copy")))
    wanted = OffsetRange(begin=600_000)
    assert said(counted(log, wanted)) == one_by_one(log, wanted, RecordFilter())


def test_damage_is_named(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    place = store.of_kind("msg")[700]["phy"]
    path, position = store.commit_logs[place // 524288], place % 524288
    data = bytearray(path.read_bytes())
    data[position + 4] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFile) as caught:
        counted(CommitLogFiles(store.root), OffsetRange())
    assert (caught.value.path, caught.value.position) == (path, position)


@pytest.mark.parametrize(
    ("wanted", "chosen", "limit", "expected"),
    [
        (OffsetRange(), record_filter(topics=["SeedTags"]), None, 300),
        (OffsetRange(), record_filter(topics=["SeedTags"]), 7, 7),
        (OffsetRange(last=5), record_filter(topics=["SeedTags"]), None, 5),
        (OffsetRange(last=0), RecordFilter(), None, 0),
        (OffsetRange(only_new=True), RecordFilter(), None, 0),
        (OffsetRange(last=9), record_filter(topics=["SeedTags"], where="queue_id = 0"), 4, 4),
    ],
)
def test_no_more_is_counted_than_is_asked_for(
    wanted: OffsetRange, chosen: RecordFilter, limit: int | None, expected: int, store_clean: JavaStore
) -> None:
    counts = count_chosen(CommitLogFiles(store_clean.root), wanted, chosen, limit, lambda size: None)
    assert sum(topic.messages for topic in counts.statistics.topics) == expected


def test_keys_of_traces_are_not_counted(tmp_path: Path) -> None:
    """They are the ids of the messages that they trace, each in several of them."""
    data = bytearray()
    for number in range(20):
        topic, keys = (b"A", b"order-%d" % (number // 4)) if number % 2 else (b"RMQ_SYS_TRACE_TOPIC", b"ID")
        data += make_record(topic=topic, properties=b"KEYS\x01" + keys, physical_offset=len(data))
    (tmp_path / f"{0:020}").write_bytes(data)
    found = counted(CommitLogFiles(tmp_path), OffsetRange()).distribution
    assert found.frequent_keys(10) == [(f"order-{number}", 2) for number in range(5)]
    assert found.frequent_keys(1) == [("order-0", 2)]


def test_a_key_of_one_record_is_not_frequent() -> None:
    found = Distribution()
    found.add_many(Counter(), Counter(), Counter({"once": 1, "twice": 2}))
    assert found.frequent_keys(10) == [("twice", 2)]
