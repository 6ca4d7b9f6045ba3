"""The part of a commit log that can hold the records of a range of store times, found by reading few records.

Store times rise along a log unless the broker's clock was set back. If it never was by more than a
margin (`RowFilter.set_back_ms`), records before one that was stored so much before the range are before the
range, too, and likewise after its end. Some hundred records across the log are sampled, at a distance of at
least `RowFilter.sample_bytes`, which take as long to read as one. A larger fall makes the whole log be read;
one that recovers before the next sample goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from codec.store.record import store_timestamp_at
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.render.output import warn
from rmqcli.store.read.commit_log import LogViews, next_record
from rmqcli.store.read.files import NamedFile

_SAMPLES = 256
_LOOK = 1 << 16


class _Stamp(NamedTuple):
    offset: int
    time: int


def log_range(files: Sequence[NamedFile], rows: RowFilter) -> tuple[int, int | None]:
    """Return the commit-log offsets [begin, end) that hold all records in the times of `rows`; end None is
    the end of the log. Both are starts of records.
    """
    timed = rows.begin_time is not None or rows.end_time is not None
    if not timed or any(file.base is None for file in files):
        return 0, None
    with _Log(files) as log:
        stamps = list(log.samples(rows.sample_bytes))
        fallen = _fall(stamps, rows.set_back_ms)
        if fallen is not None:
            warn(f"the broker's clock was set back before commit-log offset {fallen}; the whole log is read")
            return 0, None
        begin, end = 0, None
        if rows.begin_time is not None:
            begin, _ = log.cross(stamps, rows.begin_time - rows.set_back_ms, rows.sample_bytes)
        if rows.end_time is not None:
            _, end = log.cross(stamps, rows.end_time + rows.set_back_ms, rows.sample_bytes)
        return begin, end


def _fall(stamps: Sequence[_Stamp], margin: int) -> int | None:
    """Return the first record stored more than the margin (ms) before one in front of it."""
    newest = 0
    for stamp in stamps:
        newest = max(newest, stamp.time)
        if newest - stamp.time > margin:
            return stamp.offset
    return None


class _Log(LogViews):
    """Records near given places."""

    def samples(self, least_step: int) -> Iterator[_Stamp]:
        """Yield the first record of each file, and records at equal distances."""
        step = max(sum(file.size for file in self.files) // _SAMPLES, least_step)
        for number, file in enumerate(self.files):
            for start in range(0, file.size, step):
                stamp = self._first(number, start, min(start + step, file.size))
                if stamp is not None:
                    yield stamp

    def cross(self, stamps: Sequence[_Stamp], time: int, least_step: int) -> tuple[int, int | None]:
        """Return neighbouring records around a time: one stored before it (else 0), one not (else None)."""
        number = next((n for n, stamp in enumerate(stamps) if stamp.time >= time), len(stamps))
        low = stamps[number - 1].offset if number else 0
        if number == len(stamps):
            return low, None
        high = stamps[number].offset
        while number and high - low > least_step:
            stamp = self._between(low, high)
            if stamp is None:
                break
            low, high = (stamp.offset, high) if stamp.time < time else (low, stamp.offset)
        return low, high

    def _between(self, low: int, high: int) -> _Stamp | None:
        """Return a record after the middle of two records, else one before it."""
        middle = (low + high) // 2
        for begin, end in ((middle, high), (low + 1, middle)):
            for number, file in enumerate(self.files):
                base = file.base or 0
                stamp = self._first(number, max(begin - base, 0), min(end - base, file.size))
                if stamp is not None:
                    return stamp
        return None

    def _first(self, number: int, start: int, stop: int) -> _Stamp | None:
        look = _LOOK
        while start < stop:
            file, data = self.files[number], self.view(number)
            found = next_record(file, data, start, min(start + look, stop))
            if found is not None:
                return _Stamp((file.base or 0) + found, store_timestamp_at(data, found))
            start, look = start + look, look * 4
        return None
