"""One connection to one address: requests in flight, replies paired by opaque number, requests from the peer.

A link has three tasks: a reader, the writer of the outbox, and one alarm for late replies (a cancel scope per
request would cost more than the request). A late reply is dropped. If a request times out and the peer has
been silent since it was sent, the link is closed, as by the Java client (`clientCloseSocketIfTimeout`). Times
are seconds on trio's clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import cast

import outcome
import trio

from rmqcli.client.errors import (
    ClientError,
    ConnectionLost,
    InvalidRequest,
    RequestTimeout,
    TlsProblem,
    request_name,
)
from rmqcli.client.wire.detached import in_task, is_detached, stopped
from rmqcli.client.wire.reader import Answer, Call, Reader
from rmqcli.client.wire.streams import SendNow, Stream, TcpStream, close_forcefully
from rmqcli.client.wire.tls_problems import tls_problem
from rmqcli.codec.codes import RPC_RESPONSE, ResponseCode
from rmqcli.codec.errors import CodecError, LocalProtocolError, TlsError
from rmqcli.codec.headers.send import SendMessageResponseHeader
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection, ReceiveError
from rmqcli.codec.remoting.frame import DirectReaders, encode_frame
from rmqcli.codec.remoting.reply_head import SendRequest

# Outgoing frames of one connection: collected while others are being sent, then sent together.
#
# Waking the writer task costs more than a write to a socket that has room. So a lone frame is written at
# once, and many frames in groups of TOGETHER, on which the peer works while more are encoded.
#
# Limits: MAX_QUEUED bytes wait here; a task that would exceed it waits in `wait_for_room`.

MAX_QUEUED = 8 * 1024 * 1024
TOGETHER = 32
"""The number of queued frames at which they are written without waiting for the writer.

With 64 sends of 1 KB in flight, groups of 8 cost the client a sixth and the broker a fifth more CPU.
"""


class Outbox:
    """The outgoing frames of one link; `run` is the writer and raises the errors of the stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._send_now: SendNow | None = getattr(stream, "send_now", None)
        self._frames: list[bytes] = []
        self.queued = 0  # bytes
        self._sending = True  # nothing is sent before the writer runs
        self._writer: trio.lowlevel.Task | None = None
        self._queuing: list[trio.lowlevel.Task] = []  # wait for the frames in _frames
        self._leaving: list[trio.lowlevel.Task] = []  # wait for the frames being sent
        self._room = trio.lowlevel.ParkingLot()

    @property
    def is_full(self) -> bool:
        return self.queued > MAX_QUEUED

    def put(self, frame: bytes, *, alone: bool = False) -> None:
        """Queue a frame. `alone`: the peer has no other request."""
        frames = self._frames
        # A lone frame is written to the socket here, without waking the writer: half the time of a send.
        if alone and not frames and self._send_now is not None and not self._sending:
            sent = self._send_now(frame)
            if sent == len(frame):
                return
            frame = frame[sent:]
        frames.append(frame)
        self.queued += len(frame)
        # Writing early lets the broker work while further requests are made.
        if (alone or len(frames) >= TOGETHER) and self._send_now is not None and not self._sending:
            self._hand_over(self._send_now)
        if self._writer is not None and frames:
            # Cleared first: a task must not be rescheduled twice.
            writer, self._writer = self._writer, None
            trio.lowlevel.reschedule(writer)

    async def wait_for_room(self) -> None:
        """Wait until the queue is below its limit, or until `release`."""
        while self.is_full:
            await self._room.park()

    async def wait_sent(self) -> str | None:
        """Wait until the operating system has all frames. Return None, or the reason given to `release`."""
        if not self._frames and not self._sending:
            await trio.lowlevel.checkpoint()
            return None
        task = trio.lowlevel.current_task()
        self._queuing.append(task)

        def give_up(_: object) -> trio.lowlevel.Abort:
            # The writer may have moved the task to the other list meanwhile.
            waiting = self._queuing if task in self._queuing else self._leaving
            waiting.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        lost: str | None = await trio.lowlevel.wait_task_rescheduled(give_up)
        return lost

    def release(self, reason: str) -> None:
        """Drop all frames and end all waits with `reason`."""
        self._frames.clear()
        self.queued = 0
        for task in (*self._leaving, *self._queuing):
            trio.lowlevel.reschedule(task, outcome.Value(reason))
        self._leaving.clear()
        self._queuing.clear()
        self._room.unpark_all()

    async def run(self) -> None:
        self._sending = False
        while True:
            if self._frames and self._send_now is not None:
                self._hand_over(self._send_now)
            if self._frames:
                await self._send()
            else:
                await self._wait_for_frames()

    async def _send(self) -> None:
        frames, self._frames = self._frames, []
        # `_leaving` is empty here: the swap gives an empty list to those who wait for later frames.
        self._leaving, self._queuing = self._queuing, self._leaving
        self._sending = True
        try:
            await self._stream.send_all(b"".join(frames))
        finally:
            self._sending = False
        # Not in the `finally`: after an error, the link ends these waits by `release`.
        self._sent(self._leaving)

    def _hand_over(self, send_now: SendNow) -> None:
        """Write frames at once. The writer sends the rest, and gets the error of a broken socket."""
        data = b"".join(self._frames)
        sent = send_now(data)
        # In place, because `put` goes on with the same list.
        self._frames[:] = [data[sent:]] if sent < len(data) else []
        self._sent([] if self._frames else self._queuing)

    def _sent(self, waiting: list[trio.lowlevel.Task]) -> None:
        self.queued = sum(map(len, self._frames))
        for task in waiting:
            trio.lowlevel.reschedule(task)
        waiting.clear()
        if self._room:
            self._room.unpark_all()

    async def _wait_for_frames(self) -> None:
        def give_up(_: object) -> trio.lowlevel.Abort:
            self._writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._writer = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(give_up)


