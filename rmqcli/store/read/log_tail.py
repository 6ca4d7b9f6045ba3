"""The last records of a commit log that are asked for: the last file first, and only as many files as are needed.

Where records begin is known from the first byte of a file alone, so a file is walked from there; what is in them is then looked at from
its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from codec.errors import CorruptionError
from codec.store.record_filter import RecordFilter
from rmqcli.store.read.commit_log import CommitLog, Place, walk_file
from rmqcli.store.read.files import DamagedFile, NamedFile, data_size, mapped, naming_damage
from rmqcli.store.read.log_reader import Found, stored_message
from rmqcli.store.read.vectorised import is_bulk_possible

__all__ = ["last_records"]

Last = tuple[list[int], DamagedFile | None]
"""Where in a file the last chosen records are that can be reached, and what keeps the others from it."""


def last_records(
    log: CommitLog, count: int, chosen: RecordFilter, progress: Callable[[int], None]
) -> Iterator[Found]:
    """In the order of the log. The first damage that is met from the end on is where the log ends: records before it are given, then
    DamagedFile is raised.
    """
    found: list[tuple[NamedFile, list[int]]] = []
    damage = None
    for file in reversed(log.files):
        with mapped(file) as data:
            places, damage = _last_of(file, data, count, chosen)
        progress(data_size(file))
        found.append((file, places))
        count -= len(places)
        if damage is not None or count == 0:
            break
    for file, places in reversed(found):
        with naming_damage(file), mapped(file) as data:
            for position in places:
                message = stored_message(data, position)
                yield Place(file, position, message.store_size, message.commit_log_offset), message
    if damage is not None:
        raise damage


def _last_of(file: NamedFile, data: memoryview, count: int, chosen: RecordFilter) -> Last:
    if is_bulk_possible():
        try:
            return _from_the_end(file, data, count, chosen)
        except CorruptionError:
            pass
    return _from_the_beginning(file, data, count, chosen)


def _from_the_end(file: NamedFile, data: memoryview, count: int, chosen: RecordFilter) -> Last:
    """CorruptionError where something is unusual."""
    from codec.scan.predicate import last_to_look_at

    found: list[int] = []
    positions, damage = _walked(file, data)
    for block in last_to_look_at(data, file.base, positions, chosen):
        for position in reversed(block):
            if _is_chosen(data, position, chosen):
                found.append(position)
            if len(found) == count:
                return found[::-1], damage
    return found[::-1], damage


def _walked(file: NamedFile, data: memoryview) -> tuple[Any, DamagedFile | None]:
    """Where records begin, as an array."""
    import numpy as np

    from codec.scan import scan_positions

    walk = scan_positions(data)
    further, damage = _places(file, data, walk.end)
    return np.append(walk.positions, np.array(further, dtype=np.int64)), damage


def _places(file: NamedFile, data: memoryview, start: int) -> tuple[list[int], DamagedFile | None]:
    found = []
    try:
        for place, _ in walk_file(file, data, start):
            found.append(place.position)
    except CorruptionError as error:
        return found, DamagedFile(file.path, error)
    return found, None


def _from_the_beginning(file: NamedFile, data: memoryview, count: int, chosen: RecordFilter) -> Last:
    places, damage = _places(file, data, 0)
    return list(deque((at for at in places if _is_chosen(data, at, chosen)), count)), damage


def _is_chosen(data: memoryview, position: int, chosen: RecordFilter) -> bool:
    return chosen.is_open or chosen.accepts(stored_message(data, position))
