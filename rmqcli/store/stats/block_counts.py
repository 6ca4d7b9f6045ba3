"""Statistics of many records at once. Needs NumPy, so a command imports it where NumPy is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from rmqcli.codec.compression import COMPRESSED
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.property_names import PropertyName, split_keys
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.codec.scan import FixedColumns
from rmqcli.codec.scan.columns import Array
from rmqcli.codec.scan.properties import cut, join_properties
from rmqcli.codec.scan.walk import RecordBlock, in_range, sound_blocks
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import (
    stored_message,
    with_plain_body,
)
from rmqcli.store.read.files import NamedFile
from rmqcli.store.read.vectorised import block_records
from rmqcli.store.stats.counts import Counting

_SECOND = 1000


_TRACE = SystemTopic.TRACE.encode()


def count_blocks(file: NamedFile, data: memoryview, counting: Counting) -> Iterator[int]:
    """Count a file block by block; yield the byte after each, up to the first unusual record."""
    for block in sound_blocks(data, file.base, counting.wanted.end, block_records()):
        _add(file, block, counting)
        yield block.end


def _add(file: NamedFile, block: RecordBlock, counting: Counting) -> None:
    data, rows, positions, _ = block
    wanted, accepted, counts, on_damage = counting
    topics = list(cut(data, rows["topic_start"], rows["topic_end"]))
    names: dict[bytes, int] = {}
    codes = np.fromiter((names.setdefault(topic, len(names)) for topic in topics), np.int64, len(topics))
    chosen = np.flatnonzero(_mask(rows, codes, names, wanted, accepted))
    if not len(chosen):
        return
    bodies = rows["body_end"] - rows["body_start"]
    for row in chosen[rows["sys_flag"][chosen] & COMPRESSED != 0].tolist():
        place = int(positions[row])
        bodies[row] = len(with_plain_body(stored_message(data, place), file, place, on_damage).body)
    keys = _keys(data, rows, chosen[codes[chosen] != names.get(_TRACE, -1)])
    # Sorted by topic, the rows of a topic are adjacent, and each topic is one slice.
    order = chosen[np.argsort(codes[chosen], kind="stable")]
    known = list(names)
    for mine in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        times = rows["store_timestamp"][mine]
        counts.statistics.topic(str(known[codes[mine[0]]], "utf-8", "replace")).add_many(
            messages=len(mine),
            size=int(rows["total_size"][mine].sum(dtype=np.int64)),
            body_size=int(bodies[mine].sum(dtype=np.int64)),
            queues=np.unique(rows["queue_id"][mine]).tolist(),
            times=(int(times.min()), int(times.max())),
        )
    counts.distribution.add_many(
        # The exponent that frexp returns is the bit length of a size.
        sizes=_counted(np.frexp(rows["total_size"][chosen].astype(np.float64))[1]),
        seconds=_counted(rows["store_timestamp"][chosen] // _SECOND),
        keys=keys,
    )


def _mask(
    rows: FixedColumns, codes: Array, names: dict[bytes, int], wanted: OffsetRange, accepted: RecordFilter
) -> Array:
    mask = in_range(rows, *wanted.bounds)
    if accepted.queue_id is not None:
        mask &= rows["queue_id"] == accepted.queue_id
    if accepted.topics:
        mine = [code for topic, code in names.items() if str(topic, "utf-8", "replace") in accepted.topics]
        mask &= np.isin(codes, mine)
    return mask


def _counted(values: Array) -> Counter[int]:
    found, counts = np.unique(values, return_counts=True)
    return Counter(dict(zip(found.tolist(), counts.tolist(), strict=True)))


def _keys(data: memoryview, rows: FixedColumns, chosen: Array) -> Counter[str]:
    properties = join_properties(data, rows)
    values = properties.values(PropertyName.KEYS)
    # A later KEYS property of a record replaces an earlier one, as in `decode_properties`.
    last = {row: (start, stop) for row, start, stop in zip(*(part.tolist() for part in values), strict=True)}
    texts = (
        str(properties.text[slice(*last[row])], "utf-8", "replace") for row in chosen.tolist() if row in last
    )
    return Counter(key for text in texts for key in split_keys(text))
