"""The profiles of the topics in a commit log.

One pass over the log in bounded memory: a topic takes at most about 30 KiB. The pass does not end at damage:
it continues at the next whole record.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from rmqcli.codec.errors import CorruptionError
from rmqcli.store.read.commit_log import CommitLogFiles, next_record, stored_message, walk_file
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.vectorised import block_records, is_vectorised
from rmqcli.store.stats.topic_shapes import LogShape

_SCALAR_RECORDS = 256  # records that are read one by one before blocks are tried again


Progress = Callable[[int], None]


def shape_of(log: CommitLogFiles, progress: Progress = lambda size: None) -> LogShape:
    """Read a log once. `progress` receives bytes."""
    shape = LogShape()
    for file in log.files:
        with mapped(file) as data:
            _add_file(file, data, shape, progress)
    return shape


def _add_file(file: NamedFile, data: memoryview, shape: LogShape, progress: Progress) -> None:
    position: int | None = 0
    while position is not None:
        begin = position
        position = _add_blocks(file, data, begin, shape)
        after = _add_records(file, data, position, shape)
        progress((after or len(data)) - begin)
        position = None if after == position else after


def _add_blocks(file: NamedFile, data: memoryview, position: int, shape: LogShape) -> int:
    """Return the byte after the records that were added in blocks."""
    if is_vectorised():
        from rmqcli.codec.scan.walk import sound_blocks
        from rmqcli.store.stats.topic_shape_blocks import add_block

        for block in sound_blocks(data, file.base, max_rows=block_records(), start=position):
            add_block(shape, block)
            position = block.end
    return position


def _add_records(file: NamedFile, data: memoryview, position: int, shape: LogShape) -> int | None:
    """Add records one by one. Return the byte after them, or None at damage that no whole record follows."""
    try:
        for place, _ in islice(walk_file(file, data, position), _SCALAR_RECORDS if is_vectorised() else None):
            position = place.position
            message = stored_message(data, position)
            position += place.size
            shape.add(message)
    except CorruptionError:
        shape.skipped += 1
        return next_record(file, data, position + 1)
    return position
