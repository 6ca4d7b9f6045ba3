"""Waiting timer messages: wheel, log and check point, as in 5.x (Java `TimerMessageStore`).

The second in which a message is due is a slot; each waiting message is a unit of the log, and the units of a
slot form a chain. Only the slots in use and the number of messages in each are kept in memory, no single
message. Files are created with the first message.

A stop leaves wheel, log and check point in agreement, and the next start reads the wheel. After anything else
(a kill, a power cut, a store that was copied while in use) the wheel is filled again from the log, up to the
position in the check point; entries of the timer topic's queue after it are put in again by the caller. If
the log is damaged or missing, `load` begins with the first entry of the queue, and `is_delivered` says what
was delivered before. So every message that is not known to be delivered is delivered; a crash may repeat
those of the last second.

All methods block, and are called from one task at a time. Times are ms.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rmqcli.broker.disk import PAGE, Disk, MappedFile
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.store.file_names import file_name, is_file_name
from rmqcli.codec.store.timer_files import (
    DEFAULT,
    DELETE,
    FILLER,
    FILLER_UNIT,
    LOG_FILE_SIZE,
    NO_POSITION,
    PRECISION_MS,
    ROLL,
    SLOT,
    UNIT,
    WHEEL_SIZE,
    TimerCheckPoint,
    TimerUnit,
    decode_check_point,
    decode_safe_point,
    decode_unit,
    encode_check_point,
    encode_filler,
    encode_unit,
    slot_index,
)

PAST_MS = 7 * 86_400_000
"""A message that was due longer ago than this waits in the slot of this time, so that it does not take the
place of a future slot.
"""
SLOT_MARGIN_MS = 10_000
"""Time after which a message of a slot that was delivered has been put into its next slot."""
LOG_STEP = 1 << 20
"""Bytes of the log that are reserved on the disk at once."""

QueueOffsetOf = Callable[[int, int], int | None]
"""Returns the queue offset of the timer message with this commit-log offset and size; None if there is none."""

_log = logging.getLogger(__name__)


class TimerEntry(NamedTuple):
    """A message of the timer topic on its way into the wheel. `out` is its property TIMER_OUT_MS."""

    out: int
    offset: int
    size: int
    topic_hash: int
    is_delete: bool


def rolled(out: int, write_time: int, window: int) -> tuple[int, bool]:
    """Return the slot of a message, and True if it waits there only for its next slot.

    A record must not wait longer than its file exists. One that is due within a third of the `window` after
    it gets half of the window first, so that enough time is left for its last slot.
    """
    delay = out - write_time
    if delay < window:
        return out, False
    short = delay - window < window // 3
    return write_time + window // (2 if short else 1) // PRECISION_MS * PRECISION_MS, True


class TimerWheel:
    """The waiting timer messages of one store."""

    def __init__(self, disk: Disk, root: Path, window: int, log_file_size: int = LOG_FILE_SIZE) -> None:
        """`window` is the longest time for which a message waits in one slot."""
        self.window = window
        self._disk = disk
        self._wheel_path = root / "timerwheel"
        self._log_folder = root / "timerlog"
        self._check_point_path = root / "config" / "timercheck"
        self._file_size = log_file_size
        self._wheel: MappedFile | None = None
        self._files: dict[int, MappedFile] = {}
        self._unsynced: set[int] = set()
        self._counter = 0
        self._reserved: set[int] = set()
        """The pages of the wheel that have blocks on the disk."""
        self._reserved_log = 0
        self._skip_before = self._skip_until = 0
        self.log_start = self.log_end = 0
        self.queue_offset = 0
        """The offset of the next entry of the timer topic's queue."""
        self.slots: list[int] = []
        """The slots in use, in order."""
        self.counts: dict[int, int] = {}
        """The number of messages in each slot."""
        self.by_topic: Counter[int] = Counter()
        """The number of messages of each topic, given by its hash."""
        self.is_dirty = False
        """True if something has changed since the last save."""
        self.is_open = False
        """True if the check point says that wheel and log are in use."""

    # --- waiting messages

    @property
    def waiting(self) -> int:
        """The number of waiting messages."""
        return sum(self.by_topic.values())

    def next_slot(self) -> int | None:
        """Return the first slot in use."""
        return self.slots[0] if self.slots else None

    def read_time(self, now: int) -> int:
        """Return the time before which every slot is delivered."""
        second = now // PRECISION_MS * PRECISION_MS
        return min(self.slots[0], second) if self.slots else second

    def is_delivered(self, queue_offset: int, entry: TimerEntry, stored: int) -> bool:
        """Return True for an entry that was delivered, or moved on in a new record, before the timers were
        lost; `stored` is the time at which it was stored."""
        if queue_offset >= self._skip_until:
            return False
        slot, is_rolled = rolled(entry.out, stored // PRECISION_MS * PRECISION_MS, self.window)
        return slot + (SLOT_MARGIN_MS if is_rolled else 0) < self._skip_before

    @property
    def is_behind(self) -> bool:
        """True until the entries that `is_delivered` can tell apart are read; an earlier check point would
        lose that information.
        """
        return self.queue_offset < self._skip_until

    def add(self, entries: Iterable[TimerEntry | None], now: int) -> None:
        """Put messages into their slots, in the order of the queue; None stands for an entry that does not
        wait. Raises OSError if the disk is full: `queue_offset` shows how far it got.
        """
        written = now // PRECISION_MS * PRECISION_MS
        self.is_dirty = True
        for entry in entries:
            if entry is not None:
                self._add(entry, written)
            self.queue_offset += 1

    def _add(self, entry: TimerEntry, written: int) -> None:
        slot, is_rolled = rolled(max(entry.out, written - PAST_MS), written, self.window)
        magic = DEFAULT | (ROLL if is_rolled else 0) | (DELETE if entry.is_delete else 0)
        first, previous, count = self._slot(slot) or (NO_POSITION, NO_POSITION, 0)
        # Both before the message is written: if the disk refuses, it is in neither wheel nor log.
        self._reserve_slot(slot)
        position = self._reserve_unit()
        unit = TimerUnit(position, previous, magic, written, slot, entry.offset, entry.size, entry.topic_hash)
        self._append(unit)
        count += -1 if entry.is_delete else 1
        self._set_slot(slot, position if first == NO_POSITION else first, position, count)
        self._note(slot, entry.topic_hash, is_delete=entry.is_delete)

    def is_old(self, now: int) -> bool:
        """Return True if a slot must be delivered before others are added, which may need its place."""
        return bool(self.slots) and self.slots[0] < now - PAST_MS

    def chain(self, slot: int) -> tuple[array[int], list[TimerUnit]]:
        """Return the positions of the units of a slot, in order, and those units that recall messages."""
        positions: array[int] = array("q")
        deletes: list[TimerUnit] = []
        found = self._slot(slot)
        position = NO_POSITION if found is None else found[1]
        while position >= self.log_start:
            unit = self.unit(position)
            if unit is None or unit.slot != slot:
                _log.error("the timer log has no message of slot %d at %d", slot, position)
                break
            positions.append(position)
            if unit.magic & DELETE and not unit.magic & ROLL:
                deletes.append(unit)
            # A damaged link to a later unit would lead round in circles.
            position = unit.previous if unit.previous < position else NO_POSITION
        positions.reverse()
        return positions, deletes

    def unit(self, position: int) -> TimerUnit | None:
        """Return the unit at a position of the log."""
        start = position // self._file_size * self._file_size
        file = self._files.get(start)
        if file is None or position >= self.log_end:
            return None
        return decode_unit(file.view, position - start, position)

    def units(self, positions: Iterable[int]) -> list[TimerUnit]:
        """Return the units at these positions."""
        return [unit for position in positions if (unit := self.unit(position)) is not None]

    def clear(self, slot: int) -> None:
        """Empty a slot whose messages are delivered."""
        if self._slot(slot) is not None:
            self._put(slot, SLOT.pack(-1, NO_POSITION, NO_POSITION, 0, 0))
        self.counts.pop(slot, None)
        at = bisect_left(self.slots, slot)
        if at < len(self.slots) and self.slots[at] == slot:
            del self.slots[at]
        self.is_dirty = True

    def done(self, unit: TimerUnit) -> None:
        """Count a message that no longer waits."""
        self.by_topic[unit.topic_hash] -= -1 if unit.magic & DELETE else 1

    def _note(self, slot: int, topic_hash: int, *, is_delete: bool) -> None:
        if slot not in self.counts:
            self.counts[slot] = 0
            insort(self.slots, slot)
        step = -1 if is_delete else 1
        self.counts[slot] += step
        self.by_topic[topic_hash] += step

    # --- the files

    def _slot(self, slot: int) -> tuple[int, int, int] | None:
        """Return the first and last position and the count of a slot in use."""
        if self._wheel is None:
            return None
        time, first, last, count, _ = SLOT.unpack_from(self._wheel.view, slot_index(slot) * SLOT.size)
        is_used = time == slot // PRECISION_MS and last >= 0 and slot in self.counts
        return (first, last, count) if is_used else None

    def _set_slot(self, slot: int, first: int, last: int, count: int) -> None:
        self._reserve_slot(slot)
        self._put(slot, SLOT.pack(slot // PRECISION_MS, first, last, count, 0))

    def _put(self, slot: int, packed: bytes) -> None:
        at = slot_index(slot) * SLOT.size
        if self._wheel is not None:
            self._wheel.view[at : at + len(packed)] = packed

    def _open_wheel(self) -> MappedFile:
        if self._wheel is None:
            self._disk.make_folder(self._wheel_path.parent)
            self._wheel = self._disk.open_mapped(self._wheel_path, WHEEL_SIZE)
        return self._wheel

    def _reserve_slot(self, slot: int) -> None:
        """Give the page of a slot a block: writing to a mapped hole of a full disk would end the process."""
        page = slot_index(slot) * SLOT.size // PAGE
        if page not in self._reserved:
            self._open_wheel().reserve(page * PAGE, PAGE)
            self._reserved.add(page)

    def _reserve_unit(self) -> int:
        """Return the position of the next unit, after making room for it."""
        start = self.log_end // self._file_size * self._file_size
        at = self.log_end - start
        if at and at + UNIT.size + FILLER_UNIT.size > self._file_size:
            filler = encode_filler(self._file_size - at)
            self._files[start].view[at : at + len(filler)] = filler
            self._unsynced.add(start)
            start, at = start + self._file_size, 0
        if start not in self._files:
            self._open(start)
        # A filler has to fit as well: the next call may write one here.
        end = start + at + UNIT.size + FILLER_UNIT.size
        if end > self._reserved_log:
            until = min(start + at + LOG_STEP, start + self._file_size)
            self._files[start].reserve(at, until - start - at)
            self._reserved_log = until
        return start + at

    def _append(self, unit: TimerUnit) -> None:
        start = unit.position // self._file_size * self._file_size
        at = unit.position - start
        self._files[start].view[at : at + UNIT.size] = encode_unit(unit)
        self._unsynced.add(start)
        self.log_end = unit.position + UNIT.size

    def _path(self, start: int) -> Path:
        return self._log_folder / file_name(start)

    def _open(self, start: int) -> None:
        self._disk.make_folder(self._log_folder)
        self._files[start] = self._disk.open_mapped(self._path(start), self._file_size)
        self._disk.sync_folder(self._log_folder)

    def save(self, now: int, *, is_closed: bool = False) -> None:
        """Sync wheel and log, and write the check point. The records to which units refer must already be on
        the disk.
        """
        for start in sorted(self._unsynced):
            self._disk.sync_file(self._path(start))
        self._unsynced.clear()
        if self._wheel is not None:
            self._disk.sync_file(self._wheel_path)
            self._disk.sync_folder(self._wheel_path.parent)
        self.is_dirty, self.is_open = False, not is_closed
        # Last, because it says how far wheel and log are on the disk.
        self._save_check_point(now, is_closed=is_closed)

    def check_point(self, now: int) -> TimerCheckPoint:
        """Return the numbers of the check point."""
        offset = self.queue_offset
        return TimerCheckPoint(self.read_time(now), self.log_end, offset, offset, 0, now, self._counter)

    def _save_check_point(self, now: int, *, is_closed: bool) -> None:
        self._counter += 1
        self._write_check_point(self.check_point(now), is_closed=is_closed)

    def _write_check_point(self, known: TimerCheckPoint, *, is_closed: bool) -> None:
        self._disk.make_folder(self._check_point_path.parent)
        self._disk.write(self._check_point_path, encode_check_point(known, is_closed=is_closed))
        self._disk.sync_file(self._check_point_path)
        self._disk.sync_folder(self._check_point_path.parent)

    def delete_before(self, commit_log_start: int) -> None:
        """Remove the files of the log whose units refer to records before an offset only, except the last."""
        while self.log_start + self._file_size <= self.log_end:
            last = self._last_unit(self.log_start)
            if last is not None and last.offset >= commit_log_start:
                return
            file = self._files.pop(self.log_start, None)
            if file is not None:
                file.close()
            self._unsynced.discard(self.log_start)
            self._disk.unlink(self._path(self.log_start))
            self.log_start += self._file_size

    def _last_unit(self, start: int) -> TimerUnit | None:
        """Return the last unit of a full file."""
        return self.unit(start + (self._file_size - FILLER_UNIT.size) // UNIT.size * UNIT.size - UNIT.size)

    def close(self) -> None:
        """Close the files without a sync, as a killed process would."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        if self._wheel is not None:
            self._wheel.close()
            self._wheel = None

    # --- starting

    def load(self, *, stop_was_clean: bool, queue: tuple[int, int], queue_offset_of: QueueOffsetOf) -> None:
        """Read the files. `queue` has the first and the next offset of the timer topic's queue.

        `stop_was_clean` counts if a broker in Java wrote the files last.
        """
        known, is_closed = self._load_check_point()
        found = [path for path in self._disk.list(self._log_folder) if is_file_name(path.name)]
        if known is None and not found and self._disk.state(self._wheel_path) is None:
            self.queue_offset = queue[0]
            return
        known = known or TimerCheckPoint()
        self._counter = known.counter
        self._open_log(found)
        by_java = is_closed is None
        clean = stop_was_clean if by_java else is_closed
        end = self._end_of_log(known.log_flush_position, exact=clean or not by_java)
        if not end:
            self._begin_again(known, queue[0])
            return
        self.log_end = end
        self.queue_offset = known.queue_offset
        if by_java and not clean:
            self.queue_offset = self._queue_offset_after_log(known, queue_offset_of)
        if not (clean and self._read_wheel(known.last_read_time)):
            self._cut(end)
            if not self._fill(known.last_read_time):
                self._begin_again(known, queue[0])
                return
        low, high = queue
        if self.queue_offset > high:
            _log.warning("the queue of the timers ends at %d, and was read up to %d", high, self.queue_offset)
        self.queue_offset = min(max(self.queue_offset, low), high)

    def _load_check_point(self) -> tuple[TimerCheckPoint | None, bool | None]:
        """Return the check point, and whether this broker closed the timers; None if Java wrote it last."""
        try:
            content = self._disk.read(self._check_point_path)
            return decode_check_point(content), decode_safe_point(content)
        except FileNotFoundError:
            return None, None
        except CorruptionError as error:
            _log.warning("%s: %s", self._check_point_path, error)
            return None, None

    def _open_log(self, found: list[Path]) -> None:
        if not found:
            return
        sizes = [state.size for path in found if (state := self._disk.state(path)) is not None]
        if sizes[0]:
            self._file_size = sizes[0]
        self.log_start = int(found[0].name)
        for path in found:
            start = int(path.name)
            self._files[start] = self._disk.open_mapped(path, self._file_size)
            self._unsynced.add(start)

    def _end_of_log(self, flushed: int, *, exact: bool) -> int:
        """Return the position after the last unit: the flushed position or, unless that is `exact`, after the
        whole units that follow it. Return 0 if the log does not reach the flushed position."""
        self.log_end = flushed
        # What ends a whole file is a filler, not a unit.
        at_boundary = flushed % self._file_size == 0 and flushed - self._file_size in self._files
        if flushed <= self.log_start or not (at_boundary or self.unit(flushed - UNIT.size)):
            if flushed:
                text = "the timer log does not reach %d: the timers are read from their topic again"
                _log.warning(text, flushed)
            if exact or flushed:
                return 0
            flushed = self.log_start
        if exact:
            return flushed
        end = flushed
        for unit in self._scan(flushed, self.log_start + len(self._files) * self._file_size):
            end = unit.position + UNIT.size
        return end

    def _scan(self, begin: int, end: int) -> Iterator[TimerUnit]:
        """Yield the units of a part of the log, until there is none where one must be."""
        position = begin
        while position < end:
            start = position // self._file_size * self._file_size
            file, at = self._files.get(start), position - start
            if file is None:
                return
            unit = decode_unit(file.view, at, position)
            if unit is not None:
                yield unit
                position += UNIT.size
            elif (
                at + FILLER_UNIT.size <= self._file_size
                and FILLER_UNIT.unpack_from(file.view, at)[2] == FILLER
            ):
                position = start + self._file_size
            else:
                return

    def _queue_offset_after_log(self, known: TimerCheckPoint, queue_offset_of: QueueOffsetOf) -> int:
        """Return the offset of the first entry of the queue that is not in the log of a broker in Java, whose
        check point may be ahead of the log."""
        last = self.unit(self.log_end - UNIT.size)
        offset = None if last is None else queue_offset_of(last.offset, last.size)
        return known.queue_offset if offset is None else min(known.queue_offset, offset + 1)

    def _read_wheel(self, read_time: int) -> bool:
        """Find the slots in use of a wheel that agrees with the log. Return False if it does not."""
        state = self._disk.state(self._wheel_path)
        if state is None or state.size != WHEEL_SIZE:
            return not self._files
        self._wheel = self._disk.open_mapped(self._wheel_path, WHEEL_SIZE)
        for begin, end in self._disk.data_ranges(self._wheel_path, 0, WHEEL_SIZE):
            first = begin // SLOT.size * SLOT.size
            last = min(-(-end // SLOT.size) * SLOT.size, WHEEL_SIZE)
            for time, _, position, count, _ in SLOT.iter_unpack(self._wheel.view[first:last]):
                slot = time * PRECISION_MS
                if slot >= read_time and time > 0 and self.log_start <= position < self.log_end:
                    self.counts[slot] = count
        self.slots = sorted(self.counts)
        self._count_topics()
        return True

    def _cut(self, end: int) -> None:
        """Remove the units from `end` on, and the wheel."""
        for start in sorted(self._files):
            if start >= end and start > self.log_start:
                self._files.pop(start).close()
                self._disk.unlink(self._path(start))
            elif end < start + self._file_size:
                self._files[start].clear_from(max(end - start, 0))
                self._unsynced.add(start)
        self._drop_wheel()

    def _drop_wheel(self) -> None:
        if self._wheel is not None:
            self._wheel.close()
            self._wheel = None
        self._disk.unlink(self._wheel_path)
        self._reserved.clear()
        self.counts.clear()
        self.slots.clear()
        self.by_topic.clear()
        self.is_dirty = True

    def _fill(self, read_time: int) -> bool:
        """Fill the wheel from the log with undelivered messages. Return False if the log is damaged."""
        self._open_wheel()
        end = self.log_start
        for unit in self._scan(self.log_start, self.log_end):
            end = unit.position + UNIT.size
            if unit.slot < read_time:
                continue
            if self._is_taken(unit.slot):
                return False
            first, _, count = self._slot(unit.slot) or (unit.position, 0, 0)
            count += -1 if unit.magic & DELETE else 1
            self._note(unit.slot, unit.topic_hash, is_delete=bool(unit.magic & DELETE))
            self._set_slot(unit.slot, first, unit.position, count)
        return end == self.log_end or self.log_end % self._file_size == 0

    def _is_taken(self, slot: int) -> bool:
        """Return True if the place of a slot holds the messages of another time, 14 days away."""
        if self._wheel is None:
            return False
        time = SLOT.unpack_from(self._wheel.view, slot_index(slot) * SLOT.size)[0]
        return time != slot // PRECISION_MS and time * PRECISION_MS in self.counts

    def _count_topics(self) -> None:
        for slot in self.slots:
            for unit in self.units(self.chain(slot)[0]):
                self.by_topic[unit.topic_hash] += -1 if unit.magic & DELETE else 1

    def _begin_again(self, known: TimerCheckPoint, queue_start: int) -> None:
        """Remove wheel and log, and begin with the first entry of the queue, without those that were delivered
        according to the check point."""
        for start in sorted(self._files):
            self._files.pop(start).close()
            self._disk.unlink(self._path(start))
        self._disk.remove_empty_folder(self._log_folder)
        self._unsynced.clear()
        self.log_start = self.log_end = self._reserved_log = 0
        self._drop_wheel()
        self.queue_offset = queue_start
        self._skip_before, self._skip_until = known.last_read_time, known.queue_offset

    def adopt(self, known: TimerCheckPoint, queue_start: int) -> None:
        """Start over, as a slave whose master has this check point."""
        if (known.last_read_time, known.queue_offset) != (self._skip_before, self._skip_until):
            self._begin_again(known, queue_start)
            self._write_check_point(known._replace(log_flush_position=0), is_closed=False)
