"""Calls of gRPC clients on HTTP/2 connections.

A connection is a session like one of remoting; `rmqcli.codec.proxy.http2` decodes and encodes its frames. The
reader of a connection carries out a call until it must wait, and a task carries out the rest. The cost of a
client is bounded:

* Each stream has a window of WINDOW bytes. A longer message needs a grant of `Grants`, of which a connection
  has a few; without it, the client cannot send the rest. So memory is bounded by the number of streams.
* Messages to a client are sent as far as its windows reach. A client that opens none for STALLED_SECONDS, or
  stops in the middle of a frame or a message, is disconnected. `Stalls` bounds the calls that wait so.
* Resets and frames without content have an allowance for each ALLOWANCE_SECONDS.
* All frames are handled a few at a time, in turns with other connections.

Calls of one method that arrive in one read may be carried out together (`Together`).
"""

from __future__ import annotations

import logging
import math
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import trio

from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import Pace, Turns
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.proxy.framing import (
    PREFIX,
    REPLY_HEADERS,
    CallError,
    GrpcStatus,
    http_refusal,
    prefixed,
    refusal_headers,
    size_of_next,
    timeout_seconds,
    trailers,
)
from rmqcli.codec.proxy.http2 import WINDOW, ServerConnection, Stream

STALLED_SECONDS: Final = 30.0
ALLOWANCE_SECONDS: Final = 30.0
MOST_RESETS: Final = 200
MOST_IDLE_FRAMES: Final = 2000
GRANTS_OF_CONNECTION: Final = 3
MOST_GRANTS: Final = 32
MOST_STALLS: Final = 1 << 15
LONG_READ: Final = 4 * 1024
"""Minimum size of a read that is handled in a turn: it may begin 40 calls."""
TASKS_AT_ONCE: Final = 8
"""Tasks that a turn begins at most."""
LONGEST_TIMEOUT: Final = 100 * 365 * 86400.0

_log = logging.getLogger("rmqcli.broker.proxy")


class _State:
    is_stepping = False


@types.coroutine
def in_task() -> Generator[None, None, None]:
    """Have a task take over the call if the reader is carrying it out, because the next steps wait."""
    if _State.is_stepping:
        yield


def _step(work: Coroutine[Any, Any, None]) -> bool:
    """Carry out a call up to `in_task`; return False if it is over."""
    _State.is_stepping = True
    try:
        stopped_by = work.send(None)
    except StopIteration:
        return False
    finally:
        _State.is_stepping = False
    assert stopped_by is None, "a call waits outside of a task"
    return True


