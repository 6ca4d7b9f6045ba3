"""The records of a commit log in a range, chosen by a filter, with their bodies as stored.

With NumPy, whole blocks are filtered first, and only records that may be chosen are decoded. The last N
records are found by going back from the last file. Because only the first byte of a file is known to start a
record, each file is walked from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import CommitLogFiles, Found, Place, stored_message, walk_file
from rmqcli.store.read.files import DamagedFile, NamedFile, data_size, mapped, naming_damage
from rmqcli.store.read.vectorised import block_records, is_vectorised

Progress = Callable[[int], None]


def log_records(
    log: CommitLogFiles, wanted: OffsetRange, chosen: RecordFilter, progress: Progress = lambda size: None
) -> Iterator[Found]:
    """Yield the chosen records of a range of commit-log offsets or store times.

    `last` counts chosen records. `progress` receives bytes. Raises DamagedFile at damage.
    """
    if wanted.only_new or wanted.last == 0:
        return
    if wanted.last is not None:
        yield from last_records(log, wanted.last, chosen, progress)
        return
    for file in log.files_in(wanted):
        with naming_damage(file), mapped(file) as data:
            yield from _of_file(file, data, wanted, chosen, progress)


def _of_file(
    file: NamedFile, data: memoryview, wanted: OffsetRange, chosen: RecordFilter, progress: Progress
) -> Iterator[Found]:
    done, begin, end = 0, wanted.begin or 0, wanted.end
    for block_end, positions in _blocks(file, data, wanted, chosen):
        for position in positions:
            message = _message(data, position, wanted, chosen)
            if message is not None:
                yield Place(file, position, message.store_size, message.commit_log_offset), message
        progress(block_end - done)
        done = block_end
    for place, _ in walk_file(file, data, done):
        if end is not None and place.offset >= end:
            return
        progress(place.size)
        message = None if place.offset < begin else _message(data, place.position, wanted, chosen)
        if message is not None:
            yield place, message


def _blocks(
    file: NamedFile, data: memoryview, wanted: OffsetRange, chosen: RecordFilter
) -> Iterable[tuple[int, list[int]]]:
    if not is_vectorised() or (chosen.is_open and wanted == OffsetRange()):
        return ()
    from rmqcli.codec.scan.predicate import candidate_records

    return candidate_records(data, file.base, *wanted.bounds, chosen, block_records())


def _message(data: memoryview, position: int, wanted: OffsetRange, chosen: RecordFilter) -> MessageExt | None:
    message = stored_message(data, position)
    is_chosen = wanted.holds_time(message.store_timestamp) and chosen.accepts(message)
    return message if is_chosen else None


Last = tuple[list[int], DamagedFile | None]
"""The positions of the last chosen records of a file, and the damage before which they end."""


def last_records(
    log: CommitLogFiles, count: int, chosen: RecordFilter, progress: Progress
) -> Iterator[Found]:
    """Yield the last chosen records in log order.

    For these, the log ends at the last damage: the records before it are yielded first, then DamagedFile is
    raised.
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
    if is_vectorised():
        try:
            return _from_the_end(file, data, count, chosen)
        except CorruptionError:
            pass
    places, damage = _places(file, data, 0)
    return list(deque((at for at in places if _is_chosen(data, at, chosen)), count)), damage


def _from_the_end(file: NamedFile, data: memoryview, count: int, chosen: RecordFilter) -> Last:
    """Return what `_last_of` returns, reading blocks from the end.

    Raises CorruptionError at an unusual record.
    """
    from rmqcli.codec.scan.predicate import last_candidates

    found: list[int] = []
    positions, damage = _walked(file, data)
    for block in last_candidates(data, file.base, positions, chosen, block_records()):
        for position in reversed(block):
            if _is_chosen(data, position, chosen):
                found.append(position)
            if len(found) == count:
                return found[::-1], damage
    return found[::-1], damage


def _walked(file: NamedFile, data: memoryview) -> tuple[Any, DamagedFile | None]:
    """Return an array of the positions where records start, and the damage that ends the walk."""
    import numpy as np

    from rmqcli.codec.scan import scan_positions

    # The quick walk stops at the first unusual record, from which the careful one continues.
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


def _is_chosen(data: memoryview, position: int, chosen: RecordFilter) -> bool:
    return chosen.is_open or chosen.accepts(stored_message(data, position))


NO_HOST = "0.0.0.0:0"
"""The text of both hosts of a message that salvage put in place of a lost one."""
LARGEST = 512
"""The maximum number of bytes of such a message."""


def is_stand_in(message: MessageExt) -> bool:
    return message.store_host == message.born_host == NO_HOST
