"""The waiting timer messages of a store folder, as a broker that starts on it finds them.

The wheel leads from each second to its units in the timer log, and each unit to its record in the commit
log. If the wheel is missing, or does not agree with the log, the log is read, as by a broker; without a log,
the queue of the timer topic. Records of that queue after the last unit follow at the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import TIMER_TOPIC
from rmqcli.codec.property_names import PropertyName as P
from rmqcli.codec.store.timer_files import (
    DELETE,
    FILLER,
    FILLER_UNIT,
    PRECISION_MS,
    SLOT,
    UNIT,
    WHEEL_SIZE,
    TimerCheckPoint,
    TimerUnit,
    decode_check_point,
    decode_unit,
)
from rmqcli.store.read.commit_log import LogReader, Place
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, QueueEntry
from rmqcli.store.read.files import NamedFile, mapped, offset_files
from rmqcli.store.read.pending import with_real_topic


class TimerMessage(NamedTuple):
    """A waiting message, delivered from `due` (ms) on.

    Its topic and queue are the real ones, its queue offset that in the queue of the timer topic.
    """

    due: int
    place: Place
    message: MessageExt


class TimerFiles:
    """The timer messages of a store folder; a context manager that maps the files.

    `problems` lists the problems of the files, once the messages are read; `gone` counts messages whose
    records are not in the commit log.
    """

    def __init__(self, store: Path) -> None:
        """Raise FileNotFoundError if the store has no commit log."""
        self.problems: list[str] = []
        self.gone = 0
        self._store = store
        self._log = LogReader(store)
        self._stack = ExitStack()
        self._files: list[tuple[NamedFile, memoryview]] = []
        self._bases: list[int] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(self._log)
        folder = self._store / "timerlog"
        for file in _files_of(folder):
            self._files.append((file, self._stack.enter_context(mapped(file))))
            self._bases.append(file.base or 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._files.clear()
        self._stack.close()

    def messages(self) -> Iterator[TimerMessage]:
        """Yield the messages second by second. A message that waits for longer than two days is stored again
        in between, and comes with the second in which that happens.
        """
        known = self._check_point()
        last = self._last_unit(known.log_flush_position)
        slots = {} if last is None else self._slots(known.last_read_time, last.position)
        if last is None and self._is_used():
            state = f"ends before {known.log_flush_position:,}" if self._files else "is missing"
            self.problems.append(f"timerlog {state}: read from the queue of {TIMER_TOPIC}")
        queue = [] if last is None else [known.queue_offset]
        tail = [one for one in self._queue(*queue) if last is None or one.commit_log_offset > last.offset]
        recalled, rolls = self._recalled(slots, tail)
        for slot in sorted(slots):
            for unit in reversed(list(self._chain(slot, slots[slot]))):
                if not unit.magic & DELETE:
                    yield from self._timer(unit.offset, recalled)
        for entry in tail:
            for one in self._timer(entry.commit_log_offset, recalled):
                properties = one.message.properties
                rolled = int(properties.get(P.TIMER_ROLL_TIMES, "0"))
                is_last = rolled == rolls.get(properties.get(P.UNIQ_KEY, ""), rolled)
                if is_last and one.due - PRECISION_MS >= known.last_read_time:
                    yield one

    # --- the files

    def _check_point(self) -> TimerCheckPoint:
        try:
            return decode_check_point((self._store / "config" / "timercheck").read_bytes())
        except FileNotFoundError:
            if self._files:
                self.problems.append(
                    "config/timercheck is missing: messages that were delivered are listed, too"
                )
        except CorruptionError as error:
            self.problems.append(f"config/timercheck: {error}; messages that were delivered are listed, too")
        return TimerCheckPoint()

    def _is_used(self) -> bool:
        return (self._store / "timerwheel").exists() and next(self._queue(), None) is not None

    def _queue(self, begin: int = 0) -> Iterator[QueueEntry]:
        folder = self._store / "consumequeue" / TIMER_TOPIC / "0"
        if folder.is_dir():
            yield from ConsumeQueueFiles(folder, _files_of(folder)).entries(begin)

    def _unit(self, position: int) -> TimerUnit | None:
        number = bisect_right(self._bases, position) - 1
        if number < 0:
            return None
        return decode_unit(self._files[number][1], position - self._bases[number], position)

    def _units(self, begin: int) -> Iterator[TimerUnit]:
        """Yield the units of the log from a position on, until there is none where one must be."""
        for base, (_, data) in zip(self._bases, self._files, strict=True):
            at = max(begin - base, 0)
            while (unit := decode_unit(data, at, base + at)) is not None:
                yield unit
                at += UNIT.size
            filled = at + FILLER_UNIT.size <= len(data) and FILLER_UNIT.unpack_from(data, at)[2] == FILLER
            if at < len(data) and not filled:
                return

    def _last_unit(self, flushed: int) -> TimerUnit | None:
        """Return the last unit; None if there is none, or if the log does not reach the flushed position."""
        ends = {base + len(data): base for base, (_, data) in zip(self._bases, self._files, strict=True)}
        begin = ends.get(flushed, flushed - UNIT.size) if flushed else 0
        last = None
        for unit in self._units(begin):
            last = unit
        return None if self._unit(begin) is None else last

    def _slots(self, read_time: int, end: int) -> dict[int, int]:
        """Return the position of the last unit of each second that is not delivered."""
        problem, slots = self._wheel(read_time, end)
        if problem is None:
            return slots
        self.problems.append(f"timerwheel {problem}: read from timerlog")
        return {unit.slot: unit.position for unit in self._units(0) if unit.slot >= read_time}

    def _wheel(self, read_time: int, end: int) -> tuple[str | None, dict[int, int]]:
        path = self._store / "timerwheel"
        slots: dict[int, int] = {}
        if not path.exists():
            return "is missing", slots
        size = path.stat().st_size
        if size != WHEEL_SIZE:
            return f"has {size:,} bytes instead of {WHEEL_SIZE:,}", slots
        with mapped(NamedFile(path, None, size)) as data:
            for time, _, position, _, _ in SLOT.iter_unpack(data):
                slot = time * PRECISION_MS
                if time > 0 and slot >= read_time:
                    unit = self._unit(position)
                    if not 0 <= position <= end or unit is None or unit.slot != slot:
                        return f"does not agree with timerlog at {position:,}", slots
                    slots[slot] = position
        return None, slots

    def _chain(self, slot: int, position: int) -> Iterator[TimerUnit]:
        """Yield the units of a second, the last one first."""
        while (unit := self._unit(position)) is not None and unit.slot == slot:
            yield unit
            if not 0 <= unit.previous < position:
                return
            position = unit.previous

    # --- the messages

    def _recalled(self, slots: dict[int, int], tail: list[QueueEntry]) -> tuple[set[str], dict[str, int]]:
        """Return topic and key of recalled messages, and the number of times that those of the tail are
        stored again, by key.
        """
        deletes = [
            unit.offset
            for slot, position in slots.items()
            for unit in self._chain(slot, position)
            if unit.magic & DELETE
        ]
        rolls: dict[str, int] = {}
        recalled: set[str] = set()
        for offset in [*deletes, *(entry.commit_log_offset for entry in tail)]:
            message = self._log.message(offset)
            properties = {} if message is None else message.properties
            if P.TIMER_DEL_UNIQKEY in properties:
                recalled.add(properties[P.TIMER_DEL_UNIQKEY])
            elif P.TIMER_ROLL_TIMES in properties:
                key, times = properties.get(P.UNIQ_KEY, ""), int(properties[P.TIMER_ROLL_TIMES])
                rolls[key] = max(times, rolls.get(key, 0))
        return recalled, rolls

    def _timer(self, offset: int, recalled: set[str]) -> Iterator[TimerMessage]:
        found = self._log.find(offset)
        out = "" if found is None else found[1].properties.get(P.TIMER_OUT_MS, "")
        if found is None or found[1].topic != TIMER_TOPIC or not out.isdecimal():
            self.gone += 1
            return
        place, message = found
        key = f"{message.properties.get(P.REAL_TOPIC)}+{message.properties.get(P.UNIQ_KEY)}"
        if P.TIMER_DEL_UNIQKEY not in message.properties and key not in recalled:
            real = with_real_topic(message, message.queue_offset)
            yield TimerMessage(int(out) + PRECISION_MS, place, real)


def _files_of(folder: Path) -> list[NamedFile]:
    try:
        return offset_files(folder)
    except FileNotFoundError:
        return []