@types.coroutine
def _rest_of(work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
    """Carry out the rest of a call in this task; `await` refuses a coroutine that has begun."""
    yield from work


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


class Stalls:
    """The calls of a server that wait for the rest of a message, or for a window, in the order in which they
    began.

    The connection of a call that has waited for STALLED_SECONDS is closed, as is that of the first call if
    there are too many. One timer serves all, and each connection ends in a separate turn, because thousands
    of calls may wait.
    """

    def __init__(self, most: int = MOST_STALLS) -> None:
        self.most = most
        self._waiting: dict[Call, tuple[float, str]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def waiting(self, call: Call, problem: str) -> Iterator[None]:
        """Count a call inside the block; `problem` is what its client has not done."""
        while len(self._waiting) >= self.most:
            self._end(next(iter(self._waiting)), f"{self.most} calls wait for their clients")
        self._waiting[call] = trio.current_time() + STALLED_SECONDS, problem
        try:
            yield
        finally:
            self._waiting.pop(call, None)

    def _end(self, call: Call, reason: str) -> None:
        for one in call.session.calls.values():
            self._waiting.pop(one, None)  # type: ignore[call-overload]
        self._waiting.pop(call, None)
        call.session.end(reason)

    async def run(self, turns: Turns) -> None:
        """Run the service that closes connections."""
        while True:
            due, problem = next(iter(self._waiting.values()), (trio.current_time() + STALLED_SECONDS, ""))
            if due > trio.current_time():
                await trio.sleep_until(due)
            else:
                self._end(next(iter(self._waiting)), f"{problem} within {STALLED_SECONDS:g} s")
                await turns.next()


class Call(Stream):
    """One call: a stream of messages in each direction. `deadline` is a time of trio's clock."""

    def __init__(self, session: Http2Session, number: int, send_window: int, headers: dict[str, str]) -> None:
        super().__init__(number, send_window)
        self.session = session
        self.headers = headers
        self.path = headers.get(":path", "")
        self.deadline = math.inf
        self._scope: trio.CancelScope | None = None
        self._received = bytearray()
        self._is_answered = False
        self._is_finished = False
        self._news: trio.Event | None = None
        self._has_window: trio.Event | None = None

    # receiving

    def note_data(self, data: bytes) -> None:
        self._received += data
        self.session.grants.grew(self)
        self._tell(self._news)

    def note_end(self) -> None:
        self._tell(self._news)
        self.session.start(self)

    def note_reset(self) -> None:
        self.cancel()

    def note_window(self) -> None:
        self._tell(self._has_window)

    @staticmethod
    def _tell(event: trio.Event | None) -> None:
        if event is not None:
            event.set()

    @property
    def request(self) -> bytes | None:
        """The message of a client that sends no more and accepts a reply, if it is whole and the only one; it
        is still to be received."""
        if self.send_window <= 0:
            return None
        data = self._received
        size = len(data) - PREFIX
        if not self.is_ended or size < 0 or data[0] or int.from_bytes(data[1:PREFIX], "big") != size:
            return None
        return bytes(memoryview(data)[PREFIX:])

    async def receive(self) -> bytes | None:
        """Return the next message; None if there are no more. Raises CallError."""
        while len(self._received) < (wanted := size_of_next(self._received)):
            if self.is_ended:
                if self._received:
                    raise CallError(GrpcStatus.INTERNAL, "the client ended the stream inside a message")
                return None
            if self.window < wanted - len(self._received):
                await self._receive_long(wanted)
                break
            await self._more()
        message = bytes(memoryview(self._received)[PREFIX:wanted])
        del self._received[:wanted]
        if self.window < WINDOW // 2 and not self.is_ended:
            self._open_window(WINDOW - self.window)
        return message

    async def _receive_long(self, wanted: int) -> None:
        """Receive the rest of a message that is longer than the window."""
        await in_task()
        async with self.session.long_messages:
            self.session.grants.take(self)
            try:
                self._open_window(wanted - len(self._received) - self.window)
                while len(self._received) < wanted and not self.is_ended:
                    await self._more()
            finally:
                self.session.grants.release(self)
        if len(self._received) < wanted:
            raise CallError(GrpcStatus.INTERNAL, "the client ended the stream inside a message")

    async def _more(self) -> None:
        """Wait for news of the client: for as long as it likes between two messages, if it has sent one."""
        news = self._news = trio.Event()  # may be set before a task takes over
        await in_task()
        if not self._received and self._is_answered:
            await news.wait()
            return
        with self.session.stalls.waiting(self, "the rest of a message did not come"):
            await news.wait()

    def _open_window(self, size: int) -> None:
        if size > 0:
            self.session.http2.open_window(self, size)

    # sending

    async def begin(self) -> None:
        """Send the headers of the reply now, before its first message is known."""
        self._begin()

    def _begin(self) -> None:
        if not self._is_answered and self.is_open:
            self._is_answered = True
            self.session.http2.send_headers(self, REPLY_HEADERS)

    @property
    def is_open(self) -> bool:
        """True if neither end has ended the call."""
        return not self._is_finished and self.session.calls.get(self.number) is self

    @property
    def is_awaited(self) -> bool:
        """True if the client still waits for the reply, as far as is known."""
        return self.is_open and trio.current_time() < self.deadline

    async def send(self, message: bytes) -> None:
        """Send a message, as far as the windows of the client reach; wait for them."""
        self._begin()
        session = self.session
        view = memoryview(prefixed(message))
        while view and self.is_open:
            sent = session.http2.send_data(self, view)
            view = view[sent:]
            if view or session.is_congested:
                opened = self._has_window = trio.Event()  # may be set before a task takes over
                await in_task()
                if not sent:
                    await self._wait_for_window(opened)
                elif session.is_congested:
                    await session.wait_for_room()
                else:
                    await trio.lowlevel.checkpoint()

    async def _wait_for_window(self, opened: trio.Event) -> None:
        """Wait until the client opens a window; end the connection if it does not."""
        with self.session.stalls.waiting(self, "it did not open a window"):
            await opened.wait()

    def answer(self, message: bytes) -> bool:
        """Send the only message and end the call with OK if that requires no wait; return False otherwise."""
        session = self.session
        if self._is_answered or not self.is_open or session.closed or session.is_congested:
            return False
        self._is_finished = session.http2.send_whole(
            self, REPLY_HEADERS, prefixed(message), trailers(GrpcStatus.OK)
        )
        return self._is_finished

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """End the call with a status."""
        self._end(b"" if self._is_answered else REPLY_HEADERS, status, text)

    def refuse(self, http_status: int, reason: str) -> None:
        """End a request that is no call with an HTTP status, and with the gRPC status INTERNAL."""
        self._end(refusal_headers(http_status), GrpcStatus.INTERNAL, reason)

    def _end(self, beginning: bytes, status: GrpcStatus, text: str) -> None:
        if self.is_open and not self.session.closed:
            self._is_finished = True
            self.session.http2.send_headers(self, beginning + trailers(status, text), ends=True)

    def cancel(self) -> None:
        """Cancel the call, if it waits for anything."""
        if self._scope is not None:
            self._scope.cancel()

    # life

    def _read_deadline(self) -> None:
        """Read the deadline of the client. Raises CallError."""
        timeout = self.headers.get("grpc-timeout")
        if timeout is not None:
            seconds = timeout_seconds(timeout)
            if seconds < LONGEST_TIMEOUT:
                self.deadline = trio.current_time() + seconds

    def carry_out(self, work: Coroutine[Any, Any, None]) -> None:
        """Do all work of the call that requires no wait now, and the rest in a task."""
        if _step(work):
            try:
                self._read_deadline()
            except CallError as error:
                work.close()
                self.finish(error.status, str(error))
                return
            self.session.begun += 1
            self._scope = trio.CancelScope(deadline=self.deadline)
            if not self.session.spawn(self._carry_out, self._scope, work):
                work.close()

    async def _carry_out(self, scope: trio.CancelScope, work: Coroutine[Any, Any, None]) -> None:
        with scope:
            await _rest_of(work)
        if scope.cancelled_caught and trio.current_time() >= self.deadline:
            self.finish(GrpcStatus.DEADLINE_EXCEEDED, "the deadline is over")


Serve = Callable[[Call], Awaitable[None]]


class Together(NamedTuple):
    """Carries out calls of one method together. `handle` gets the calls that wait, and carries out as many of
    the first ones as it accepts; it returns their number. The others are carried out one by one."""

    path: str
    handle: Callable[[Sequence[Call]], int]


NONE_TOGETHER: Final = Together("", lambda _calls: 0)
MOST_TOGETHER: Final = 32


class Http2Session(Session):
    """A connection of a gRPC client. `serve` carries out a call, `together` several; `calls` are those that
    are open."""

    def __init__(
        self,
        *arguments: Any,
        serve: Serve,
        grants: Grants,
        stalls: Stalls,
        together: Together = NONE_TOGETHER,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.http2 = ServerConnection(self._begin, self._write)
        self.calls = self.http2.streams
        self.grants = grants
        self.stalls = stalls
        self.long_messages = trio.Semaphore(GRANTS_OF_CONNECTION)
        self.is_heard = True
        """True if the client has sent anything since the last ping."""
        self._serve = serve
        self._together = together
        self._waiting: list[Call] = []
        """Calls that are to be carried out together."""
        self._new: dict[Call, None] = {}
        self.begun = 0
        """The tasks of calls that this turn has begun."""
        self._is_modest = True
        self._allowance_ends = 0.0
        self._room = trio.lowlevel.ParkingLot()

    def _write(self, data: bytes) -> None:
        self._queue([data])

    # receiving

    async def feed(self, data: bytes, pace: Pace) -> None:
        """Handle the frames that the client has sent, in turns. Raises RemoteProtocolError."""
        self.in_batch = True
        self.begun = 0
        try:
            for number, _ in enumerate(self.http2.receive(data)):
                self._check_allowance()
                # A client that sends little does not wait for those that send much, on any machine.
                self._is_modest = number == 0 and len(data) < LONG_READ
                if self._turn_is_over(pace) or len(self._waiting) >= MOST_TOGETHER:
                    await self._carry_out_waiting(pace)
                    await self._step(pace)
            for call in list(self._new):
                self.start(call)
                await self._step(pace)
            await self._carry_out_waiting(pace)
        finally:
            while self._waiting:  # frames before one that ends the connection
                self._carry_out_first()
            self.in_batch = False
            self.flush()
        if self.http2.is_over and not self.calls:  # otherwise the client disconnects once they have ended
            self.close()

    async def _step(self, pace: Pace) -> None:
        if self._turn_is_over(pace):
            self.flush()
            await pace.next()
            self.begun = 0

    def _turn_is_over(self, pace: Pace) -> bool:
        """Return True if others should go first. Tasks that a turn has begun run after it, all at once."""
        return self.begun >= TASKS_AT_ONCE or (pace.is_over and not self._is_modest)

    def _check_allowance(self) -> None:
        """Raise RemoteProtocolError if the client resets streams, or sends frames without content, too
        often.
        """
        spent = self.http2
        now = trio.current_time()
        if now >= self._allowance_ends:
            spent.resets = spent.idle = 0
            self._allowance_ends = now + ALLOWANCE_SECONDS
        if spent.resets > MOST_RESETS:
            raise RemoteProtocolError(
                f"HTTP/2: more than {MOST_RESETS} streams reset in {ALLOWANCE_SECONDS:g} s"
            )
        if spent.idle > MOST_IDLE_FRAMES:
            raise RemoteProtocolError(
                f"HTTP/2: {MOST_IDLE_FRAMES} frames without content in {ALLOWANCE_SECONDS:g} s"
            )

    def _begin(self, number: int, send_window: int, headers: dict[str, str]) -> Call:
        call = Call(self, number, send_window, headers)
        self._new[call] = None
        self.is_known = True
        return call

    def start(self, call: Call) -> None:
        """Carry out a call, unless it was started, once its client has sent everything, or sends no more for
        now.
        """
        if call in self._new:
            del self._new[call]
            if refusal := http_refusal(call.headers):
                call.refuse(*refusal)
            elif call.path == self._together.path:
                self._waiting.append(call)
            elif call.is_open:
                call.carry_out(self._carry_out(call))

    async def _carry_out_waiting(self, pace: Pace) -> None:
        """Carry out the calls that wait, in turns."""
        while self._waiting:
            self._carry_out_first()
            if self._waiting:
                await self._step(pace)

    def _carry_out_first(self) -> None:
        """Carry out the first calls that wait together, as many as possible, and the next one alone."""
        calls = self._waiting = [call for call in self._waiting if call.is_open]
        try:
            count = self._together.handle(calls) if calls else 0
        except Exception:  # as in `_carry_out`
            _log.exception("%s: %s: calls failed", self.server, self.peer_text)
            for call in calls:
                call.finish(GrpcStatus.INTERNAL, "the call failed in the server")
            count = len(calls)
        alone = calls[count : count + 1]
        self._waiting = calls[count + 1 :]
        for call in alone:
            call.carry_out(self._carry_out(call))

    async def _carry_out(self, call: Call) -> None:
        try:
            await self._serve(call)
        except CallError as error:
            call.finish(error.status, str(error))
        except Exception:  # a programming error ends this call, not the connection
            _log.exception("%s: %s: %s failed", self.server, self.peer_text, call.path)
            call.finish(GrpcStatus.INTERNAL, "the call failed in the server")
        except trio.Cancelled:
            # At a stop of the server, the client gets a status, not a lost connection.
            if trio.current_time() < call.deadline:
                call.finish(GrpcStatus.UNAVAILABLE, "the server stops")
                self.flush()
            raise
        else:
            call.finish()

    # sending

    async def wait_for_room(self) -> None:
        """Wait until the kernel has accepted the queued bytes; end the connection if it accepts nothing."""
        self.flush()
        while self.is_congested:
            with trio.move_on_after(STALLED_SECONDS):
                await self._room.park()
                continue
            self.end(f"it has read nothing for {STALLED_SECONDS:g} s")
            # Until `end` has cancelled this task.
            await trio.sleep_forever()

    def ping(self) -> None:
        """Ping a client with open calls; end the connection if it has not answered the last ping."""
        if not self.calls:
            return
        if not self.is_heard:
            self.end("it does not answer pings")
            return
        self.is_heard = False
        self.http2.ping()

    def end(self, reason: str) -> None:
        """End the connection, and log the reason."""
        _log.info("%s: %s closed: %s", self.server, self.peer_text, reason)
        self.close()

    def ended(self) -> None:
        super().ended()
        self._new.clear()
        self._waiting.clear()
        self.http2.close()

    def _sent(self, count: int) -> None:
        super()._sent(count)
        if self._room and count:
            self._room.unpark_all()
