"""Checks of many records, queue entries or index items at once. Needs NumPy.

The checks never pass damage, but may suspect what is sound: the scalar readers then look at each suspect, and
they alone report what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from codec.errors import CorruptionError
from codec.names import LMQ_PREFIX, SystemTopic
from codec.properties import PropertyName
from codec.scan.arrays import Array
from codec.scan.blocks import BLOCK_RECORDS
from codec.scan.columns import find_bad_crc, fixed_columns, placed_columns
from codec.scan.dispatch_sums import RecordSums
from codec.scan.entries import EntryColumns, LogViews, by_file, entry_columns
from codec.scan.index_chains import time_differences
from codec.scan.property_checks import equal_to, texts_parse
from codec.scan.property_values import Rows, cut, join_properties, key_hashes, record_tags_codes
from codec.scan.walk import scan_positions
from codec.store.consume_queue_ext import HIGHEST_ADDRESS
from codec.store.dispatch import has_index_items
from codec.store.index_file import ITEM

_CHECKED_RECORDS = 4096
"""Records checked together: few enough for their columns to stay in the processor's cache."""
_SPLIT_RECORDS = 4096
"""Records of a block whose properties are split."""
_ENDLESS = (-(1 << 63), (1 << 63) - 1, 0)
"""The span of a queue that is not checked."""


def skip_sound_records(
    data: memoryview,
    base: int,
    start: int,
    stop: int,
    max_rows: int = BLOCK_RECORDS,
    sums: RecordSums | None = None,
) -> tuple[int, int]:
    """Skips blocks of sound records that start in [start, stop); returns their end and count. The sums, if
    given, are those of the records too.
    """
    position, count = start, 0
    while True:
        walk = scan_positions(data, position, stop, max_rows=max_rows)
        if not len(walk.positions):
            return position, count
        for at in range(0, len(walk.positions), _CHECKED_RECORDS):
            places = walk.positions[at : at + _CHECKED_RECORDS]
            if not _are_sound(data, base, places, sums):
                return int(places[0]), count
            count += len(places)
        position = walk.end


def _are_sound(data: memoryview, base: int, positions: Array, sums: RecordSums | None) -> bool:
    rows = placed_columns(data, base, positions)
    if rows is None or find_bad_crc(data, rows):
        return False
    return _properties_parse(data, rows) if sums is None else sums.add(data, rows)


def skip_parsing(data: memoryview, start: int, stop: int) -> tuple[int, int]:
    """Skips blocks whose properties parse; returns the byte after them, and the last record's place or -1."""
    position, last = start, -1
    while True:
        walk = scan_positions(data, position, stop, max_rows=BLOCK_RECORDS)
        try:
            if not len(walk.positions) or not _properties_parse(data, fixed_columns(data, walk.positions)):
                return position, last
        except CorruptionError:
            return position, last
        position, last = walk.end, int(walk.positions[-1])


def _properties_parse(data: memoryview, rows: Rows) -> bool:
    return texts_parse(data, rows["properties_start"], rows["properties_end"])


def suspect_entries(
    views: LogViews,
    topic: str | None,
    queue_id: int | None,
    number: int,
    raw: bytes,
    last: int,
    *,
    check_crc: bool,
) -> tuple[list[int], int]:
    """Returns the numbers (from 0) of the suspect entries in `raw`, and the count of sound entries that are
    not fillers.

    `number` is the queue offset of the first entry, `last` the commit-log offset of the entry before it.
    """
    entries = entry_columns(raw)
    offsets, fillers = entries.offsets, entries.fillers
    if not (topic or "").isascii():
        return np.flatnonzero(~fillers).tolist(), 0
    written = np.flatnonzero(~fillers)
    suspect = np.zeros(len(offsets), dtype=bool)
    suspect[written] = offsets[written] <= _one_before(offsets[written], last)
    for chosen, data, base in by_file(views, offsets, written):
        suspect[chosen] |= _disagree(
            data,
            base,
            topic,
            queue_id,
            number + chosen,
            EntryColumns(*(column[chosen] for column in entries)),
            check_crc=check_crc,
        )
    return np.flatnonzero(suspect).tolist(), int(np.count_nonzero(~suspect & ~fillers))


def _one_before(values: Array, first: int) -> Array:
    """Shifts values by one. Differences are no alternative: those of damaged numbers overflow."""
    before: Array = np.append(np.int64(first), values[:-1])
    return before


