"""Parts of a commit log as tasks, by the bytes of their wanted records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rmqcli.export.from_store.by_queues import QueuePlaces, divided
from rmqcli.export.from_store.parts import Part
from rmqcli.export.from_store.queue_check import QueueFile
from rmqcli.export.packing import packed
from rmqcli.store.read.files import NamedFile, data_extents


class PlacedPart(NamedTuple):
    """A part, and its queue files if its records can be found by queues. Can be pickled."""

    part: Part
    places: QueuePlaces | None


def sized(parts: Sequence[Part], places: QueuePlaces | None) -> list[tuple[PlacedPart, int]]:
    """Return the parts that may have wanted records, with the bytes of these, estimated from the queues."""
    return [(PlacedPart(*one), _bytes_of(PlacedPart(*one))) for one in divided(parts, places)]


QUEUE_FILE_BYTES = 64 * 1024
"""The cost of reading the entries of a queue file, as the bytes of records that are read in the same time."""


def in_tasks(parts: Sequence[tuple[PlacedPart, int]], size: int) -> list[list[PlacedPart]]:
    """Return tasks of about `size` bytes, each a piece of one part, or consecutive parts.

    A part is cut by commit-log offsets, or by queue files if there are many.
    """

    def cut(one: tuple[PlacedPart, int], count: int) -> list[tuple[PlacedPart, int]]:
        placed, cost = one
        # Each piece reads its queue files as a whole: those of 80,000 queues, again and again, cost more than
        # the records. Each file is read at least once, so this is known for many files without cutting pieces
        # by offsets.
        most = cost // QUEUE_FILE_BYTES
        pieces = [] if placed.part.base is not None and len(_files(placed)) > most else _cut(placed, count)
        if not pieces or (len(pieces) > 1 and sum(len(_files(piece)) for piece in pieces) > most):
            pieces = _cut_by_files(placed, size)
        return [(piece, 0) for piece in pieces]

    tasks = packed(parts, lambda one: one[1], cut, size)
    return [[placed for placed, _ in task] for task in tasks]


def _cut_by_files(placed: PlacedPart, size: int) -> list[PlacedPart]:
    """Divide the queue files, in order; the last piece has what follows the known ends of the queues."""
    part, places = placed
    assert places is not None
    base = part.base or 0
    low, high = base + part.begin, base + part.end
    known = min(max(low, places.end), high)
    ones = [PlacedPart(part._replace(end=known - base), places._replace(files=[one])) for one in places.files]

    def bytes_of(one: PlacedPart) -> int:
        return sum(_share(file, low, known) for file in _files(one))

    pieces = []
    for run in packed(ones, bytes_of, _cut, size):
        files = [file for one in run for file in _files(one)]
        pieces.append(run[0]._replace(places=places._replace(files=files)))
    if known < high:
        pieces.append(PlacedPart(part._replace(begin=known - base), places._replace(files=[])))
    return pieces


def _files(placed: PlacedPart) -> Sequence[QueueFile]:
    return placed.places.files if placed.places else []


def _cut(placed: PlacedPart, count: int) -> list[PlacedPart]:
    """Cut where there is data: a preallocated file ends with a hole, which belongs to the last piece."""
    part, places = placed
    # Without a base, the offsets of records are unknown until the first one is read.
    if part.base is None:
        return [placed]
    size = _data_end(part) - part.begin
    cuts = [*(part.begin + size * number // count for number in range(count)), part.end]
    finer = [part._replace(begin=begin, end=end) for begin, end in pairwise(cuts)]
    return [PlacedPart(*one) for one in divided(finer, places)]


def _bytes_of(placed: PlacedPart) -> int:
    part, places = placed
    if places is None or part.base is None:
        return _data_end(part) - part.begin
    low, high = part.base + part.begin, part.base + _data_end(part)
    behind = max(0, high - max(low, places.end))
    return behind + sum(_share(file, low, min(high, places.end)) for file in places.files)


def _share(file: QueueFile, low: int, high: int) -> int:
    """Return the bytes of the records of a queue in [low, high), assuming that they are spread evenly."""
    stretch = file.last + 1 - file.first
    return file.record_bytes * max(0, min(high, file.last + 1) - max(low, file.first)) // stretch


def _data_end(part: Part) -> int:
    file = NamedFile(Path(part.path), part.base, part.size)
    return max([part.begin, *(end for _, end in data_extents(file, part.begin, part.end))])
