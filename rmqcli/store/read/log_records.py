"""The records of a commit log in a range, chosen by a filter, with their bodies as stored.

Records are tested in place, and only those that may be chosen are decoded. Because only the first byte of a
file is known to start a record, each file is walked from there, even for the last N records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from rmqcli.codec.core.record_tests import next_passing
from rmqcli.codec.core.walk import UNWRITTEN, Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.codec.records.possible import possible
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import CommitLogFiles, Found, Place, require_zeros, stored_message
from rmqcli.store.read.files import DamagedFile, NamedFile, data_size, mapped, naming_damage

STEP = 1 << 14
"""The number of records after which progress is reported."""

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
    walk, test, done = walk_up_to(file, data, wanted.end), possible(chosen, *wanted.bounds), 0
    while not walk.is_over:
        if next_passing(walk, test, STEP):
            message = stored_message(data, walk.position)
            if wanted.holds_time(message.store_timestamp) and chosen.accepts(message):
                yield Place(file, walk.position, walk.size, walk.base + walk.position), message
        progress(walk.position + walk.size - done)
        done = walk.position + walk.size
    if walk.ending == UNWRITTEN:
        require_zeros(file, data, walk.position)


def walk_up_to(file: NamedFile, data: memoryview, end: int | None) -> Walk:
    """Return a walk that ends at a commit-log offset. Raises CorruptionError if the base of the file is needed and
    its first record is damaged.
    """
    walk = Walk(data, -1 if file.base is None else file.base)
    if end is None:
        return walk
    if walk.base < 0:
        walk.next()
    return Walk(data, walk.base, 0, max(end - walk.base, 0))


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
    walk, test = walk_up_to(file, data, None), possible(chosen)
    damage, found = None, []
    try:
        while next_passing(walk, test, len(data)):
            found.append(walk.position)
        if walk.ending == UNWRITTEN:
            require_zeros(file, data, walk.position)
    except CorruptionError as error:
        damage = DamagedFile(file.path, error)
    accepted = (at for at in reversed(found) if chosen.is_open or chosen.accepts(stored_message(data, at)))
    return list(islice(accepted, count))[::-1], damage


NO_HOST = "0.0.0.0:0"
"""The text of both hosts of a message with which salvage replaced a lost one."""
LARGEST = 512
"""The maximum number of bytes of such a message."""


def is_stand_in(message: MessageExt) -> bool:
    return message.store_host == message.born_host == NO_HOST
