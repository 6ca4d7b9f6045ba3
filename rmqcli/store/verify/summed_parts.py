"""The parts of queues whose entries need no comparison one by one: those whose sums are those of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.names import LMQ_PREFIX
from codec.store.consume_queue import ENTRY
from rmqcli.store.verify.queue_parts import QueuePart
from rmqcli.store.verify.sums import LogSums

if TYPE_CHECKING:
    from codec.scan.entry_sums import EntryPart, EntryRuns

_BATCH_ENTRIES = 1 << 15
_BATCH_PARTS = 1 << 12


class SummedParts:
    """Collects all parts of the queues of a log, then tells which entries remain to be compared."""

    def __init__(self, sums: LogSums) -> None:
        from codec.scan.entry_sums import EntrySums

        self._log = sums
        self._own = EntrySums(sums.key, sums.bases)
        self._parts: list[QueuePart] = []
        self._batch: list[EntryPart] = []
        self._batch_parts: list[int] = []
        self._entries = 0
        self._runs: list[tuple[list[int], EntryRuns]] = []

    def add(self, part: QueuePart, raw: bytes) -> None:
        """Adds a part with the bytes of its entries."""
        from codec.scan.entry_sums import EntryPart

        self._parts.append(part)
        topic, queue_id = part.queue.topic, part.queue.queue_id
        if topic is None or queue_id is None or not topic.isascii() or topic.startswith(LMQ_PREFIX):
            return
        first = (part.file.base or 0) // ENTRY.size + part.begin
        self._batch.append(EntryPart(topic.encode(), queue_id, first, part.last, raw))
        self._batch_parts.append(len(self._parts) - 1)
        self._entries += part.end - part.begin
        if self._entries >= _BATCH_ENTRIES or len(self._batch) >= _BATCH_PARTS:
            self._sum()

    def _sum(self) -> None:
        self._runs.append((self._batch_parts, self._own.add(self._batch)))
        self._batch, self._batch_parts, self._entries = [], [], 0

    def remaining(self) -> tuple[list[QueuePart], int]:
        """Returns the parts whose entries are to be compared, in order, and the count of those that are sound."""
        if self._batch:
            self._sum()
        equal = self._own.queues == self._log.queues
        seen = [False] * len(self._parts)
        sound, found = 0, []
        for numbers, runs in self._runs:
            is_sound = (runs.files < 0) | equal[runs.files, runs.places]
            sound += int((runs.ends - runs.begins)[is_sound].sum())
            for place in runs.parts.tolist():
                seen[numbers[place]] = True
            rest = (
                column[~is_sound].tolist() for column in (runs.parts, runs.begins, runs.ends, runs.before)
            )
            for place, begin, end, last in zip(*rest, strict=True):
                part = self._parts[numbers[place]]
                some = part._replace(begin=part.begin + begin, end=part.begin + end, last=last)
                found.append((numbers[place], begin, some))
        found += [(number, 0, part) for number, part in enumerate(self._parts) if not seen[number]]
        return [part for *_, part in sorted(found, key=lambda one: one[:2])], sound
