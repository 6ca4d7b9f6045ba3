"""One connection to one address: many requests in flight, replies paired by opaque number, requests of the peer handed on.

Three tasks: a reader, the writer of the outbox, and an alarm for late replies (one for the whole link: a cancel scope a
request would cost more than the request). A late reply is dropped. When a request times out and the peer has been silent
since it was sent, the link is given up, as the Java client does (`clientCloseSocketIfTimeout`).

Times are seconds on trio's clock.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable

import outcome
import trio

from codec.codes import RPC_RESPONSE
from codec.connection import Connection, ReceiveError
from codec.errors import CodecError, LocalProtocolError
from codec.frame import RemotingCommand, encode_frame
from rmqcli.client.errors import ConnectionLost, InvalidRequest, RequestTimeout, request_name
from rmqcli.client.outbox import Outbox
from rmqcli.client.streams import READ_SIZE, Stream

__all__ = ["Link", "OnRequest"]

OnRequest = Callable[["Link", RemotingCommand], RemotingCommand | None]


class _Call:
    """One task that waits for one reply."""

    __slots__ = ("code", "deadline", "opaque", "since", "task")

    def __init__(
        self, task: trio.lowlevel.Task, command: RemotingCommand, since: float, deadline: float
    ) -> None:
        self.task = task
        self.code = command.code
        self.opaque = -1
        self.since = since
        self.deadline = deadline


class Link:
    """A connection in use. `run` in a nursery keeps it going until the peer, an error or `close` ends it.

    `on_request` gets every request of the peer and may return a reply (None: no reply, as Java answers unknown codes).
    """

    def __init__(self, address: str, stream: Stream, on_request: OnRequest | None = None) -> None:
        self.address = address
        self._stream = stream
        self._on_request = on_request
        self._protocol = Connection()
        self._calls: dict[int, _Call] = {}
        self._outbox = Outbox(stream)
        self._scope = trio.CancelScope()
        self._alarm = trio.CancelScope()
        self._next_deadline = math.inf
        self._heard = -math.inf
        self._lost: str | None = None

    @property
    def is_open(self) -> bool:
        return self._lost is None

    @property
    def in_flight(self) -> int:
        return len(self._calls)

    def close(self, reason: str = "closed by this client") -> None:
        """Ends the link now; whoever waits gets ConnectionLost."""
        if self._lost is None:
            self._lost = reason
            self._scope.cancel()

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._watch)
        finally:
            self.close()
            self._release_all()
            with trio.CancelScope(shield=True) as forceful:
                forceful.cancel()
                await self._stream.aclose()

    async def request(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """The reply, whatever its code. RequestTimeout after `timeout` seconds, ConnectionLost when the link ends first."""
        since = trio.current_time()
        deadline = since + timeout
        if self._outbox.is_full:
            await self._wait_for_room(command, deadline, timeout)
        self._check_open()
        call = _Call(trio.lowlevel.current_task(), command, since, deadline)
        try:
            frame = self._protocol.request(command, call)
        except LocalProtocolError as error:
            raise InvalidRequest(f"{request_name(command.code)} cannot be sent: {error}") from error
        opaque = call.opaque = command.opaque
        self._calls[opaque] = call
        self._outbox.put(frame, alone=len(self._calls) == 1)
        if deadline < self._next_deadline:
            self._next_deadline = self._alarm.deadline = deadline

        def give_up(_: object) -> trio.lowlevel.Abort:
            self._forget(opaque)
            return trio.lowlevel.Abort.SUCCEEDED

        reply = await trio.lowlevel.wait_task_rescheduled(give_up)
        if isinstance(reply, RemotingCommand):
            return reply
        if reply is None:
            raise RequestTimeout(self.address, request_name(command.code), timeout)
        raise ConnectionLost(self.address, str(reply))

    async def send_oneway(self, command: RemotingCommand, timeout: float) -> None:
        """Returns when the request has been given to the operating system."""
        deadline = trio.current_time() + timeout
        if self._outbox.is_full:
            await self._wait_for_room(command, deadline, timeout)
        self._check_open()
        try:
            self._outbox.put(self._protocol.oneway(command), alone=True)
        except LocalProtocolError as error:
            raise InvalidRequest(f"{request_name(command.code)} cannot be sent: {error}") from error
        with trio.move_on_at(deadline):
            lost = await self._outbox.wait_sent()
            if lost is not None:
                raise ConnectionLost(self.address, str(lost))
            return
        raise RequestTimeout(self.address, request_name(command.code), timeout)

    def send_frame(self, frame: bytes) -> None:
        """Queues bytes that need no answer (a reply to a request of the peer)."""
        if self._lost is None:
            self._outbox.put(frame)

    def _check_open(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(self.address, self._lost)

    async def _wait_for_room(self, command: RemotingCommand, deadline: float, timeout: float) -> None:
        with trio.move_on_at(deadline):
            await self._outbox.wait_for_room()
            return
        raise RequestTimeout(self.address, request_name(command.code), timeout)

    def _forget(self, opaque: int) -> None:
        self._protocol.forget(opaque)
        self._calls.pop(opaque, None)

    def _release_all(self) -> None:
        self._protocol.abandon()
        for call in self._calls.values():
            trio.lowlevel.reschedule(call.task, outcome.Value(self._lost))
        self._calls.clear()
        self._outbox.release(self._lost)

    async def _read(self) -> None:
        receive = self._stream.receive_some
        try:
            while data := await receive(READ_SIZE):
                self._heard = trio.current_time()
                for command in self._protocol.receive(bytes(data)):
                    self._take(command)
            self._protocol.receive(b"")
            self.close("closed by the peer")
        except ReceiveError as error:
            for command in error.commands:
                self._take(command)
            self.close(f"the peer does not speak the remoting protocol: {error}")
        except (OSError, ssl.SSLError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.close(str(error.__cause__ or error) or type(error).__name__)

    def _take(self, command: RemotingCommand) -> None:
        if command.flag & RPC_RESPONSE:
            call = self._protocol.match(command)
            if isinstance(call, _Call):
                del self._calls[call.opaque]
                trio.lowlevel.reschedule(call.task, outcome.Value(command))
            return
        if self._on_request is None:
            return
        try:
            reply = self._on_request(self, command)
        except CodecError:
            return  # a request that cannot be read gets no answer, as from a Java client
        if reply is not None and not command.is_oneway:
            self.send_frame(encode_frame(reply))

    async def _write(self) -> None:
        try:
            await self._outbox.run()
        except (OSError, ssl.SSLError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.close(str(error.__cause__ or error) or type(error).__name__)

    async def _watch(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._next_deadline) as self._alarm:
                await trio.sleep_forever()
            self._expire(trio.current_time())

    def _expire(self, now: float) -> None:
        late = [call for call in self._calls.values() if call.deadline <= now]
        silent = any(call.since > self._heard for call in late)
        for call in late:
            self._forget(call.opaque)
            trio.lowlevel.reschedule(call.task, outcome.Value(None))
        self._next_deadline = min((call.deadline for call in self._calls.values()), default=math.inf)
        if silent:
            self.close("the peer is silent")
