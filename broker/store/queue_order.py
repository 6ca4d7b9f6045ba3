"""The places that the records of one queue have in it when it is rebuilt from the log.

No CRC covers the queue offset of a record, its queue or its topic. One that does not continue its queue waits
for those that follow: if the next one continues it, records are missing before it; if the next one continues
what was before, it is damaged, and its place stays empty. So one flipped bit hides one message, and not all
that follow it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

MOST_MISSING = 1 << 20
"""Queue offsets that may be missing in a row; a larger gap is a damaged number."""
MOST_WAITING = 1024
"""Records that wait at most until one of them is confirmed; then they have no places."""
MAX_QUEUE_OFFSET = (1 << 56) - 1


class QueueOrder(Generic[T]):
    """Takes records in the order of the log, and says where they go.

    A place below `next_offset` means that the queue begins again there: its topic was deleted and created.
    `misplaced` are records that cannot be where they say.
    """

    __slots__ = ("_waiting", "misplaced", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1
        """-1 until a record has its place."""
        self._waiting: list[tuple[int, T]] = []
        self.misplaced: list[T] = []

    def add(self, queue_offset: int, record: T) -> list[tuple[int, T]]:
        """Return the next record; return the places that are sure now."""
        waiting = self._waiting
        if not waiting and queue_offset == max(self.next_offset, 0):
            self.next_offset = queue_offset + 1
            return [(queue_offset, record)]
        waiting.append((queue_offset, record))
        if self._continues_what_was_placed(queue_offset):
            return self._place(1)
        if len(waiting) > 1 and self._follow_each_other():
            return self._place(2)
        if len(waiting) > MOST_WAITING:
            self.misplaced += [one for _, one in waiting]
            self.next_offset += len(waiting) if self.next_offset >= 0 else 0
            waiting.clear()
        return []

    def finish(self) -> list[tuple[int, T | None]]:
        """Return the places of the rest. None stands for a place that stays empty: its offset may have been
        given.
        """
        placed: list[tuple[int, T | None]] = []
        for queue_offset, record in self._waiting:
            ahead = queue_offset - self.next_offset
            is_first = self.next_offset < 0 and 0 <= queue_offset <= MAX_QUEUE_OFFSET
            if is_first or queue_offset == 0 or (self.next_offset >= 0 and 0 <= ahead <= MOST_WAITING):
                placed.append((queue_offset, record))
                self.next_offset = queue_offset + 1
                continue
            self.misplaced.append(record)
            if self.next_offset >= 0:
                placed.append((self.next_offset, None))
                self.next_offset += 1
        self._waiting = []
        return placed

    def _continues_what_was_placed(self, queue_offset: int) -> bool:
        """Return True if the records that wait before this one took no more places than there are before it."""
        return self.next_offset >= 0 and 0 <= queue_offset - self.next_offset < len(self._waiting)

    def _follow_each_other(self) -> bool:
        (before, _), (last, _) = self._waiting[-2:]
        if last != before + 1 or not 0 <= before < MAX_QUEUE_OFFSET:
            return False
        return self.next_offset < 0 or before - self.next_offset <= MOST_MISSING

    def _place(self, count: int) -> list[tuple[int, T]]:
        """Places the last records, and those before that fit if each has one place."""
        placed, rest = self._waiting[-count:], self._waiting[:-count]
        first = placed[0][0] - len(rest)
        fits = [first + at == offset >= self.next_offset for at, (offset, _) in enumerate(rest)]
        self.misplaced += [one for (_, one), fit in zip(rest, fits, strict=True) if not fit]
        self._waiting = []
        self.next_offset = placed[-1][0] + 1
        return [one for one, fit in zip(rest, fits, strict=True) if fit] + placed
