"""Queue entries and index items of many records at once, by the rules of `codec.store.dispatch`. Needs NumPy.

Blocks with anything unusual are left to the scalar rules: topics that are not ASCII, records dispatched to
several queues, lengths that do not add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from codec.codes import MessageSysFlag
from codec.names import SystemTopic
from codec.properties import PropertyName, decode_properties
from codec.scan.arrays import Array
from codec.scan.columns import placed_columns
from codec.scan.property_values import (
    JoinedProperties,
    Rows,
    cut,
    join_properties,
    ordered_key_hashes,
    record_tags_codes,
)
from codec.scan.walk import scan_positions
from codec.store.consume_queue import ENTRY
from codec.store.delay_levels import DelayLevels
from codec.store.dispatch import entry_tags_code, has_index_items, has_queue_entry
from codec.store.record import scan_record

BLOCK_RECORDS = 4096


class QueueRun(NamedTuple):
    """Entries of one queue in the order of the log, and their queue offsets."""

    topic: str
    queue_id: int
    offsets: Array
    entries: Array


class Block(NamedTuple):
    """Dispatched records: `end` is the byte after them; the last three are of index items (times in ms)."""

    records: int
    end: int
    queues: list[QueueRun]
    hashes: Array
    offsets: Array
    timestamps: Array


def dispatched_block(
    data: memoryview, base: int, start: int, levels: DelayLevels, max_rows: int = BLOCK_RECORDS
) -> Block | None:
    """Dispatches the next records of a file; None without any, or when they need the scalar rules."""
    walk = scan_positions(data, start, max_rows=max_rows)
    rows = placed_columns(data, base, walk.positions)
    if rows is None or not len(rows):
        return None
    topics = list(cut(data, rows["topic_start"], rows["topic_end"]))
    properties = join_properties(data, rows)
    dispatched = PropertyName.INNER_MULTI_DISPATCH.encode() in properties.text
    if dispatched or not all(map(bytes.isascii, set(topics))):
        return None
    queues = list(_queues(data, rows, topics, _entries(data, rows, topics, properties, levels)))
    numbers, hashes = ordered_key_hashes(properties, topics)
    flags: Any = rows["sys_flag"][numbers]
    kept: Any = has_index_items(flags)
    chosen = numbers[kept]
    places, times = rows["physical_offset"][chosen], rows["store_timestamp"][chosen]
    return Block(len(rows), walk.end, queues, hashes[kept], places, times)


def queued_block(
    data: memoryview, start: int, stop: int, max_rows: int = BLOCK_RECORDS
) -> tuple[list[QueueRun], int] | None:
    """Returns queue offsets and commit-log offsets (as `entries`) of the sound records that start in
    [start, stop), by queue, and the byte after them; None without any, or when they need the scalar rules.
    """
    walk = scan_positions(data, start, stop, max_rows=max_rows)
    rows = placed_columns(data, None, walk.positions)
    if rows is None or not len(rows):
        return None
    topics = list(cut(data, rows["topic_start"], rows["topic_end"]))
    has_batches = (rows["sys_flag"] & MessageSysFlag.INNER_BATCH).any()
    if has_batches or not all(map(bytes.isascii, set(topics))):
        return None
    return list(_queues(data, rows, topics, rows["physical_offset"])), walk.end


def _entries(
    data: memoryview, rows: Rows, topics: list[bytes], properties: JoinedProperties, levels: DelayLevels
) -> Array:
    entries = np.empty(len(topics), dtype=ENTRY.dtype())
    entries["commit_log_offset"] = rows["physical_offset"]
    entries["size"] = rows["total_size"]
    entries["tags_code"] = record_tags_codes(properties)
    schedule = SystemTopic.SCHEDULE.encode()
    starts = rows["properties_end"] - rows["total_size"]
    for number in [number for number, topic in enumerate(topics) if topic == schedule]:
        record = scan_record(data, int(starts[number]))
        known = decode_properties(record.properties)
        entries["tags_code"][number] = entry_tags_code(
            SystemTopic.SCHEDULE, known, record.store_timestamp, levels
        )
    return entries


def _queues(data: memoryview, rows: Rows, topics: list[bytes], entries: Array) -> Iterator[QueueRun]:
    names: dict[bytes, int] = {}
    codes = np.fromiter((names.setdefault(topic, len(names)) for topic in topics), np.int64, len(topics))
    keys = (codes << 32) + rows["queue_id"]
    written = np.flatnonzero(has_queue_entry(rows["sys_flag"]))
    order = written[np.argsort(keys[written], kind="stable")]
    changes = np.flatnonzero(keys[order][1:] != keys[order][:-1]) + 1
    for chosen in np.split(order, changes) if len(order) else ():
        first = int(chosen[0])
        topic, queue_id = str(topics[first], "ascii"), int(rows["queue_id"][first])
        yield QueueRun(topic, queue_id, rows["queue_offset"][chosen], entries[chosen])
