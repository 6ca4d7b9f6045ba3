"""The server's end of an HTTP/2 connection (RFC 9113), as far as gRPC needs it: bytes in, hooks called, bytes
out.

Header blocks that name their fields plainly, as those of calls do, are read by the core, all others by hpack.
Those of replies use no table. The memory that a client can occupy is bounded: a frame (MAX_FRAME), a header
block (LONGEST_HEADERS), the window of each of MOST_STREAMS streams. Frames that cost more than they are worth
are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import hpack

from rmqcli.codec.core.header_blocks import Field, plain_fields
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.proxy.frames import (
    ACK,
    COMPRESSION_ERROR,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_HEAD,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    frame,
)

MAX_FRAME: Final = 16 * 1024
"""Maximum length of a frame; the default of the protocol, which neither end may exceed without agreement."""
MOST_STREAMS: Final = 128
LONGEST_HEADERS: Final = 8 * 1024
"""The default of gRPC."""
WINDOW: Final = 64 * 1024
CONNECTION_WINDOW: Final = 16 * 1024 * 1024
"""The bytes that a client may send before the connection is read again; its streams bound what is kept."""
FRAMES_AT_ONCE: Final = 16
"""The number of frames that are handled before other connections may get their turn."""
COST_OF_HEADERS: Final = 4
"""The number of frames for which a frame with a header block counts."""

_INITIAL_WINDOW_SIZE: Final = 4
# SETTINGS_MAX_CONCURRENT_STREAMS, _INITIAL_WINDOW_SIZE and _MAX_HEADER_LIST_SIZE (RFC 9113, 6.5.2).
_SETTINGS: Final = {3: MOST_STREAMS, _INITIAL_WINDOW_SIZE: WINDOW, 6: LONGEST_HEADERS}
_USUAL_WINDOW: Final = 65_535  # until SETTINGS say otherwise (RFC 9113, 6.9.2)
_LARGEST_WINDOW: Final = 2**31 - 1
# Empty continuations add nothing to the length of a header block, so they are counted as well.
_MOST_CONTINUATIONS: Final = 16

_SETTING = struct.Struct(">HI")


class HeaderReader:
    """Reads the header blocks of one connection, each in turn."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder(LONGEST_HEADERS)
        self._known: dict[bytes, Field] = {}

    def read(self, block: bytes) -> dict[str, str]:
        """Return the header fields of a block; of equal names the last one counts. Raises HPACKError."""
        try:
            plain = plain_fields(block, self._known, LONGEST_HEADERS, self._find)
        except hpack.InvalidTableIndex:
            plain = None
        if plain is not None:
            return plain
        self._known.clear()  # the table may change
        return {_text(name): _text(value) for name, value, *_ in self._decoder.decode(block, raw=True)}

    def _find(self, key: bytes, middle: int) -> Field:
        if middle:
            name, value = key[2:middle], key[middle + 1 :]
        else:
            name, value = self._decoder.header_table.get_by_index(key[0] & 127)
        return _text(name), _text(value), len(name) + len(value) + 32


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class Stream:
    """A stream that a client has opened. It may send `window` bytes, and accepts `send_window` bytes."""

    def __init__(self, number: int, send_window: int) -> None:
        self.number = number
        self.window = WINDOW
        self.send_window = send_window
        self.is_ended = False
        """True if the client sends no more."""

    def note_data(self, data: bytes) -> None:
        """Receive bytes from the client."""

    def note_end(self) -> None:
        """Record that the client sends no more."""

    def note_reset(self) -> None:
        """Record that the client has abandoned the stream."""

    def note_window(self) -> None:
        """Record that the client may accept more."""


