"""The op queue, which records the half messages that have ended (Java
`TransactionalMessageServiceImpl.fillOpRemoveMap`).

A scan reads from the saved offset on, in batches of 32. That offset advances only past op messages that are
used up: an op message for a half message that the scan has not reached, and all later ones, are read again by
the next scan.
"""

from __future__ import annotations

from rmqcli.broker.services.transactions.half import HALF_QUEUE
from rmqcli.broker.store import MessageStore
from rmqcli.codec.errors import CodecError
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.records.reading import decode_record

BATCH = 32
SEPARATOR = ","
MAX_DIGITS = 19
_TOPIC = SystemTopic.TRANS_OP_HALF


class OpQueue:
    """The op queue for one scan of the half queue that starts at `half_start`."""

    def __init__(self, store: MessageStore, start: int, half_start: int) -> None:
        low, high = store.search.min_offset(_TOPIC, HALF_QUEUE), store.search.max_offset(_TOPIC, HALF_QUEUE)
        self.progress = min(max(start, low), high)
        """The offset of the first op message that is still needed."""
        self.late: set[int] = set()
        """Offsets of half messages before `half_start` in op messages of this scan: earlier copies that were
        ended late."""
        self._store = store
        self._next = self.progress
        self._half_start = half_start
        self._of: dict[int, int] = {}
        self._open: dict[int, int] = {}

    def read(self) -> bool:
        """Read the next op messages. Return False if there are none."""
        self._next = max(self._next, self._store.search.min_offset(_TOPIC, HALF_QUEUE))
        entries = self._store.search.consume_queue_entries(_TOPIC, HALF_QUEUE, self._next, BATCH)
        for position, size, _ in entries:
            self._note(self._next, self._half_offsets(position, size))
            self._next += 1
        self._advance()
        return bool(entries)

    def take(self, half_offset: int) -> bool:
        """Use up the op message for a half message. Return False if none has been read so far."""
        operation = self._of.pop(half_offset, None)
        if operation is None:
            return False
        self._use(operation)
        self._advance()
        return True

    def _half_offsets(self, position: int, size: int) -> list[int]:
        record = self._store.search.record_at_size(position, size)
        if record is None:
            return []
        try:
            body = decode_record(record).body
        except CodecError:
            return []
        numbers = str(bytes(body), "ascii", "replace").split(SEPARATOR)
        return [int(text) for text in numbers if text.isdecimal() and len(text) <= MAX_DIGITS]

    def _note(self, operation: int, half_offsets: list[int]) -> None:
        wanted = {offset for offset in half_offsets if offset >= self._half_start}
        self.late.update(set(half_offsets) - wanted)
        self._open[operation] = len(wanted)
        for offset in wanted:
            # Both a producer's late reply and a check may end a half message: the last op message counts.
            earlier = self._of.get(offset)
            self._of[offset] = operation
            if earlier is not None:
                self._use(earlier)

    def _use(self, operation: int) -> None:
        self._open[operation] -= 1

    def _advance(self) -> None:
        while self._open.get(self.progress) == 0:
            del self._open[self.progress]
            self.progress += 1
