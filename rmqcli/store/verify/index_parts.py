"""Parts of index files as tasks, and those whose items need no comparison with their records one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from codec.store.index_file import ITEM, item_position
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.verify.sums import LogSums
from rmqcli.store.workers import Workers

if TYPE_CHECKING:
    from codec.scan.arrays import Array
    from codec.scan.dispatch_sums import DispatchKey, ItemRuns

PART_ITEMS = 1 << 18
_MOST_RUNS = 1 << 12
"""Runs of items of a part that are summed; a part of more is compared item by item."""


class IndexPart(NamedTuple):
    """Items [begin, end) of a file with this many slots; `last` is the highest commit-log offset before them.

    `since` is the time (ms) that their times count from, None if the header has a wrong one.
    """

    file: NamedFile
    slots: int
    begin: int
    end: int
    last: int
    log: CommitLogFiles
    since: int | None

    @property
    def cost(self) -> int:
        return (self.end - self.begin) * ITEM.size


class _SummedPart(NamedTuple):
    """A part, and the key of its fingerprints."""

    part: IndexPart
    key: DispatchKey
    cost: int = 0


def remaining(parts: list[IndexPart], workers: Workers, sums: LogSums) -> list[tuple[list[IndexPart], int]]:
    """Returns for each part those of its items that are to be compared with their records, and the count of the
    others, whose sums are those of their records.
    """
    import numpy as np

    tasks = [_SummedPart(part, sums.key) for part in parts]
    found = workers.run(_runs_of, tasks, lambda size: None)
    own = np.zeros_like(sums.items)
    for runs in found:
        if runs is not None:
            inside = (runs.pieces >= sums.first_piece) & (runs.pieces < sums.first_piece + len(own))
            np.add.at(own, runs.pieces[inside] - sums.first_piece, runs.sums[inside])
    equal = own == sums.items
    return [_rest(part, runs, equal, sums.first_piece) for part, runs in zip(parts, found, strict=True)]


def _rest(part: IndexPart, runs: ItemRuns | None, equal: Array, first: int) -> tuple[list[IndexPart], int]:
    if runs is None:
        return [part], 0
    places = runs.pieces - first
    is_sound = (places >= 0) & (places < len(equal))
    is_sound[is_sound] = equal[places[is_sound]]
    sound = int((runs.ends - runs.begins)[is_sound].sum())
    return list(_joined(part, *(column[~is_sound].tolist() for column in runs[1:4]))), sound


def _joined(part: IndexPart, begins: list[int], ends: list[int], before: list[int]) -> Iterator[IndexPart]:
    """Yields the items of runs, those of adjacent ones together."""
    starts = [number for number in range(len(begins)) if number == 0 or ends[number - 1] != begins[number]]
    for number, following in pairwise([*starts, len(begins)]):
        begin, end = part.begin + begins[number], part.begin + ends[following - 1]
        yield part._replace(begin=begin, end=end, last=before[number])


def _runs_of(task: _SummedPart) -> ItemRuns | None:
    """Returns None for a part that is compared item by item: its header states no time, or it is unusual."""
    from codec.scan.dispatch_sums import item_runs

    part = task.part
    if part.since is None:
        return None
    with mapped(part.file) as data:
        raw = data[item_position(part.slots, part.begin) : item_position(part.slots, part.end)]
        return item_runs(task.key, bytes(raw), part.last, _MOST_RUNS)