def _disagree(
    data: memoryview,
    base: int,
    topic: str | None,
    queue_id: int | None,
    numbers: Array,
    entries: EntryColumns,
    *,
    check_crc: bool,
) -> Array:
    offsets = entries.offsets
    try:
        rows = fixed_columns(data, offsets - base)
    except CorruptionError:
        return np.ones(len(offsets), dtype=bool)
    wrong: Array = (rows["total_size"] != entries.sizes) | (rows["physical_offset"] != offsets)
    dispatched = (topic or "").startswith(LMQ_PREFIX)
    if not dispatched:
        wrong |= rows["queue_offset"] != numbers
    if topic is not None and not dispatched:
        is_topic = equal_to(data, rows["topic_start"], rows["topic_end"], topic.encode())
        wrong |= (rows["queue_id"] != queue_id) | ~is_topic
    if topic != SystemTopic.SCHEDULE:
        codes = entries.tags_codes
        same = codes == record_tags_codes(join_properties(data, rows))
        wrong |= ~same & (codes > HIGHEST_ADDRESS)
    if check_crc:
        wrong[find_bad_crc(data, rows)] = True
    return wrong


def highest_offset(raw: memoryview) -> int:
    """Returns the highest commit-log offset of index items; 0 without items."""
    offsets = np.frombuffer(raw, dtype=ITEM.dtype())["phy_offset"]
    return max(int(offsets.max()), 0) if len(offsets) else 0


def suspect_items(views: LogViews, raw: bytes, last: int, since: int | None) -> tuple[list[int], int]:
    """Does for index items what `suspect_entries` does: `last` is the highest offset before the first item,
    `since` (ms) the time that their times count from, None when unknown.
    """
    items = np.frombuffer(raw, dtype=ITEM.dtype())
    offsets = items["phy_offset"].astype(np.int64)
    suspect = np.zeros(len(items), dtype=bool)
    if (offsets < _one_before(offsets, last)).any():
        return list(range(len(items))), 0
    firsts = np.flatnonzero(np.append(True, offsets[1:] != offsets[:-1]))
    record_of_item = np.searchsorted(firsts, np.arange(len(items)), side="right") - 1
    hashes = items["key_hash"].astype(np.int64)
    places = offsets[firsts]
    for chosen, data, base in by_file(views, places, np.arange(len(firsts))):
        mine = np.flatnonzero((record_of_item >= chosen[0]) & (record_of_item <= chosen[-1]))
        known = _known_items(data, base, places[chosen])
        if known is None:
            suspect[mine] = True
            continue
        records = record_of_item[mine] - chosen[0]
        codes = (records << 32) + hashes[mine]
        # A broker writes the items of a record in one order. To look for each costs ten times as much.
        if not np.array_equal(codes, known.codes):
            suspect[mine] |= ~np.isin(codes, known.codes)
        if since is not None:
            seconds = time_differences(since, known.times)
            suspect[mine] |= items["time_diff"][mine] != seconds[records]
    return np.flatnonzero(suspect).tolist(), int(np.count_nonzero(~suspect))


class _KnownItems(NamedTuple):
    """Record number * 2**32 + hash of each key of some records, in the order of items; their store times."""

    codes: Array
    times: Array


def _known_items(data: memoryview, base: int, offsets: Array) -> _KnownItems | None:
    """Returns None when a record is damaged."""
    rows = placed_columns(data, base, offsets - base)
    if rows is None:
        return None
    topics = list(map(bytes, cut(data, rows["topic_start"], rows["topic_end"])))
    numbers, hashes = key_hashes(join_properties(data, rows), topics)
    flags: Any = rows["sys_flag"][numbers]
    kept = np.flatnonzero(has_index_items(flags))
    order = kept[np.argsort(numbers[kept], kind="stable")]
    return _KnownItems((numbers[order] << 32) + hashes[order], rows["store_timestamp"])


def skip_records_within(
    data: memoryview, start: int, spans: Mapping[tuple[str, int], tuple[int, int, int]]
) -> int:
    """Skips blocks of records whose queues, given as `spans`, have their entries; returns the byte after
    them.

    `spans` are those of `rmqcli.store.verify.missing_entries`. Records of INNER_MULTI_DISPATCH end the
    skipping.
    """
    by_topic = {(topic.encode(), queue_id): span for (topic, queue_id), span in spans.items()}
    position = start
    while True:
        walk = scan_positions(data, position, max_rows=_SPLIT_RECORDS)
        try:
            rows = fixed_columns(data, walk.positions)
        except CorruptionError:
            return position
        topics = cut(data, rows["topic_start"], rows["topic_end"])
        of_rows = map(by_topic.get, zip(topics, rows["queue_id"].tolist(), strict=True), repeat(_ENDLESS))
        first, end, last_place = np.array(list(of_rows), dtype=np.int64).reshape(-1, 3).T
        behind = (rows["queue_offset"] >= end) & (rows["physical_offset"] > last_place)
        is_missing = (rows["queue_offset"] < first) | behind
        dispatched = PropertyName.INNER_MULTI_DISPATCH.encode() in join_properties(data, rows).text
        if not len(rows) or is_missing.any() or dispatched:
            return position
        position = walk.end
