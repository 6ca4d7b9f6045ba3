"""Walks over the records of a commit log, for recovery."""

from __future__ import annotations

from collections.abc import Callable

from rmqcli.broker.disk import PAGE
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.segment import Segment
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.core.walk import CLOSED, Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.reading import peek_record, scan_record
from rmqcli.codec.store.record_layout import HEAD, MAGIC_FILLER, MAGIC_V1, MAGIC_V2, PREFIXES

ZERO_BYTES = 8
LENGTH_SIZE = 2
"""Size of the length field between topic and properties."""
RELEASED_BYTES = 16 << 20
LONGEST_PREFIX = max(prefix.size for prefix in PREFIXES.values())
MAGICS = (MAGIC_V1, MAGIC_V2, MAGIC_FILLER)

Visit = Callable[[int, RecordScan], None] | None


class LogBroken(Exception):
    """Raised if a part of the log that should be whole is damaged, from `offset` on."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def walk_whole(log: CommitLog, start: int, visit: Visit = None) -> None:
    """Visit the records from `start` to the end of the log. Raises LogBroken if one is damaged, because the
    records after it would be treated as nonexistent."""
    reached, _ = walk(log, start, visit, end=log.end)
    if reached < log.end:
        raise LogBroken(reached)


def scan_at(segment: Segment, position: int, limit: int, *, check_crc: bool = False) -> RecordScan:
    """Check the record at a position of a file, like `scan_record`. Raises CorruptionError. Blocks.

    A record may extend into a hole, because its last bytes may be zeros; a filler does, because only its
    first 8 bytes are written.
    """
    # Near a hole, the magic is checked with a read: touching a mapped hole would need a block on a full disk.
    if position + LONGEST_PREFIX > segment.data_end:
        head = segment.read(position, HEAD.size)
        if peek_record(head).magic not in MAGICS:
            raise CorruptionError("no record", position)
    return scan_record(segment.view, position, limit, check_crc=check_crc)


def stored_at(log: CommitLog, offset: int) -> int | None:
    """Return the store time in ms of the record at an offset; None if the log has none there."""
    segment = log.segments.find(offset) if offset < log.end else None
    if segment is None:
        return None
    try:
        return scan_at(segment, offset - segment.start, segment.size).store_timestamp
    except CorruptionError:
        return None


def walk(
    log: CommitLog,
    start: int,
    visit: Visit,
    *,
    end: int | None = None,
    check_crc: bool = False,
    doubt_from: int | None = None,
    power_lost: bool = False,
) -> tuple[int, int]:
    """Visit whole records; return the offset of the first incomplete one, and the number visited.

    From offset `doubt_from` on, the end of a record may be missing, or with `power_lost` any page of it.
    """
    count = 0
    offset = start
    for segment in list(log.segments.segments):
        if segment.end <= start:
            continue
        limit = segment.size if end is None else min(segment.size, end - segment.start)
        limit = min(limit, segment.found_size)
        doubted = segment.size if doubt_from is None else doubt_from - segment.start
        is_torn = _lacks_page if power_lost else _lacks_end
        offset, visited, closed = _walk_segment(
            segment, max(start - segment.start, 0), limit, visit, check_crc, doubted, is_torn
        )
        count += visited
        if not closed:
            break
    return offset, count


def _walk_segment(
    segment: Segment,
    position: int,
    limit: int,
    visit: Visit,
    check_crc: bool,
    doubted: int,
    is_torn: Callable[[memoryview, int, RecordScan], bool],
) -> tuple[int, int, bool]:
    base, released = segment.start, position
    records = Walk(segment.view, base, position, limit, limit, reach=segment.data_end, check_crc=check_crc)
    while True:
        try:
            if not records.next():
                break
        except CorruptionError:
            return base + records.position, records.count, False
        position = records.position
        if position >= doubted and is_torn(segment.view, position, records.scan()):
            return base + position, records.count - 1, False
        if visit is not None:
            visit(base + position, records.scan())
        if position - released > RELEASED_BYTES:
            segment.release_pages(released, RELEASED_BYTES)
            released = position
    if records.ending == CLOSED:
        return segment.end, records.count, True
    return base + records.position, records.count, records.position >= segment.size


def _lacks_page(view: memoryview, position: int, scan: RecordScan) -> bool:
    """Return True if the end of a page or of the record was never written: no CRC covers topic and
    properties, so they are examined for zeros.
    """
    end = position + scan.total_size
    properties = end - len(scan.properties)
    topic = properties - LENGTH_SIZE - len(scan.topic)
    # Both are text: a zero byte at the end of a page means that the page was not written.
    for start, stop in ((topic, topic + len(scan.topic)), (properties, end)):
        if not all(view[page - 1] for page in range((start // PAGE + 1) * PAGE, stop, PAGE)):
            return True
    return _lacks_end(view, position, scan)


def _lacks_end(view: memoryview, position: int, scan: RecordScan) -> bool:
    end = position + scan.total_size
    # No CRC covers the properties. If another record follows directly, the end of this one was written.
    return scan.properties.endswith(b"\0") and not any(view[end : end + ZERO_BYTES])
