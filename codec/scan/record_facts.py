"""The tags codes and key hashes of many records, whose properties are read once. Needs NumPy.

Texts of a common shape (`codec.scan.property_shapes`) are read by columns; others are joined and searched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codec.properties import PropertyName
from codec.scan.arrays import Array
from codec.scan.columns import FixedColumns
from codec.scan.property_checks import texts_parse
from codec.scan.property_shapes import ShapedTexts, shaped_texts
from codec.scan.property_values import (
    column_hashes,
    cut,
    join_properties,
    key_hashes,
    keys_of_topic,
    record_tags_codes,
    topic_heads,
)

_BLANK = ord(" ")
_TAGS, _UNIQ_KEY, _KEYS = (
    name.encode() for name in (PropertyName.TAGS, PropertyName.UNIQ_KEY, PropertyName.KEYS)
)


class RecordFacts(NamedTuple):
    """The tags code of each record; record number and hash of each of their index keys, in any order."""

    tags_codes: Array
    key_rows: Array
    key_hashes: Array


def record_facts(data: memoryview, rows: FixedColumns) -> RecordFacts | None:
    """Returns None when the properties of a record do not parse."""
    starts, ends = rows["properties_start"], rows["properties_end"]
    whole = np.frombuffer(data, dtype=np.uint8)
    codes = np.zeros(len(starts), dtype=np.int64)
    rest = np.ones(len(starts), dtype=bool)
    groups = list(shaped_texts(whole, starts, ends - starts))
    for group in groups:
        rest[group.rows] = False
    others = np.flatnonzero(rest)
    if not texts_parse(data, starts[others], ends[others]):
        return None
    heads, is_plain = topic_heads(whole, rows["topic_start"], rows["topic_end"])
    keys = []
    for group in groups:
        codes[group.rows] = _tags_codes(group)
        several = ~is_plain[group.rows] | _have_blanks(group)
        others = np.append(others, group.rows[several])
        keys += [
            (group.rows[~several], keys_of_topic(heads[group.rows], *hashed)[~several])
            for hashed in _hashed_keys(group)
        ]
    if len(others):
        few = rows.chosen(others)
        joined = join_properties(data, few)
        codes[others] = record_tags_codes(joined)
        topics = list(map(bytes, cut(data, few["topic_start"], few["topic_end"])))
        numbers, hashes = key_hashes(joined, topics)
        keys.append((others[numbers], hashes))
    found = [np.concatenate(column) for column in zip(*keys, strict=True)] or [codes[:0], codes[:0]]
    return RecordFacts(codes, *found)


def _tags_codes(group: ShapedTexts) -> Array | int:
    tags = group.column(_TAGS)
    return 0 if tags is None else column_hashes(tags).view(np.int32)


def _have_blanks(group: ShapedTexts) -> Array:
    keys = group.column(_KEYS)
    blanks = None if keys is None else keys == _BLANK
    if blanks is None or not blanks.any():
        return np.zeros(len(group.rows), dtype=bool)
    found: Array = blanks.any(axis=1)
    return found


def _hashed_keys(group: ShapedTexts) -> list[tuple[Array, int]]:
    columns = (group.column(_UNIQ_KEY), group.column(_KEYS))
    return [(column_hashes(column), column.shape[1]) for column in columns if column is not None]