_REPLIES = DirectReaders({ResponseCode.SUCCESS: SendMessageResponseHeader})
"""Replies to sends are read straight into their header. The general reader reads those with other fields."""
STREAM_ERRORS = (OSError, TlsError, trio.BrokenResourceError, trio.ClosedResourceError)
Request = RemotingCommand | SendRequest
OnRequest = Callable[["Link", RemotingCommand], RemotingCommand | None]


class Link:
    """A connection in use; `run`, in a nursery, serves it until the peer, an error or `close` ends it.

    `on_request` is called with every request from the peer and returns a reply, or None for no reply.
    """

    def __init__(self, address: str, stream: Stream, on_request: OnRequest | None = None) -> None:
        self.address = address
        self._stream = stream
        self._on_request = on_request
        self._protocol = Connection(direct=_REPLIES)
        self._calls = cast("Mapping[int, Call]", self._protocol.waiting)
        self._outbox = Outbox(stream)
        self._reader = Reader(stream, self._calls, self._received, self._asked)
        self._scope = trio.CancelScope()
        self._alarm = trio.CancelScope()
        self._next_deadline = math.inf
        self._heard = 0
        self._lost: str | None = None
        self._problem: TlsProblem | None = None

    @property
    def is_open(self) -> bool:
        return self._lost is None

    @property
    def heard(self) -> int:
        """The number of times that bytes arrived."""
        return self._heard

    @property
    def in_flight(self) -> int:
        return len(self._calls)

    def close(self, reason: str = "closed by this client") -> None:
        """End the link. Requests in flight raise ConnectionLost."""
        if self._lost is None:
            self._lost = reason
            self._scope.cancel()
            self._release_all(reason)

    def _break(self, error: BaseException) -> None:
        """End the link because of an error of its stream."""
        if isinstance(error, TlsError):
            self._problem, reason = tls_problem(error)
        else:
            self._problem, reason = self._refused, str(error.__cause__ or error) or type(error).__name__
        self.close(reason)

    def _loss(self, reason: str) -> ConnectionLost:
        """Return the error for a request on a link that has ended."""
        return ConnectionLost(self.address, reason, self._problem)

    @property
    def _refused(self) -> TlsProblem | None:
        """TLS_WANTED if the peer may accept only TLS: it has sent nothing on this plain connection."""
        is_plain = isinstance(self._stream, TcpStream)
        return TlsProblem.TLS_WANTED if is_plain and not self._heard else None

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._watch)
        finally:
            self.close()
            await close_forcefully(self._stream)

    # Ctrl-C between the frame and the wait would leave a call that nobody ends.
    @trio.lowlevel.enable_ki_protection
    async def request(
        self, command: Request, timeout: float, deadline: float | None = None
    ) -> RemotingCommand:
        """Return the reply, whatever its code. The coroutine may be detached.

        Raises RequestTimeout after `timeout` seconds, and ConnectionLost.

        `deadline` is the end of the timeout, if the caller has computed it already.
        """
        if deadline is None:
            deadline = trio.current_time() + timeout
        if self._outbox.queued > MAX_QUEUED:
            await self._wait_for_room(command, deadline, timeout)
        if self._lost is not None:
            raise self._loss(self._lost)
        call = Call(self._protocol, deadline, self._heard)
        try:
            frame = self._protocol.request(command, call)
        except LocalProtocolError as error:
            raise InvalidRequest(f"{request_name(command.code)} cannot be sent: {error}") from error
        call.opaque = command.opaque
        # The reader is chosen only after this, so that the broker gets the request as early as possible.
        self._outbox.put(frame, alone=len(self._calls) == 1)
        if deadline < self._next_deadline:
            self._next_deadline = self._alarm.deadline = deadline
        if is_detached():
            self._reader.leave_to_background()
            await stopped(call)
        # A lone request reads its reply itself, because waking it costs a round of the scheduler.
        elif self._reader.expects():
            try:
                await self._reader.read_for(call)
            except STREAM_ERRORS as error:
                self._break(error)
            except BaseException:
                self._protocol.forget(call.opaque)
                raise
        if not call.is_over:
            call.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(call.give_up)
        answer = call.answer
        if isinstance(answer, RemotingCommand):
            return answer
        if answer is None:
            raise _sent(RequestTimeout(self.address, request_name(command.code), timeout))
        raise _sent(self._loss(answer))

    async def send_oneway(self, command: RemotingCommand, timeout: float) -> None:
        """Return when the operating system has the request."""
        deadline = trio.current_time() + timeout
        if self._outbox.is_full:
            await self._wait_for_room(command, deadline, timeout)
        if self._lost is not None:
            raise self._loss(self._lost)
        try:
            self._outbox.put(self._protocol.oneway(command), alone=True)
        except LocalProtocolError as error:
            raise InvalidRequest(f"{request_name(command.code)} cannot be sent: {error}") from error
        with trio.move_on_at(deadline):
            lost = await self._outbox.wait_sent()
            if lost is not None:
                raise _sent(self._loss(lost))
            return
        raise _sent(RequestTimeout(self.address, request_name(command.code), timeout))

    def send_frame(self, frame: bytes) -> None:
        """Queue a frame that gets no reply (a reply to a request from the peer)."""
        if self._lost is None:
            self._outbox.put(frame)

    async def _wait_for_room(self, command: Request, deadline: float, timeout: float) -> None:
        await in_task()
        with trio.move_on_at(deadline):
            await self._outbox.wait_for_room()
            return
        raise RequestTimeout(self.address, request_name(command.code), timeout)

    def _release_all(self, reason: str) -> None:
        for call in cast("list[Call]", self._protocol.abandon()):
            self._end(call, reason)
        self._outbox.release(reason)

    def _end(self, call: Call, answer: Answer) -> None:
        if call.reads:
            self._reader.call_off()
        call.end(answer)

    async def _read(self) -> None:
        try:
            await self._reader.run()
        except STREAM_ERRORS as error:
            self._break(error)

    def _received(self, data: bytes) -> list[RemotingCommand]:
        """End the calls whose replies are in `data` and return the requests from the peer."""
        lost = None
        if data:
            self._heard += 1
        else:
            self._problem, lost = self._refused, "closed by the peer"
        try:
            commands = self._protocol.receive(data)
        except ReceiveError as error:
            commands, lost = error.commands, f"the peer does not speak the remoting protocol: {error}"
        requests = []
        for command in commands:
            if not command.flag & RPC_RESPONSE:
                requests.append(command)
                continue
            call = self._protocol.match(command)
            if isinstance(call, Call):
                call.end(command)
        if lost is not None:
            # Closed only now, because replies that arrived before the end still count.
            self.close(lost)
        return requests

    def _asked(self, request: RemotingCommand) -> None:
        if self._on_request is None:
            return
        try:
            reply = self._on_request(self, request)
        except CodecError:
            return  # a request that cannot be decoded gets no reply, as from a Java client
        if reply is not None and not request.is_oneway:
            self.send_frame(encode_frame(reply))

    async def _write(self) -> None:
        try:
            await self._outbox.run()
        except STREAM_ERRORS as error:
            self._break(error)

    async def _watch(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._next_deadline) as self._alarm:
                await trio.sleep_forever()
            self._expire(trio.current_time())

    def _expire(self, now: float) -> None:
        late = [call for call in self._calls.values() if call.deadline <= now]
        # Nothing has arrived since one of them was sent.
        silent = any(call.heard == self._heard for call in late)
        for call in late:
            self._protocol.forget(call.opaque)
            self._end(call, None)
        self._next_deadline = min((call.deadline for call in self._calls.values()), default=math.inf)
        if silent:
            self.close("the peer is silent")


def _sent(error: ClientError) -> ClientError:
    error.was_sent = True
    return error
