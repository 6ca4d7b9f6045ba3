"""Records that are behind the end of their consume queue: entries that were not written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from codec.errors import CorruptionError
from codec.properties import decode_properties
from rmqcli.store.bulk import bulk_checks
from rmqcli.store.commit_log import CommitLog, walk_file
from rmqcli.store.dispatch import units_of
from rmqcli.store.files import NamedFile, mapped

__all__ = ["lacking_entries"]

_BLOCK_RECORDS = 4096

Ends = Mapping[tuple[str, int], int]


def lacking_entries(log: CommitLog, ends: Ends) -> Counter[tuple[str, int]]:
    """Queue → how many records have an offset at or behind its end. Queues without an end are left out; so is damage."""
    found: Counter[tuple[str, int]] = Counter()
    for file in log.files:
        with mapped(file) as data:
            position = 0
            while True:
                position = _skip_complete(data, position, ends)
                after = _look(file, data, position, ends, found)
                if after == position:
                    break
                position = after
    return found


def _skip_complete(data: memoryview, position: int, ends: Ends) -> int:
    bulk = bulk_checks()
    return position if bulk is None else int(bulk.skip_records_before(data, position, ends))


def _look(
    file: NamedFile, data: memoryview, position: int, ends: Ends, found: Counter[tuple[str, int]]
) -> int:
    """Counts in a block of records; the byte behind it, `position` itself where no record follows."""
    try:
        for number, (place, record) in enumerate(walk_file(file, data, position)):
            if number == _BLOCK_RECORDS:
                return place.position
            position = place.position + place.size
            for unit in units_of(record, decode_properties(record.properties)):
                key = unit.topic, unit.queue_id
                if key in ends and unit.queue_offset >= ends[key]:
                    found[key] += 1
    except CorruptionError:
        return position  # told of by the report of the log
    return position
