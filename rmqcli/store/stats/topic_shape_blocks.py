"""The shapes of topics from many records at once. Needs NumPy, so a command imports it where NumPy is installed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.scan.columns import Array
from rmqcli.codec.scan.properties import cut, join_properties
from rmqcli.codec.scan.walk import RecordBlock
from rmqcli.store.stats.distribution import hash_of
from rmqcli.store.stats.topic_shapes import LogShape, TopicShape

# The shapes of topics from many records at once. Needs NumPy.
#
# Records are sorted by topic and added up by runs: a block with thousands of topics costs a few steps of Python
# for each, not a few calls of NumPy.

_LOW = 32  # bits of the second part of a pair


_LOW_MASK = (1 << _LOW) - 1
_SIGN = 1 << (_LOW - 1)


_SECOND = 1000


def add_block(shape: LogShape, block: RecordBlock) -> None:
    rows, codes, topics = block.rows, *_coded(block)
    names = [str(topic, "utf-8", "replace") for topic in topics]
    _add_totals(shape, names, codes, rows)
    _add_times(shape, names, codes, rows["store_timestamp"])
    for code, bits, count in _counted(codes, _bit_lengths(rows["body_end"] - rows["body_start"])):
        shape.topics[names[code]].bodies[bits] += count
    for code, queue_id, _ in _counted(codes, rows["queue_id"].astype(np.int64) & _LOW_MASK):
        # The low half of a pair has no sign, and damage or another program can leave a negative queue id.
        shape.topics[names[code]].statistics.queues.add(queue_id - ((queue_id & _SIGN) << 1))
    for _, bits, count in _counted(np.zeros_like(codes), _bit_lengths(rows["total_size"])):
        shape.records[bits] += count
    _add_keys([shape.topics[name] for name in names], codes, block)


def _coded(block: RecordBlock) -> tuple[Array, list[bytes]]:
    """Return the topic number of each record, and the topics by number."""
    numbers: dict[bytes, int] = {}
    topics = cut(block.data, block.rows["topic_start"], block.rows["topic_end"])
    codes = [numbers.setdefault(topic, len(numbers)) for topic in topics]
    return np.array(codes, np.int64), list(numbers)


def _bit_lengths(values: Array) -> Array:
    # The exponent that frexp returns is the bit length of an integer.
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _counted(codes: Array, values: Array) -> Iterator[tuple[int, int, int]]:
    """Yield topic number, value in [0, 2**32) and number of records for each pair that occurs, by topic."""
    pairs, counts = np.unique(codes << _LOW | values, return_counts=True)
    return zip((pairs >> _LOW).tolist(), (pairs & _LOW_MASK).tolist(), counts.tolist(), strict=True)


def _add_totals(shape: LogShape, names: list[str], codes: Array, rows: Any) -> None:
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(names)))
    sizes, times = rows["total_size"][order].astype(np.int64), rows["store_timestamp"][order]
    bodies = (rows["body_end"] - rows["body_start"])[order].astype(np.int64)
    # Every topic has a record in the block, so that reduceat never gets an empty slice.
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
    # Adding times may have widened the step, so it is read only now.
    step = shape.rate.step
    first = int(seconds[0]) * _SECOND // step
    # Times relative to the first one fit into the low half of a pair.
    found = _counted(codes, times // step - first)
    for code, of_topic in groupby(found, key=lambda one: one[0]):
        shape.add_times(names[code], (((first + number) * step, count) for _, number, count in of_topic))


def _add_keys(shapes: list[TopicShape], codes: Array, block: RecordBlock) -> None:
    properties = join_properties(block.data, block.rows)
    values = properties.values(PropertyName.KEYS)
    # A later KEYS property of a record replaces an earlier one, as in `decode_properties`.
    last = {row: (start, stop) for row, start, stop in zip(*(part.tolist() for part in values), strict=True)}
    of_topics: dict[int, list[int]] = {}
    for row, (start, stop) in last.items():
        keys = [key for key in properties.text[start:stop].split(b" ") if key]
        of_topics.setdefault(int(codes[row]), []).extend(map(hash_of, keys))
        shapes[int(codes[row])].keyed += bool(keys)
    for code, hashes in of_topics.items():
        shapes[code].keys.add(hashes)
