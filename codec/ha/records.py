"""From a stream of log bytes to whole records: a master splits records between blocks as it likes.

The sizes of records form a chain from the first on, which is all that is looked at here; whoever stores a run
checks its records. The filler at the end of a file is passed on as its first 8 bytes: the rest of it means
nothing and is skipped.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from codec.errors import RemoteProtocolError
from codec.layout import Buffer
from codec.store.record import peek_record
from codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER, MAGICS, MIN_RECORD_SIZE

MAX_RECORD_SIZE: Final = 64 << 20
"""Bytes; brokers accept no frame above 16 MiB."""
HEAD_SIZE: Final = FILLER_HEAD_SIZE


class Run(NamedTuple):
    """Whole records, or the head of one filler, that begin at `offset`."""

    offset: int
    data: bytes
    is_filler: bool = False


class RecordStream:
    """Collects the bytes of a commit log from `offset` on, where a record begins."""

    __slots__ = ("_buffer", "_skipped", "_start")

    def __init__(self, offset: int, begun: bytes = b"") -> None:
        """`begun` are bytes from `offset` on that are known."""
        self._start = offset
        self._buffer = bytearray(begun)
        self._skipped = 0

    @property
    def next_offset(self) -> int:
        """The offset of the byte that has to come next."""
        return self._start + len(self._buffer) - self._skipped

    def feed(self, offset: int, data: Buffer) -> list[Run]:
        """Return the records that are whole now. RemoteProtocolError where the bytes do not continue the log,
        or no record can begin with them.
        """
        if offset != self.next_offset:
            raise RemoteProtocolError(f"bytes from offset {offset} on came where {self.next_offset} is next")
        skipped = min(self._skipped, len(data))
        self._skipped -= skipped
        self._buffer += data[skipped:]
        runs: list[Run] = []
        begin = position = 0
        buffer = self._buffer
        while len(buffer) - position >= HEAD_SIZE and not self._skipped:
            size, magic = peek_record(buffer, position)
            if magic == MAGIC_FILLER and size >= HEAD_SIZE:
                if position > begin:
                    runs.append(Run(self._start + begin, bytes(buffer[begin:position])))
                runs.append(Run(self._start + position, bytes(buffer[position : position + HEAD_SIZE]), True))
                held = min(size, len(buffer) - position)
                self._skipped = size - held
                del buffer[: position + held]
                self._start += position + size
                begin = position = 0
                continue
            if magic not in MAGICS or not MIN_RECORD_SIZE <= size <= MAX_RECORD_SIZE:
                raise RemoteProtocolError(
                    f"no record begins at offset {self._start + position}: size {size}, magic {magic:08x}"
                )
            if position + size > len(buffer):
                break
            position += size
        if position > begin:
            runs.append(Run(self._start + begin, bytes(buffer[begin:position])))
            del buffer[:position]
            self._start += position
        return runs
