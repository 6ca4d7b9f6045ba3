"""A connection without I/O, for either end: bytes in, complete commands out; commands in, bytes to send out.

* `receive` accepts bytes in chunks of any size and returns the commands that are now complete, or the first
  of them; `more` then returns the next ones.
* Either end may send requests, so both may use the same opaque number at once; the response bit tells them
  apart.
* `request` keeps a token of the caller until `match`, `forget` or `abandon` removes it. There is no clock
  here: time-outs are up to the caller.

A frame that is too long is refused by its length prefix alone, so a peer occupies at most `max_frame` bytes,
and no more than it sent. A frame with a header longer than `max_header` is refused before the header is read.
Opaque numbers run from 0 to 2**31−1 and start again.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from sys import getsizeof, maxsize
from typing import Final

from rmqcli.codec.codes import RPC_ONEWAY, RPC_RESPONSE
from rmqcli.codec.core.frames import split_frames
from rmqcli.codec.errors import LocalProtocolError, RemoteProtocolError
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import (
    FRAME_HEAD,
    MAX_FRAME,
    NO_DIRECT,
    DirectReaders,
    decode_frame,
    decode_parts,
    encode_frame,
)
from rmqcli.codec.remoting.reply_head import SendRequest


class LongBody:
    """The bytes of one body: `received` bytes so far, with `missing` still to come."""

    __slots__ = ("_bytes", "missing", "received")

    def __init__(self, size: int) -> None:
        self.missing = size
        self.received = 0
        self._bytes = BytesIO()  # unlike a bytearray, it returns its bytes without a copy

    @property
    def held(self) -> int:
        """The bytes of memory that the body occupies."""
        return getsizeof(self._bytes)

    def add(self, data: bytes, start: int) -> int:
        """Add the bytes of `data` from `start` on that belong to the body; return their number."""
        with memoryview(data) as view:
            size = self._bytes.write(view[start : start + self.missing])
        self.missing -= size
        self.received += size
        return size

    def whole(self) -> bytes:
        """Return the bytes of the body."""
        return self._bytes.getvalue()


_MAX_OPAQUE: Final = 2**31 - 1
_LENGTH_SIZE: Final = 4
_MIN_LENGTH: Final = 4
_LONG_FRAME: Final = 64 * 1024
"""The body of a longer frame is collected in a `LongBody`, so that it is never copied as a whole."""

_HEAD_SIZE: Final = FRAME_HEAD.size
_read_length: Final = FRAME_HEAD.part("length").unpack_from
_read_head: Final = FRAME_HEAD.unpack_from


class ReceiveError(RemoteProtocolError):
    """Raised when the peer breaks the protocol. `commands` are those completed before the invalid bytes."""

    def __init__(self, message: str, commands: list[RemotingCommand]) -> None:
        super().__init__(message)
        self.commands = commands


class Connection:
    """One end of a connection. No method waits, so the tasks of one thread may share it."""

    __slots__ = (
        "_body",
        "_broken",
        "_buffer",
        "_direct",
        "_ended",
        "_max_frame",
        "_max_header",
        "_most",
        "_next_opaque",
        "_rest",
        "_waiting",
        "_wanted",
    )

    def __init__(
        self,
        *,
        max_frame: int = MAX_FRAME,
        max_header: int = MAX_FRAME,
        first_opaque: int = 0,
        direct: DirectReaders = NO_DIRECT,
        most: int = maxsize,
    ) -> None:
        """Prepare a connection. A request that matches a reader of `direct` gets a typed `header`. One call
        decodes about `most` commands, fewer if their headers are long.
        """
        self._max_frame = max_frame
        self._max_header = max_header
        self._most = most
        self._rest: tuple[bytes, int] | None = None
        self._direct = direct
        self._next_opaque = first_opaque
        self._waiting: dict[int, object] = {}
        self._buffer = bytearray()  # the beginning of a single frame
        self._wanted = _LENGTH_SIZE  # the size that the buffer must reach before it is read
        self._body: LongBody | None = None  # for a long frame whose head and header are in the buffer
        self._broken = False
        self._ended = False

    # ---- receiving

    @property
    def buffered(self) -> int:
        """The number of bytes received of an incomplete frame."""
        return len(self._buffer) + (0 if self._body is None else self._body.received)

    @property
    def held(self) -> int:
        """The bytes of memory that an incomplete frame occupies."""
        # A bytearray may allocate more than its length; limits of memory need what it occupies.
        return self._buffer.__alloc__() + (0 if self._body is None else self._body.held)

    def receive(self, data: bytes) -> list[RemotingCommand]:
        """Return the commands that `data` completes, in order; ``b""`` means that the peer will send no more.

        If `most` is set, call `more` until it returns an empty list before the next call.

        Raises ReceiveError if the bytes violate the protocol, or end inside a frame. After that, every call
        raises LocalProtocolError.
        """
        if self._broken or (self._ended and data):
            raise LocalProtocolError("this connection can receive no more")
        return self._read(bytes(data), 0)  # streams in memory return a bytearray

    def more(self) -> list[RemotingCommand]:
        """Return the next commands of the data received; an empty list once all were returned. Raises
        ReceiveError.
        """
        if self._rest is None:
            return []
        data, position = self._rest
        self._rest = None
        return self._read(data, position)

    def _read(self, data: bytes, position: int) -> list[RemotingCommand]:
        commands: list[RemotingCommand] = []
        try:
            if data:
                if self._buffer:
                    position = self._complete_buffered(data, commands)
                self._read_frames(data, position, commands)
            else:
                self._end()
        except RemoteProtocolError as error:
            self._broken = True
            self._buffer = bytearray()
            self._body = None
            raise ReceiveError(str(error), commands) from error
        return commands

    def _complete_buffered(self, data: bytes, commands: list[RemotingCommand]) -> int:
        """Add bytes of `data` to the buffered frame, up to its end; return the position after them."""
        buffer = self._buffer
        taken = 0
        while self._body is None and taken < len(data):
            part = data[taken : taken + self._wanted - len(buffer)]
            buffer += part
            taken += len(part)
            if len(buffer) < self._wanted:
                break
            if self._wanted == _LENGTH_SIZE:
                length = self._frame_length(buffer, 0)
                # A long frame is buffered only up to its header, because its body goes to a LongBody.
                self._wanted += length if length <= _LONG_FRAME else _HEAD_SIZE - _LENGTH_SIZE
            elif self._is_whole():
                with memoryview(buffer) as view:
                    commands.append(decode_frame(view[_LENGTH_SIZE : self._wanted], self._direct))
                self._buffer = bytearray()
                self._wanted = _LENGTH_SIZE
                return taken
        body = self._body
        return taken if body is None else self._complete_body(body, data, taken, commands)

    def _is_whole(self) -> bool:
        """Return True if the buffer contains a whole frame. Of a long frame, it only collects the head, then
        the header.
        """
        length, mark = _read_head(self._buffer)
        self._check_header(mark, length)
        if length + _LENGTH_SIZE == self._wanted:
            return True
        header_end = _HEAD_SIZE + (mark & 0xFFFFFF)
        if header_end == self._wanted:
            self._body = LongBody(length + _LENGTH_SIZE - header_end)
        self._wanted = header_end
        return False

    def _complete_body(self, body: LongBody, data: bytes, taken: int, commands: list[RemotingCommand]) -> int:
        """Do the same as `_complete_buffered` for a long frame, once the head and the header are buffered."""
        taken += body.add(data, taken)
        if not body.missing:
            header, mark = bytes(self._buffer[_HEAD_SIZE:]), _read_head(self._buffer)[1]
            self._buffer, self._body, self._wanted = bytearray(), None, _LENGTH_SIZE
            commands.append(decode_parts(mark, header, body.whole(), self._direct))
        return taken

    def _read_frames(self, data: bytes, position: int, commands: list[RemotingCommand]) -> None:
        """Read frames directly from `data`; keep the rest as the beginning of the next frame."""
        direct = self._direct
        longest = self._max_frame - _LENGTH_SIZE
        frames, position, is_rest = split_frames(data, position, longest, self._max_header, self._most)
        for mark, header, body in frames:
            commands.append(decode_parts(mark, header, body, direct))
        if is_rest:
            self._rest = data, position
        elif position < len(data):
            self._begin(data, position)

    def _begin(self, data: bytes, position: int) -> None:
        """Keep the beginning of a frame; refuse an invalid length as soon as it is known."""
        if len(data) - position >= _LENGTH_SIZE:
            length = self._frame_length(data, position)
            if len(data) - position >= _LENGTH_SIZE + length:
                # `split_frames` stopped at a whole frame, so its header is invalid: report it now.
                self._check_header(_read_head(data, position)[1], length)
            if length > _LONG_FRAME:
                self._buffer += data[position : position + _LENGTH_SIZE]
                self._wanted = _HEAD_SIZE
                # The frame is not whole, so no command can result.
                self._complete_buffered(data[position + _LENGTH_SIZE :], [])
                return
            self._wanted = _LENGTH_SIZE + length
        self._buffer += data[position:]

    def _frame_length(self, data: bytes | bytearray, position: int) -> int:
        length: int = _read_length(data, position)[0]
        if not _MIN_LENGTH <= length <= self._max_frame - _LENGTH_SIZE:
            raise self._refused(length)
        return length

    def _check_header(self, mark: int, length: int) -> None:
        """Raise RemoteProtocolError if the header is longer than allowed, or longer than its frame."""
        if (size := mark & 0xFFFFFF) > self._max_header:
            raise RemoteProtocolError(f"a header of {size} bytes: {self._max_header} are allowed")
        if _HEAD_SIZE + size > length + _LENGTH_SIZE:
            raise RemoteProtocolError(f"header of {size} bytes in a frame of {length}")

    def _refused(self, length: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"a frame of {length} bytes: {_MIN_LENGTH} to {self._max_frame - _LENGTH_SIZE} are allowed"
        )

    def _end(self) -> None:
        self._ended = True
        if self._buffer:
            raise RemoteProtocolError(f"the stream ended {len(self._buffer)} bytes into a frame")

    # ---- sending

    @property
    def waiting(self) -> Mapping[int, object]:
        """The tokens of requests that wait for a response, by opaque number, oldest first."""
        return self._waiting

    def request(self, command: RemotingCommand | SendRequest, token: object) -> bytes:
        """Return the frame of a request, with a number; `match` returns `token` for its response. Raises
        LocalProtocolError.
        """
        waiting = self._waiting
        opaque = self._next_opaque
        if opaque in waiting or opaque == _MAX_OPAQUE:
            opaque = self._take_opaque()
        else:
            self._next_opaque = opaque + 1
        command.opaque = opaque
        frame = command.frame() if isinstance(command, SendRequest) else encode_frame(command)
        # Stored only now, so that a request that cannot be encoded does not wait.
        waiting[opaque] = token
        return frame

    def oneway(self, command: RemotingCommand) -> bytes:
        """Return the frame of a one-way request, with a number. Raises LocalProtocolError."""
        command.opaque = self._take_opaque()
        command.flag |= RPC_ONEWAY
        return encode_frame(command)

    def _take_opaque(self) -> int:
        opaque = self._next_opaque
        while opaque in self._waiting:
            opaque = opaque + 1 if opaque < _MAX_OPAQUE else 0
        self._next_opaque = opaque + 1 if opaque < _MAX_OPAQUE else 0
        return opaque

    def match(self, reply: RemotingCommand) -> object | None:
        """Remove and return the token of the request that `reply` answers; None if the reply is late, unknown
        or not a reply.
        """
        return self._waiting.pop(reply.opaque, None) if reply.flag & RPC_RESPONSE else None

    def forget(self, opaque: int) -> None:
        """Drop a request that timed out; a late response will have no match."""
        self._waiting.pop(opaque, None)

    def abandon(self) -> list[object]:
        """Remove and return all tokens, oldest request first, when the connection is lost."""
        tokens = list(self._waiting.values())
        self._waiting.clear()
        return tokens
