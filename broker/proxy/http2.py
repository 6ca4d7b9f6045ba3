"""HTTP/2 connections of gRPC clients, and their calls.

A connection is a session like one of remoting; h2 decodes and encodes its frames. Each call is a task. What a
client can cost is bounded:

* Each stream has a window of WINDOW bytes. A longer message needs a grant of `Grants`, of which a connection
  has a few; without it, the client cannot send the rest. So memory is bounded by the number of streams.
* Messages to a client are sent as far as its windows reach. A client that opens none for STALLED_SECONDS, or
  stops in the middle of a frame or a message, is disconnected.
* Resets and frames that carry nothing have an allowance for each ALLOWANCE_SECONDS.
* All frames are handled a few at a time, in turns with other connections.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import trio

from rmqcli.broker.net.session import Session
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.proxy.framing import (
    MAX_FRAME,
    PREFIX,
    CallError,
    FrameBounds,
    GrpcStatus,
    message_header,
    prefixed,
    size_of_next,
    timeout_seconds,
)

MOST_STREAMS: Final = 128
LONGEST_HEADERS: Final = 16 * 1024
WINDOW: Final = 64 * 1024
CONNECTION_WINDOW: Final = 16 * 1024 * 1024
"""The bytes that a client may send before the connection is read again; its streams bound what is kept."""
STALLED_SECONDS: Final = 30.0
ALLOWANCE_SECONDS: Final = 30.0
MOST_RESETS: Final = 200
MOST_IDLE_FRAMES: Final = 2000
GRANTS_OF_CONNECTION: Final = 3
MOST_GRANTS: Final = 32
MOST_CLOSED: Final = 4096
"""Ended streams that h2 remembers."""
LONGEST_TIMEOUT: Final = 100 * 365 * 86400.0

_log = logging.getLogger("rmqcli.broker.proxy")


class Grants:
    """The messages longer than WINDOW that a server receives at a time.

    If there are too many, the connection is closed whose message has not grown for the longest time.
    """

    def __init__(self, most: int = MOST_GRANTS) -> None:
        self.most = most
        self._held: dict[Call, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def take(self, call: Call) -> None:
        if len(self._held) >= self.most:
            slowest = next(iter(self._held))
            del self._held[slowest]
            slowest.session.end(
                f"{self.most} long messages are incomplete, and its own has waited the longest"
            )
        self._held[call] = None

    def grew(self, call: Call) -> None:
        if call in self._held:
            del self._held[call]
            self._held[call] = None

    def release(self, call: Call) -> None:
        self._held.pop(call, None)


class _Connection(h2.connection.H2Connection):
    MAX_CLOSED_STREAMS = MOST_CLOSED


class Call:
    """One call: a stream of messages in each direction. `deadline` is a time of trio's clock."""

    def __init__(self, session: Http2Session, stream: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.session = session
        self.headers = {
            name.decode("ascii", "replace"): value.decode("utf-8", "replace") for name, value in headers
        }
        self.path = self.headers.get(":path", "")
        self.deadline = math.inf
        self.scope = trio.CancelScope()
        self._stream = stream
        self._received = bytearray()
        self._window = WINDOW
        self._is_ended = False
        self._is_answered = False
        self._is_finished = False
        self._news = trio.Event()
        self.has_window = trio.Event()

    # receiving

    def note_data(self, data: bytes, size: int) -> None:
        """Take bytes of the client, which cost `size` bytes of its window."""
        self._received += data
        self._window -= size
        self.session.grants.grew(self)
        self._news.set()

    def note_end(self) -> None:
        """Note that the client sends no more."""
        self._is_ended = True
        self._news.set()

    async def receive(self) -> bytes | None:
        """Return the next message; None if there are no more. Raises CallError."""
        while len(self._received) < (wanted := size_of_next(self._received)):
            if self._is_ended:
                if self._received:
                    raise CallError(GrpcStatus.INTERNAL, "the client ended the stream inside a message")
                return None
            if self._window < wanted - len(self._received):
                await self._receive_long(wanted)
                break
            await self._more()
        message = bytes(memoryview(self._received)[PREFIX:wanted])
        del self._received[:wanted]
        if self._window < WINDOW // 2 and not self._is_ended:
            self._open_window(WINDOW - self._window)
        return message

    async def _receive_long(self, wanted: int) -> None:
        """Receive the rest of a message that is longer than the window."""
        async with self.session.long_messages:
            self.session.grants.take(self)
            try:
                self._open_window(wanted - len(self._received) - self._window)
                while len(self._received) < wanted and not self._is_ended:
                    await self._more()
            finally:
                self.session.grants.release(self)
        if len(self._received) < wanted:
            raise CallError(GrpcStatus.INTERNAL, "the client ended the stream inside a message")

    async def _more(self) -> None:
        """Wait for news of the client: for as long as it likes between two messages, if it has sent one."""
        self._news = trio.Event()
        if not self._received and self._is_answered:
            await self._news.wait()
            return
        with trio.move_on_after(STALLED_SECONDS):
            await self._news.wait()
            return
        self.session.end(f"the rest of a message did not come within {STALLED_SECONDS:g} s")
        await trio.sleep_forever()

    def _open_window(self, size: int) -> None:
        if size > 0:
            self._window += size
            self.session.open_window(size, self._stream)

    # sending

    async def begin(self) -> None:
        """Send the headers of the reply now, before its first message is known."""
        self._begin()
        self.session.push()

    def _begin(self) -> None:
        if not self._is_answered:
            self._is_answered = True
            self.session.send_headers(
                self._stream, [(":status", "200"), ("content-type", "application/grpc")]
            )

    async def send(self, message: bytes) -> None:
        """Send a message, as far as the windows of the client reach; wait for them."""
        self._begin()
        view = memoryview(prefixed(message))
        while view:
            sent = self.session.send_data(self._stream, view)
            if not sent:
                await self.session.wait_for_window(self)
            view = view[sent:]
            if self.session.is_congested:
                await self.session.wait_for_room()
            elif view:
                await trio.lowlevel.checkpoint()

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """End the call with a status."""
        if self._is_finished or self.session.closed:
            return
        self._is_finished = True
        trailers = [("grpc-status", str(int(status)))]
        if text:
            trailers.append(("grpc-message", message_header(text)))
        if not self._is_answered:
            self._is_answered = True
            trailers[:0] = [(":status", "200"), ("content-type", "application/grpc")]
        self.session.end_stream(self._stream, trailers, is_ended=self._is_ended)

    def read_deadline(self) -> None:
        """Read the deadline of the client. Raises CallError."""
        timeout = self.headers.get("grpc-timeout")
        if timeout is not None:
            seconds = timeout_seconds(timeout)
            if seconds < LONGEST_TIMEOUT:
                self.deadline = self.scope.deadline = trio.current_time() + seconds


Serve = Callable[[Call], Awaitable[None]]


class Http2Session(Session):
    """A connection of a gRPC client. `serve` carries out a call; `calls` are those that are open."""

    def __init__(self, *arguments: Any, serve: Serve, grants: Grants, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.calls: dict[int, Call] = {}
        self.grants = grants
        self.long_messages = trio.Semaphore(GRANTS_OF_CONNECTION)
        self.bounds = FrameBounds()
        self.is_heard = True
        """True if the client has sent anything since the last ping."""
        self._serve = serve
        self._h2 = _Connection(
            h2.config.H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        settings = {
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: LONGEST_HEADERS,
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
            h2.settings.SettingCodes.ENABLE_PUSH: 0,
        }
        self._h2.local_settings = h2.settings.Settings(client=False, initial_values=settings)
        self._h2.decoder.max_header_list_size = LONGEST_HEADERS
        self._unacknowledged = 0
        self._allowance_ends = 0.0
        self._room = trio.lowlevel.ParkingLot()
        self._events: dict[type[Any], Callable[[Any], None]] = {
            h2.events.RequestReceived: self._on_request,
            h2.events.DataReceived: self._on_data,
            h2.events.StreamEnded: self._on_end,
            h2.events.StreamReset: self._on_reset,
            h2.events.WindowUpdated: self._on_window,
            h2.events.RemoteSettingsChanged: self._on_settings,
            h2.events.ConnectionTerminated: self._on_goodbye,
        }

    # receiving

    def greet(self) -> None:
        """Send the settings of this end."""
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - self._h2.inbound_flow_control_window)
        self.push()

    def feed(self, part: bytes) -> None:
        """Handle a few frames. Raises RemoteProtocolError."""
        try:
            events = self._h2.receive_data(part)
        except h2.exceptions.ProtocolError as error:
            self.push()
            self.flush()
            raise RemoteProtocolError(f"HTTP/2: {error or type(error).__name__}") from None
        for event in events:
            handle = self._events.get(type(event))
            if handle is not None:
                handle(event)
        if self._unacknowledged >= CONNECTION_WINDOW // 4:
            self._h2.increment_flow_control_window(self._unacknowledged)
            self._unacknowledged = 0
        self.push()

    def check_allowance(self) -> None:
        """Raise RemoteProtocolError if the client resets streams, or sends frames for nothing, too often."""
        bounds = self.bounds
        now = trio.current_time()
        if now >= self._allowance_ends:
            bounds.resets = bounds.idle = 0
            self._allowance_ends = now + ALLOWANCE_SECONDS
        if bounds.resets > MOST_RESETS:
            raise RemoteProtocolError(
                f"HTTP/2: more than {MOST_RESETS} streams reset in {ALLOWANCE_SECONDS:g} s"
            )
        if bounds.idle > MOST_IDLE_FRAMES:
            raise RemoteProtocolError(
                f"HTTP/2: {MOST_IDLE_FRAMES} frames without content in {ALLOWANCE_SECONDS:g} s"
            )

    def _on_request(self, event: h2.events.RequestReceived) -> None:
        call = self.calls[event.stream_id] = Call(self, event.stream_id, event.headers)
        self.is_known = True
        self.spawn(self._carry_out, event.stream_id, call)

    def _on_data(self, event: h2.events.DataReceived) -> None:
        size = event.flow_controlled_length
        self._unacknowledged += size
        call = self.calls.get(event.stream_id)
        if call is not None:
            call.note_data(event.data, size)

    def _on_end(self, event: h2.events.StreamEnded) -> None:
        if (call := self.calls.get(event.stream_id)) is not None:
            call.note_end()

    def _on_reset(self, event: h2.events.StreamReset) -> None:
        if (call := self.calls.pop(event.stream_id, None)) is not None:
            call.scope.cancel()

    def _on_window(self, event: h2.events.WindowUpdated) -> None:
        if event.stream_id:
            if (call := self.calls.get(event.stream_id)) is not None:
                call.has_window.set()
        else:
            self._on_settings(event)

    def _on_settings(self, _event: object) -> None:
        for call in self.calls.values():
            call.has_window.set()

    def _on_goodbye(self, _event: object) -> None:
        self.close()

    async def _carry_out(self, stream: int, call: Call) -> None:
        try:
            with call.scope:
                try:
                    call.read_deadline()
                    await self._serve(call)
                except CallError as error:
                    call.finish(error.status, str(error))
                except RemoteProtocolError:
                    raise
                except Exception:  # a programming error ends this call, not the connection
                    _log.exception("%s: %s: %s failed", self.server, self.peer_text, call.path)
                    call.finish(GrpcStatus.INTERNAL, "the call failed in the server")
                else:
                    call.finish()
            if stream in self.calls and trio.current_time() >= call.deadline:
                call.finish(GrpcStatus.DEADLINE_EXCEEDED, "the deadline is over")
        finally:
            self.calls.pop(stream, None)

    # sending

    def push(self) -> None:
        """Queue the frames that h2 has ready."""
        if data := self._h2.data_to_send():
            self._queue([data])

    def send_headers(self, stream: int, headers: Sequence[tuple[str, str]]) -> None:
        self._h2.send_headers(stream, headers)

    def send_data(self, stream: int, view: memoryview) -> int:
        """Send the beginning of `view`, as much as the windows allow; return the number of bytes."""
        size = min(
            len(view), self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size, MAX_FRAME
        )
        if size <= 0:
            return 0
        self._h2.send_data(stream, view[:size].tobytes())
        self.push()
        return size

    def end_stream(self, stream: int, trailers: Sequence[tuple[str, str]], *, is_ended: bool) -> None:
        """Send the trailers of a call, and end its stream in both directions."""
        if stream not in self.calls:
            return
        self._h2.send_headers(stream, trailers, end_stream=True)
        if not is_ended:  # the client must not send the rest
            self._h2.reset_stream(stream, h2.errors.ErrorCodes.NO_ERROR)
        self.push()

    def open_window(self, size: int, stream: int) -> None:
        """Let the client send more bytes of a stream."""
        if stream in self.calls:
            self._h2.increment_flow_control_window(size, stream)
            self.push()

    async def wait_for_window(self, call: Call) -> None:
        """Wait until the client opens a window; end the connection if it does not."""
        call.has_window = trio.Event()
        with trio.move_on_after(STALLED_SECONDS):
            await call.has_window.wait()
            return
        self.end(f"it has opened no window for {STALLED_SECONDS:g} s")
        await trio.sleep_forever()

    async def wait_for_room(self) -> None:
        """Wait until the kernel has accepted what is queued; end the connection if it accepts nothing."""
        self.flush()
        while self.is_congested:
            with trio.move_on_after(STALLED_SECONDS):
                await self._room.park()
                continue
            self.end(f"it has read nothing for {STALLED_SECONDS:g} s")
            await trio.sleep_forever()

    def ping(self) -> None:
        """Ask a client with open calls for a sign of life; end the connection if it has not answered the last
        time."""
        if not self.calls:
            return
        if not self.is_heard:
            self.end("it does not answer pings")
            return
        self.is_heard = False
        self._h2.ping(b"rmq-ping")
        self.push()

    def end(self, reason: str) -> None:
        """End the connection, and say why in the log."""
        _log.info("%s: %s closed: %s", self.server, self.peer_text, reason)
        self.close()

    def _sent(self, count: int) -> None:
        super()._sent(count)
        if self._room and count:
            self._room.unpark_all()
