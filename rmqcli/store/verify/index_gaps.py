"""The search for records that no index file covers: before the first, between two, after the last."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from codec.errors import CorruptionError
from codec.properties import decode_properties
from codec.store.dispatch import index_hashes
from codec.store.index_file import IndexHeader
from rmqcli.store.read.commit_log import CommitLogFiles, walk_file
from rmqcli.store.read.files import mapped

_END = 1 << 63


class Unindexed(NamedTuple):
    """The first record with keys, at a commit-log offset, that is in no file."""

    offset: int
    is_after: bool


def unindexed(log: CommitLogFiles, headers: list[IndexHeader]) -> Iterator[Unindexed]:
    """Yield the begin of each gap. `headers` are those of files with items, in order; the log is sound."""
    bounds = [(header.begin_phy_offset, header.end_phy_offset) for header in headers]
    if not bounds:
        return
    begin = log.files[0].base or 0
    gaps = [(begin - 1, bounds[0][0]), *((one[1], other[0]) for one, other in pairwise(bounds))]
    for after, before in (*gaps, (bounds[-1][1], _END)):
        first = _first_with_keys(log, after, before)
        if first is not None:
            yield Unindexed(first, before == _END)


def _first_with_keys(log: CommitLogFiles, after: int, before: int) -> int | None:
    """Return the first such record between two commit-log offsets; `after` is that of a record."""
    for file in log.files:
        base = file.base or 0
        if base + file.size <= after:
            continue
        with mapped(file) as data:
            try:
                for place, record in walk_file(file, data, max(after - base, 0)):
                    if place.offset >= before:
                        return None
                    if place.offset > after and index_hashes(record, decode_properties(record.properties)):
                        return place.offset
            except CorruptionError:
                return None
    return None
