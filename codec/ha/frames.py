"""Frames between master and slave (Java classes `HAConnection`, `HAClient`). Big-endian, no handshake.

A slave sends reports of 8 bytes: the end of its commit log. A master sends blocks: an offset, a size, and
that many bytes of its commit log from the offset on. A block without bytes is a heartbeat, whose offset is
that of the next byte to come. Frames may be split and joined anywhere in transit. The readers keep only an
unfinished header: the bytes of a block are passed on as they arrive, regardless of its announced size.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import construct
from construct import Int32sb, Int64sb

from rmqcli.codec.errors import LocalProtocolError, RemoteProtocolError
from rmqcli.codec.layout import Buffer, fused
from rmqcli.codec.records.reading import peek_record
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER, MAGICS, MIN_RECORD_SIZE

REPORT: Final = fused(construct.Struct("max_offset" / Int64sb))
BLOCK_HEADER: Final = fused(construct.Struct("offset" / Int64sb, "size" / Int32sb))
MAX_OFFSET: Final = 2**63 - 1
MAX_BLOCK_SIZE: Final = 2**31 - 1


class BlockPart(NamedTuple):
    """Bytes of the commit log that begin at `offset`; none in a heartbeat."""

    offset: int
    data: bytes


def encode_report(max_offset: int) -> bytes:
    """Return the report of a slave whose commit log ends at an offset. Raises LocalProtocolError if that is
    not a valid offset.
    """
    if not 0 <= max_offset <= MAX_OFFSET:
        raise LocalProtocolError(f"a commit log cannot end at {max_offset}")
    return REPORT.pack(max_offset)


def encode_block_header(offset: int, size: int) -> bytes:
    """Return the header of `size` bytes of the commit log; with size 0, it is a heartbeat. Raises
    LocalProtocolError if no block can have this offset and size.
    """
    if not (0 <= offset <= MAX_OFFSET and 0 <= size <= MAX_BLOCK_SIZE):
        raise LocalProtocolError(f"no block has {size} bytes from offset {offset} on")
    return BLOCK_HEADER.pack(offset, size)


class ReportReader:
    """Reads the reports of a slave."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: Buffer) -> int | None:
        """Return the last whole report among the bytes so far; None if none was completed.

        Earlier ones are obsolete, and Java's master ignores them as well. Raises RemoteProtocolError for a
        negative one.
        """
        received = self._rest + bytes(data)
        whole = len(received) // REPORT.size * REPORT.size
        self._rest = received[whole:]
        if not whole:
            return None
        (max_offset,) = REPORT.unpack_from(received, whole - REPORT.size)
        if max_offset < 0:
            raise RemoteProtocolError(f"a slave reports {max_offset} as the end of its commit log")
        return int(max_offset)


class BlockReader:
    """Reads the blocks of a master."""

    __slots__ = ("_header", "_missing", "_offset")

    def __init__(self) -> None:
        self._header = b""
        self._offset = self._missing = 0

    def feed(self, data: Buffer) -> list[BlockPart]:
        """Return the heartbeats and parts of blocks in the bytes, in order.

        Raises RemoteProtocolError for a negative offset or size, and for a block that ends after the highest
        offset.
        """
        parts: list[BlockPart] = []
        position, end = 0, len(data)
        while position < end:
            if self._missing:
                stop = min(position + self._missing, end)
                parts.append(BlockPart(self._offset, bytes(data[position:stop])))
                self._offset += stop - position
                self._missing -= stop - position
                position = stop
                continue
            stop = min(position + BLOCK_HEADER.size - len(self._header), end)
            self._header += bytes(data[position:stop])
            position = stop
            if len(self._header) == BLOCK_HEADER.size:
                self._begin(parts)
        return parts

    def _begin(self, parts: list[BlockPart]) -> None:
        offset, size = BLOCK_HEADER.unpack(self._header)
        if offset < 0 or size < 0 or offset + size > MAX_OFFSET:
            raise RemoteProtocolError(f"a master sends {size} bytes from offset {offset} on")
        self._header = b""
        self._offset, self._missing = offset, size
        if not size:
            parts.append(BlockPart(offset, b""))


# From a stream of log bytes to whole records: a master may split records between blocks anywhere.
#
# The sizes of records form a chain from the first on, and only the sizes are examined here; the code that
# stores a run checks its records. The filler at the end of a file is passed on as its first 8 bytes; the
# remainder has no meaning and is skipped.

MAX_RECORD_SIZE: Final = 64 << 20
"""The maximum size of a record, in bytes; brokers accept no frame above 16 MiB."""
HEAD_SIZE: Final = FILLER_HEAD_SIZE


class Run(NamedTuple):
    """Whole records, or the head of one filler, that begin at `offset`."""

    offset: int
    data: bytes
    is_filler: bool = False


class RecordStream:
    """Collects the bytes of a commit log from `offset` on, where a record must begin."""

    __slots__ = ("_buffer", "_skipped", "_start")

    def __init__(self, offset: int, begun: bytes = b"") -> None:
        """Begin at `offset`; `begun` are bytes from there on that are already known."""
        self._start = offset
        self._buffer = bytearray(begun)
        self._skipped = 0

    @property
    def next_offset(self) -> int:
        """The offset of the byte that must come next."""
        return self._start + len(self._buffer) - self._skipped

    def feed(self, offset: int, data: Buffer) -> list[Run]:
        """Return the records that are now whole. Raises RemoteProtocolError if the bytes do not continue the
        log, or no record can begin with them.
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
                # The remainder of a filler, up to the end of its file, is dropped as it arrives: it may be a
                # gigabyte.
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
