"""The order of rows in a row group: by topic, broker, queue and queue offset, so that readers can skip rows.

Reading gives the rows of a queue in the order of their offsets, but mixes the queues. Batches from a cluster
are of one queue each, so they only have to be arranged. Those of a store mix queues like the commit log:
their rows have to be copied, which adds a fifth to a third to the CPU time of an export, so it is done only
on request. Either way, only the rows of one row group are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from rmqcli.codec.scan.arrow_arrays import select
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import queue_codes

ORDER = ("topic", "broker_name", "queue_id", "queue_offset")

_MOST_PIECES = 64
"""The number of queues of a batch from which sorting the rows is faster than arranging slices of batches."""


def sorting_columns(layout: Layout, schema: Any) -> list[Any]:
    """Return the order as the metadata of row groups states it, as far as the files have these columns.

    A topic that is only in the name of the folder is the same in the whole file.
    """
    found = []
    for name in ORDER:
        if name in schema.names:
            found.append(parquet.SortingColumn(_leaf(schema, name)))
        elif name != "topic" or "topic" not in layout.partition_by:
            break
    return found


def _leaf(schema: Any, name: str) -> int:
    """Return the number of a column as Parquet counts: the leaves of nested columns before it, too."""
    return sum(_leaves(field.type) for field in list(schema)[: schema.get_field_index(name)])


def _leaves(kind: Any) -> int:
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(number).type) for number in range(kind.num_fields))
    return 1


class _Piece(NamedTuple):
    """Rows of one queue."""

    queue: tuple[Any, ...]
    rows: Any

    @property
    def first(self) -> int:
        return int(self.rows["queue_offset"][0].as_py())

    @property
    def last(self) -> int:
        return int(self.rows["queue_offset"][-1].as_py())


def in_order(batches: Sequence[Any]) -> Any:
    """Return the rows of record batches as a table in this order."""
    pieces = _arranged(batches)
    if pieces is None:
        return sorted_table(pa.Table.from_batches(batches))
    return pa.Table.from_batches(piece.rows for piece in pieces)


def sorted_table(table: Any) -> Any:
    """Return the rows of a table in this order, copied unless they are in order already."""
    table = table.unify_dictionaries()
    keys, codes = queue_codes(table)
    ranks = np.empty(len(keys), np.int64)
    ranks[sorted(range(len(keys)), key=lambda code: _by_name(keys[code]))] = np.arange(len(keys))
    queues, offsets = ranks[codes], table["queue_offset"].to_numpy()
    later, same = queues[1:] > queues[:-1], queues[1:] == queues[:-1]
    if (later | (same & (offsets[1:] >= offsets[:-1]))).all():
        return table
    rows = np.lexsort((offsets, queues))
    whole = table.combine_chunks().to_batches()
    # Columns of more than 2 GiB stay in several pieces.
    return pa.Table.from_batches([select(whole[0], rows)]) if len(whole) == 1 else table.take(pa.array(rows))


def _arranged(batches: Sequence[Any]) -> list[_Piece] | None:
    """Return slices of batches that are in order one after the other; None if there are none, or too many."""
    pieces: list[_Piece] = []
    for batch in batches:
        found = _pieces(batch)
        if found is None:
            return None
        pieces += found
    pieces.sort(key=lambda piece: (piece.queue, piece.first))
    is_in_order = all(one.queue < other.queue or one.last <= other.first for one, other in pairwise(pieces))
    return pieces if is_in_order else None


def _pieces(batch: Any) -> list[_Piece] | None:
    """Return the rows of each queue of a batch; None for too many queues, or if their offsets do not ascend."""
    keys, codes = queue_codes(pa.Table.from_batches([batch]))
    if len(keys) > _MOST_PIECES:
        return None
    if len(keys) > 1:
        # Sorting numbers of 16 bits takes time in proportion to their number.
        batch = select(batch, np.argsort(codes.astype(np.uint16), kind="stable"))
    pieces = list(_slices(batch, keys, np.bincount(codes)))
    return pieces if all(_ascends(piece.rows) for piece in pieces) else None


def _slices(batch: Any, keys: Sequence[Any], counts: Any) -> Iterator[_Piece]:
    begin = 0
    for key, count in zip(keys, counts.tolist(), strict=True):
        yield _Piece(_by_name(key), batch.slice(begin, count))
        begin += count


def _ascends(rows: Any) -> bool:
    offsets = rows["queue_offset"].to_numpy()
    return bool((offsets[1:] >= offsets[:-1]).all())


def _by_name(key: tuple[str, str | None, int]) -> tuple[Any, ...]:
    """Return a key that compares like a queue in files: names by their bytes, an unknown broker last."""
    topic, broker, queue = key
    return topic.encode(), broker is None, (broker or "").encode(), queue
