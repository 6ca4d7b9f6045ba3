"""The commit log of a broker that runs, as far as it was written at one moment: what comes while it is read is no damage behind
its end, nor a record cut in two.
"""

from __future__ import annotations

from collections.abc import Sequence

from codec.store.record import BLANK_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, peek_record
from rmqcli.store.read.commit_log import next_record
from rmqcli.store.read.files import NamedFile, data_extents, mapped

__all__ = ["as_written"]

_MAGICS = frozenset((MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_NEAR = 8 * 1024 * 1024
"""Bytes before the last written page in which a whole record is looked for, to walk from there."""


def as_written(files: Sequence[NamedFile]) -> list[NamedFile]:
    """The files up to the one that has the newest record, with the size that it is filled to."""
    for number in reversed(range(len(files))):
        file = files[number]
        with mapped(file) as data:
            if number == 0 or (len(data) >= BLANK_SIZE and peek_record(data).total_size):
                return [*files[:number], file._replace(size=_filled(file, data))]
    return []


def _filled(file: NamedFile, data: memoryview) -> int:
    """Where the next record will be; the whole size where the walk meets something else than records."""
    position = _start(file, data)
    while len(data) - position >= BLANK_SIZE:
        head = peek_record(data, position)
        if head.total_size == 0:
            return position
        if head.magic not in _MAGICS or not 0 < head.total_size <= len(data) - position:
            break
        position += head.total_size
    return len(data)


def _start(file: NamedFile, data: memoryview) -> int:
    written = max((end for _, end in data_extents(file, 0, len(data))), default=0)
    near = max(written - _NEAR, 0)
    return (next_record(file, data, near, written) or 0) if near else 0