class ServerConnection:
    """A connection. `begin` makes a stream of its number, its window and its headers; `write` takes bytes to
    send.

    `resets` counts the streams that the client has reset, `idle` the frames that carry nothing: settings,
    pings, priorities, continuations, unknown and empty ones, and those for streams that are over.
    """

    def __init__(
        self, begin: Callable[[int, int, dict[str, str]], Stream], write: Callable[[bytes], None]
    ) -> None:
        self.streams: dict[int, Stream] = {}
        self.resets = 0
        self.idle = 0
        self.is_over = False
        """True if the client has sent GOAWAY."""
        self._begin = begin
        self._write = write
        self._headers = HeaderReader()
        self._preface = PREFACE
        self._rest = b""
        self._block: tuple[int, int, list[bytes]] | None = None
        self._last = 0
        self._received = 0
        self._send_window = self._initial_window = _USUAL_WINDOW

    def close(self) -> None:
        """Drop the streams and hooks, whose back references would keep everything until a full garbage
        collection.
        """
        self.streams.clear()
        del self._begin, self._write

    def greet(self) -> None:
        """Send the settings of this end."""
        settings = b"".join(_SETTING.pack(*one) for one in _SETTINGS.items())
        self._write(frame(SETTINGS, 0, 0, settings))
        self._write(frame(WINDOW_UPDATE, 0, 0, (CONNECTION_WINDOW - _USUAL_WINDOW).to_bytes(4, "big")))

    # receiving

    @property
    def is_inside(self) -> bool:
        """True if the bytes so far end inside a frame or a header block."""
        return bool(self._preface or self._rest or self._block)

    def receive(self, data: bytes) -> Iterator[None]:
        """Handle the frames in the bytes of a client; yield after some. Raises RemoteProtocolError."""
        if self._rest:
            data = self._rest + data
        position = self._skip_preface(data) if self._preface else 0
        handled, size = 0, len(data)
        while size - position >= FRAME_HEAD.size:
            high, low, kind, flags, stream = FRAME_HEAD.unpack_from(data, position)
            length = high << 8 | low
            if length > MAX_FRAME:
                self._fail(f"a frame has {length} bytes, {MAX_FRAME} is the limit")
            begin = position + FRAME_HEAD.size
            end = begin + length
            if end > size:
                break
            if self._block is not None and kind != CONTINUATION:
                self._fail("a frame interrupts a header block")
            handle = _FRAMES.get(kind)
            if handle is None:
                self.idle += 1
            else:
                handle(self, flags, stream & _LARGEST_WINDOW, data[begin:end])
            position = end
            # A header block may have to be decoded byte by byte, and begins a call.
            handled += 1 if kind not in (HEADERS, CONTINUATION) else COST_OF_HEADERS + (length >> 10)
            if handled >= FRAMES_AT_ONCE:
                handled = 0
                yield
        self._rest = data[position:]
        yield

    def _skip_preface(self, data: bytes) -> int:
        wanted = self._preface[: len(data)]
        if not data.startswith(wanted):
            self._fail("the client does not speak HTTP/2")
        self._preface = self._preface[len(wanted) :]
        return len(wanted)

    def _fail(self, text: str, code: int = PROTOCOL_ERROR) -> NoReturn:
        """Send GOAWAY. Raises RemoteProtocolError."""
        self._write(frame(GOAWAY, 0, 0, self._last.to_bytes(4, "big") + code.to_bytes(4, "big")))
        raise RemoteProtocolError(f"HTTP/2: {text}")

    def _content(self, flags: int, payload: bytes) -> bytes:
        """Return the payload of a frame without its padding."""
        if not flags & PADDED:
            return payload
        end = len(payload) - payload[0] if payload else 0
        if end < 1:
            self._fail("a frame has more padding than bytes")
        return payload[1:end]

    def _check_known(self, number: int) -> None:
        """Refuse a frame for a stream that was never opened."""
        if not number & 1 or number > self._last:
            self._fail(f"stream {number} is not open")

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._received += size
        if self._received >= CONNECTION_WINDOW // 4:
            self._write(frame(WINDOW_UPDATE, 0, 0, self._received.to_bytes(4, "big")))
            self._received = 0
        if not (size or flags & END_STREAM):
            self.idle += 1
        stream = self.streams.get(number)
        if stream is None:
            self._check_known(number)
            self.idle += 1
            return
        # Padding counts (RFC 9113, 6.9.1), so this is the size of the whole payload.
        stream.window -= size
        if stream.is_ended or stream.window < 0:
            self._fail(f"stream {number} has no room for {size} bytes", FLOW_CONTROL_ERROR)
        stream.is_ended = bool(flags & END_STREAM)
        if size:
            stream.note_data(self._content(flags, payload))
        if stream.is_ended:
            stream.note_end()

    def _on_headers(self, flags: int, number: int, payload: bytes) -> None:
        block = self._content(flags, payload)
        if flags & WITH_PRIORITY:
            block = block[5:]
        if flags & END_HEADERS:
            self._on_block(flags, number, block)
        else:
            self._block = flags, number, [block]

    def _on_continuation(self, flags: int, number: int, payload: bytes) -> None:
        self.idle += 1
        if self._block is None or self._block[1] != number:
            self._fail("a continuation continues nothing")
        begun, _, parts = self._block
        parts.append(payload)
        if len(parts) > _MOST_CONTINUATIONS or sum(map(len, parts)) > LONGEST_HEADERS:
            self._fail("a header block is too long")
        if flags & END_HEADERS:
            self._block = None
            self._on_block(begun, number, b"".join(parts))

    def _on_block(self, flags: int, number: int, block: bytes) -> None:
        try:
            # Read even for a stream that is over, because any block may change the decoder's table.
            headers = self._headers.read(block)
        except hpack.HPACKError as error:
            # Messages of hpack may contain memory addresses.
            self._fail(f"a header block is not sound: {type(error).__name__}", COMPRESSION_ERROR)
        stream = self.streams.get(number)
        if stream is None:
            if number <= self._last:  # it is over; the client may not know yet
                self._check_known(number)
                self.idle += 1
                return
            if not number & 1:
                self._fail(f"a client cannot open stream {number}")
            if len(self.streams) >= MOST_STREAMS:
                self._fail(f"{MOST_STREAMS} streams can be open")
            self._last = number
            stream = self.streams[number] = self._begin(number, self._initial_window, headers)
        elif stream.is_ended or not flags & END_STREAM:
            self._fail(f"the headers of stream {number} are not at its beginning or end")
        if flags & END_STREAM:
            stream.is_ended = True
            stream.note_end()

    def _on_reset(self, _flags: int, number: int, payload: bytes) -> None:
        self._check_known(number)
        if len(payload) != 4:
            self._fail("a reset has 4 bytes")
        self.resets += 1
        stream = self.streams.pop(number, None)
        if stream is not None:
            stream.note_reset()

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        self.idle += 1
        if number or len(payload) % 6 or (flags & ACK and payload):
            self._fail("these settings are not sound")
        if flags & ACK:
            return
        for name, value in _SETTING.iter_unpack(payload):
            if name == _INITIAL_WINDOW_SIZE:
                if value > _LARGEST_WINDOW:
                    self._fail("a window is too large", FLOW_CONTROL_ERROR)
                # A new initial size moves the windows of all open streams (RFC 9113, 6.9.2), even below 0.
                for stream in self.streams.values():
                    self._open(stream, value - self._initial_window)
                self._initial_window = value
        self._write(frame(SETTINGS, ACK, 0))

    def _on_push(self, _flags: int, _number: int, _payload: bytes) -> None:
        self._fail("a client cannot push")

    def _on_ping(self, flags: int, number: int, payload: bytes) -> None:
        self.idle += 1
        if number or len(payload) != 8:
            self._fail("a ping has 8 bytes")
        if not flags & ACK:
            self._write(frame(PING, ACK, 0, payload))

    def _on_goodbye(self, _flags: int, _number: int, _payload: bytes) -> None:
        self.is_over = True

    def _on_window(self, _flags: int, number: int, payload: bytes) -> None:
        size = int.from_bytes(payload, "big") & _LARGEST_WINDOW
        if len(payload) != 4 or not size:
            self._fail("a window is opened by nothing")
        if number:
            stream = self.streams.get(number)
            if stream is None:
                self._check_known(number)
            else:
                self._open(stream, size)
            return
        was_shut = self._send_window <= 0
        self._send_window += size
        if self._send_window > _LARGEST_WINDOW:
            self._fail("a window is too large", FLOW_CONTROL_ERROR)
        # Only then may a stream have waited for this window rather than for its own.
        if was_shut:
            for stream in self.streams.values():
                stream.note_window()

    def _open(self, stream: Stream, size: int) -> None:
        stream.send_window += size
        if stream.send_window > _LARGEST_WINDOW:
            self._fail("a window is too large", FLOW_CONTROL_ERROR)
        stream.note_window()

    # sending

    def send_headers(self, stream: Stream, block: bytes, *, ends: bool = False) -> None:
        """Send a header block; at the end of a stream, end it in both directions."""
        self._write(frame(HEADERS, END_HEADERS | ends, stream.number, block))
        if ends:
            self.streams.pop(stream.number, None)
            if not stream.is_ended:  # the client must not send the rest
                self._write(frame(RST_STREAM, 0, stream.number, bytes(4)))

    def send_data(self, stream: Stream, data: memoryview) -> int:
        """Send the beginning of `data`, as much as the windows allow; return the number of bytes."""
        size = min(len(data), stream.send_window, self._send_window, MAX_FRAME)
        # A window is negative after its initial size was lowered.
        if size <= 0:
            return 0
        stream.send_window -= size
        self._send_window -= size
        self._write(frame(DATA, 0, stream.number, bytes(data[:size])))
        return size

    def send_whole(self, stream: Stream, block: bytes, data: bytes, last: bytes) -> bool:
        """Send all of a reply, header block, data and trailers, to a client that sends no more. Return False,
        without having sent anything, if a window is too small for that."""
        size, number = len(data), stream.number
        if size > min(stream.send_window, self._send_window, MAX_FRAME) or not stream.is_ended:
            return False
        self._send_window -= size
        self._write(
            frame(HEADERS, END_HEADERS, number, block)
            + frame(DATA, 0, number, data)
            + frame(HEADERS, END_HEADERS | END_STREAM, number, last)
        )
        del self.streams[number]
        return True

    def open_window(self, stream: Stream, size: int) -> None:
        """Let the client send more bytes of a stream."""
        if stream.number in self.streams:
            stream.window += size
            self._write(frame(WINDOW_UPDATE, 0, stream.number, size.to_bytes(4, "big")))

    def ping(self) -> None:
        """Send a ping."""
        self._write(frame(PING, 0, 0, b"rmq-ping"))


_FRAMES: Final[dict[int, Callable[[ServerConnection, int, int, bytes], None]]] = {
    DATA: ServerConnection._on_data,
    HEADERS: ServerConnection._on_headers,
    RST_STREAM: ServerConnection._on_reset,
    SETTINGS: ServerConnection._on_settings,
    PUSH_PROMISE: ServerConnection._on_push,
    PING: ServerConnection._on_ping,
    GOAWAY: ServerConnection._on_goodbye,
    WINDOW_UPDATE: ServerConnection._on_window,
    CONTINUATION: ServerConnection._on_continuation,
}
