"""The shapes of topics from many records at once. Needs NumPy.

Records are sorted by topic and added up by runs: a block with thousands of topics costs a few steps of Python
for each, not a few calls of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from codec.properties import PropertyName
from codec.scan.arrays import Array
from codec.scan.blocks import RecordBlock
from codec.scan.property_values import cut, join_properties
from rmqcli.store.stats.distinct import hash_of
from rmqcli.store.stats.topic_shapes import LogShape, TopicShape

_LOW = 32  # bits of the second part of a pair
_LOW_MASK = (1 << _LOW) - 1
_SECOND = 1000


def add_block(shape: LogShape, block: RecordBlock) -> None:
    rows, codes, topics = block.rows, *_coded(block)
    names = [str(topic, "utf-8", "replace") for topic in topics]
    _add_totals(shape, names, codes, rows)
    _add_times(shape, names, codes, rows["store_timestamp"])
    for code, bits, count in _counted(codes, _bit_lengths(rows["body_end"] - rows["body_start"])):
        shape.topics[names[code]].bodies[bits] += count
    for code, queue_id, _ in _counted(codes, rows["queue_id"].astype(np.int64) & _LOW_MASK):
        shape.topics[names[code]].statistics.queues.add(queue_id)
    for _, bits, count in _counted(np.zeros_like(codes), _bit_lengths(rows["total_size"])):
        shape.records[bits] += count
    _add_keys([shape.topics[name] for name in names], codes, block)


def _coded(block: RecordBlock) -> tuple[Array, list[bytes]]:
    """Return the number of each record's topic, and the topics by number."""
    numbers: dict[bytes, int] = {}
    topics = cut(block.data, block.rows["topic_start"], block.rows["topic_end"])
    codes = [numbers.setdefault(topic, len(numbers)) for topic in topics]
    return np.array(codes, np.int64), list(numbers)


def _bit_lengths(values: Array) -> Array:
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _counted(codes: Array, values: Array) -> Iterator[tuple[int, int, int]]:
    """Yield topic, value of [0, 2**32) and number of records for each pair that occurs, by topic."""
    pairs, counts = np.unique(codes << _LOW | values, return_counts=True)
    return zip((pairs >> _LOW).tolist(), (pairs & _LOW_MASK).tolist(), counts.tolist(), strict=True)


def _add_totals(shape: LogShape, names: list[str], codes: Array, rows: Any) -> None:
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(names)))
    sizes, times = rows["total_size"][order].astype(np.int64), rows["store_timestamp"][order]
    bodies = (rows["body_end"] - rows["body_start"])[order].astype(np.int64)
    columns = (
        np.diff(np.append(starts, len(codes))),
        np.add.reduceat(sizes, starts),
        np.add.reduceat(bodies, starts),
        np.maximum.reduceat(bodies, starts),
        np.minimum.reduceat(times, starts),
        np.maximum.reduceat(times, starts),
    )
    for name, messages, size, body, largest, first, last in zip(
        names, *(column.tolist() for column in columns), strict=True
    ):
        one = shape.topic(name)
        one.statistics.add_many(messages, size, body, (), (first, last))
        one.largest_body = max(one.largest_body, largest)


def _add_times(shape: LogShape, names: list[str], codes: Array, times: Array) -> None:
    seconds, counts = np.unique(times // _SECOND, return_counts=True)
    for second, count in zip(seconds.tolist(), counts.tolist(), strict=True):
        shape.rate.add(second * _SECOND, count)
    step = shape.rate.step
    first = int(seconds[0]) * _SECOND // step
    found = _counted(codes, times // step - first)
    for code, of_topic in groupby(found, key=lambda one: one[0]):
        shape.add_times(names[code], (((first + number) * step, count) for _, number, count in of_topic))


def _add_keys(shapes: list[TopicShape], codes: Array, block: RecordBlock) -> None:
    properties = join_properties(block.data, block.rows)
    values = properties.values(PropertyName.KEYS)
    last = {row: (start, stop) for row, start, stop in zip(*(part.tolist() for part in values), strict=True)}
    of_topics: dict[int, list[int]] = {}
    for row, (start, stop) in last.items():
        keys = [key for key in properties.text[start:stop].split(b" ") if key]
        of_topics.setdefault(int(codes[row]), []).extend(map(hash_of, keys))
        shapes[int(codes[row])].keyed += bool(keys)
    for code, hashes in of_topics.items():
        shapes[code].keys.add(hashes)
