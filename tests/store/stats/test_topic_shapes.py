"""Shapes of topics: those of the decoded messages, also around damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.commit_log import next_record, walk_file
from rmqcli.store.read.files import mapped
from rmqcli.store.stats.distribution import KEPT, Distinct, hash_of
from rmqcli.store.stats.log_shape import shape_of
from rmqcli.store.stats.topic_shapes import LogShape
from tests.codec.samples import make_record
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


def said(shape: LogShape) -> dict[str, Any]:
    return {
        name: (
            one.statistics,
            +one.bodies,
            one.largest_body,
            one.keyed,
            one.keys.count,
            shape.counts_of(name),
        )
        for name, one in sorted(shape.topics.items())
    } | {"": (+shape.records, shape.rate.begin, shape.rate.step, shape.rate.counts, shape.skipped)}


def one_by_one(root: Path) -> LogShape:
    """The shape as the messages add up, each by itself, up to damage and behind it."""
    shape = LogShape()
    for file in CommitLogFiles(root).files:
        with mapped(file) as data:
            position: int | None = 0
            while position is not None:
                begin, position = position, None
                try:
                    for place, _ in walk_file(file, data, begin):
                        begin = place.position + place.size
                        add(shape, decode_record(data, place.position))
                except CorruptionError:
                    shape.skipped += 1
                    position = next_record(file, data, begin + 1)
    return shape


def add(shape: LogShape, message: MessageExt) -> None:
    one, size, time = shape.topic(message.topic), len(message.body), message.store_timestamp
    one.statistics.add(message)
    one.bodies[size.bit_length()] += 1
    one.largest_body = max(one.largest_body, size)
    one.keyed += bool(message.keys)
    one.keys.add(hash_of(key.encode()) for key in message.keys)
    shape.records[message.store_size.bit_length()] += 1
    shape.rate.add(time)
    shape.add_times(message.topic, ((time, 1),))


def both(root: Path) -> LogShape:
    found = shape_of(CommitLogFiles(root))
    assert said(found) == said(one_by_one(root))
    return found


def test_every_message_counts_once(java_store: JavaStore) -> None:
    told: list[int] = []
    shape = shape_of(CommitLogFiles(java_store.root), told.append)
    assert shape.size <= sum(told) <= sum(file.size for file in CommitLogFiles(java_store.root).files)
    assert said(shape) == said(both(java_store.root))
    messages = [decode_record(java_store.commit_log, line["phy"]) for line in java_store.of_kind("msg")]
    assert (shape.messages, shape.size) == (len(messages), sum(one.store_size for one in messages))
    for name, one in shape.topics.items():
        mine = [message for message in messages if message.topic == name]
        assert sum(shape.counts_of(name)) == sum(one.bodies.values()) == len(mine)
        assert one.largest_body == max(len(message.body) for message in mine)
        keys = len({key for message in mine for key in message.keys})
        assert one.keys.count == keys if one.keys.is_exact else abs(one.keys.count / keys - 1) < 0.1


def test_damage_costs_what_is_damaged(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    whole = both(store.root)
    lines = store.of_kind("msg")
    for line in (lines[5], lines[len(lines) // 2]):
        file = next(
            one for one in CommitLogFiles(store.root).files if 0 <= line["phy"] - (one.base or 0) < one.size
        )
        with file.path.open("r+b") as handle:
            handle.seek(line["phy"] - (file.base or 0))
            handle.write(b"\xff\xff\xff\xff")
    shape = both(store.root)
    assert (whole.skipped, shape.skipped) == (0, 2)
    assert shape.messages == whole.messages - 2


def test_negative_queue_ids_count_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    data = b""
    for queue_id in (-1, 0, 3, -(1 << 31), (1 << 31) - 1):
        data += make_record(queue_id=queue_id, physical_offset=len(data))
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data)
    (shape,) = both(tmp_path).topics.values()
    assert shape.statistics.queues == {-1, 0, 3, -(1 << 31), (1 << 31) - 1}


@pytest.mark.parametrize("count", [0, 1, KEPT, 2 * KEPT - 1])
def test_few_values_are_counted_exactly(count: int) -> None:
    found = Distinct()
    for _ in range(2):
        found.add(hash_of(b"%d" % number) for number in range(count))
    assert found.count == count or not found.is_exact
    assert found.is_exact == (count <= KEPT)


def test_many_values_are_estimated_in_little_memory() -> None:
    found = Distinct()
    for begin in range(0, 50_000, 100):
        found.add([hash_of(b"order-%d" % number) for number in range(begin, begin + 100)] * 2)
        assert len(found._hashes) <= 2 * KEPT + 200
    assert not found.is_exact
    assert abs(found.count / 50_000 - 1) < 0.1
