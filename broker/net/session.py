"""One connection from the point of view of handlers: both addresses, and methods to send to the peer at any
time.

Only `request` waits. Bytes to send are queued and sent together: replies of a batch at the end of the batch,
everything else when the server's flush service runs. Two limits bound the queue. Above `pause_bytes`, the
connection is not read until the queue has drained (back-pressure). Above `max_outgoing_bytes`, which only
pushes and late replies can reach, the connection is closed.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from rmqcli.broker.errors import RemoteClosed, RemoteTimeout
from rmqcli.broker.net.limits import SessionLimits
from rmqcli.broker.net.transport import Buffer, Transport, coalesce
from rmqcli.broker.net.turns import Turns
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import CodecError, ProtocolError
from rmqcli.codec.ids import join_address, pack_host
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import NO_DIRECT, DirectReaders, encode_frame, encode_frame_head

COMMANDS_AT_ONCE = 32
"""Maximum number of commands that are decoded before the first of them is handled; a long read has
thousands."""
LONG_BODY = 64 * 1024
"""Minimum size in bytes of a body that is sent without a copy."""
LONG_SEND = 64 * 1024
"""Bytes sent at a time after which the connection waits for another turn before it sends more."""

_log = logging.getLogger(__name__)
_numbers = itertools.count(1)


class _Waiter:
    """A request of this server that waits for the reply of the peer."""

    __slots__ = ("done", "reply")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.reply: RemotingCommand | None = None


class Session:
    """A connection of a server, open until `closed`.

    `id` is unique in this process. `peer` is (host, port), `peer_text` "ip:port", as in Java.
    Long work for the connection is divided by `turns`. `is_known` is True once a request of the peer was
    admitted.
    """

    __slots__ = (
        "_deferred",
        "_drained",
        "_draining",
        "_is_over",
        "_limits",
        "_max_deferred",
        "_nursery",
        "_on_close",
        "_outgoing",
        "_packed_peer",
        "_pause_bytes",
        "_silent_since",
        "_wake",
        "closed",
        "connection",
        "id",
        "in_batch",
        "is_active",
        "is_known",
        "outgoing_bytes",
        "peer",
        "peer_text",
        "server",
        "transport",
        "turns",
    )

    def __init__(
        self,
        transport: Transport,
        *,
        peer: tuple[str, int],
        limits: SessionLimits,
        wake: Callable[[Session], None],
        direct: DirectReaders = NO_DIRECT,
        turns: Turns | None = None,
        server: str = "broker",
    ) -> None:
        self.id = next(_numbers)
        self.server = server
        self.transport = transport
        self.turns = turns or Turns()
        self.connection = Connection(
            max_frame=limits.max_frame,
            max_header=limits.max_header,
            direct=direct,
            most=COMMANDS_AT_ONCE,
        )
        self.peer = peer
        self.peer_text = join_address(*peer)
        self._packed_peer: bytes | None = None
        self.closed = False
        self.in_batch = False
        self.is_active = False
        self.is_known = False
        self._is_over = False
        self._silent_since = trio.current_time()
        self.outgoing_bytes = 0
        self._limits = limits
        self._pause_bytes = limits.pause_bytes
        self._max_deferred = limits.max_deferred
        self._wake = wake
        self._outgoing: list[Buffer] = []
        self._on_close: list[Callable[[], None]] = []
        self._nursery: trio.Nursery | None = None
        self._draining = False
        self._deferred = 0
        self._drained: trio.Event | None = None

    @property
    def packed_peer(self) -> bytes:
        """The address of the peer in the form of records. Raises LocalProtocolError if it is not an IP
        address."""
        if self._packed_peer is None:
            self._packed_peer = pack_host(*self.peer)
        return self._packed_peer

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.peer_text}{' closed' if self.closed else ''}>"

    # sending

    def send(self, command: RemotingCommand | bytes, views: Sequence[Buffer] = ()) -> None:
        """Queue the beginning of a frame with `views` as its remainder, or a command with an opaque number
        and `views` as its body. The views are not copied.
        """
        if isinstance(command, bytes):
            self._queue([command, *views])
        elif views:
            size = sum(map(len, views))
            self._queue([encode_frame_head(command, size), *views])
        # A long body is sent without copying it, because a copy would hold up the other connections.
        elif len(command.body) >= LONG_BODY:
            self._queue([encode_frame_head(command, len(command.body)), memoryview(command.body)])
        else:
            self._queue([encode_frame(command)])

    def respond(
        self, request: RemotingCommand, reply: RemotingCommand | bytes, views: Sequence[Buffer] = ()
    ) -> None:
        """Send a reply, unless the request is one-way. If it cannot be encoded, send an error instead."""
        if request.is_oneway:
            return
        try:
            self.send(reply, views)
        except (CodecError, ValueError) as error:
            _log.error(
                "%s: %s: code %d: the reply cannot be encoded: %s",
                *(self.server, self.peer_text, request.code, error),
            )
            self.send(request.reply(ResponseCode.SYSTEM_ERROR, "the reply cannot be encoded"))

    def oneway(self, command: RemotingCommand) -> None:
        """Queue a request that the peer does not answer."""
        if not self.closed:
            self._queue([self.connection.oneway(command)])

    async def request(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Send a request and return the reply, whatever its code.

        Raises RemoteTimeout after `timeout_s` seconds, and RemoteClosed if the connection ends first.
        """
        if self.closed:
            raise RemoteClosed(f"{self.peer_text} is disconnected")
        waiter = _Waiter()
        self._queue([self.connection.request(command, waiter)])
        try:
            with trio.move_on_after(timeout_s):
                await waiter.done.wait()
        finally:
            # Also after a timeout: a peer that never answers must not fill the table of requests.
            self.connection.forget(command.opaque)
        if waiter.reply is not None:
            return waiter.reply
        if self.closed:
            raise RemoteClosed(f"{self.peer_text} disconnected before it answered code {command.code}")
        raise RemoteTimeout(f"{self.peer_text} did not answer code {command.code} in {timeout_s:g} s")

    # lifetime

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: object) -> bool:
        """Run `function(*args)` in a task that is cancelled when the connection ends.

        An exception is logged and ends only this task. Return False if the connection has ended: nothing
        runs.
        """
        if self._nursery is None:
            return False
        self._deferred += 1
        self._nursery.start_soon(self._run_deferred, function, args)
        return True

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the connection has ended, or now if it has ended already."""
        if self.closed:
            callback()
        else:
            self._on_close.append(callback)

    def close(self) -> None:
        """End the connection, even one that has not begun. Queued bytes are dropped."""
        # For `attach`: the server may not have started the tasks yet.
        self._is_over = True
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    # for the server

    def silent_since(self, now: float) -> float:
        """Return the time of the last call before which bytes had been sent or received since the previous
        call."""
        if self.is_active:
            self.is_active = False
            self._silent_since = now
        return self._silent_since

    def attach(self, nursery: trio.Nursery) -> None:
        """Run the tasks of the connection in `nursery` from now on."""
        self._nursery = nursery
        if self._is_over:
            nursery.cancel_scope.cancel()

    def detach(self) -> None:
        """Start no more tasks, because the nursery is about to close."""
        self._nursery = None

    def answered(self, reply: RemotingCommand) -> None:
        """Wake the request that a reply answers. Late and unknown replies are dropped."""
        waiter = self.connection.match(reply)
        if isinstance(waiter, _Waiter):
            waiter.reply = reply
            waiter.done.set()
        else:
            _log.debug("%s: reply %d answers no request", self.peer_text, reply.opaque)

    def queue_reply(self, frame: bytes) -> None:
        """Queue complete frames while a batch is handled."""
        self._outgoing.append(frame)
        self.outgoing_bytes += len(frame)

    def flush(self) -> None:
        """Send as much as the kernel accepts now; a task sends the rest."""
        # A draining task sends what is queued meanwhile as well: a stream has one sender at a time.
        if self._draining or self.closed or not self._outgoing:
            return
        if len(self._outgoing) > 1:
            coalesce(self._outgoing, self.outgoing_bytes)
        try:
            self._sent(self.transport.send_now(self._outgoing))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._broken(error)
            return
        if self._outgoing and self._nursery is not None:
            self._draining = True
            self._nursery.start_soon(self._drain)

    @property
    def is_congested(self) -> bool:
        """True while so much is queued or deferred for the peer that the connection is not read."""
        return self.outgoing_bytes > self._pause_bytes or self._deferred > self._max_deferred

    async def drained(self) -> None:
        """Wait until the connection is not congested."""
        self.flush()
        while self.is_congested:
            self._drained = trio.Event()
            await self._drained.wait()

    def ended(self) -> None:
        """Fail the waiting requests and run the callbacks, because the connection has ended."""
        self.closed = True
        self._outgoing.clear()
        for waiter in self.connection.abandon():
            if isinstance(waiter, _Waiter):
                waiter.done.set()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # an error in one callback must not skip the others
                _log.exception("%s: close callback failed", self.peer_text)

    # internal

    def _queue(self, buffers: list[Buffer]) -> None:
        if self.closed:
            return
        self._outgoing += buffers
        self.outgoing_bytes += sum(map(len, buffers))
        if self.outgoing_bytes > self._limits.max_outgoing_bytes:
            self._enforce_bound()
        elif not (self.in_batch or self._draining):  # the batch's end, or the draining task, sends otherwise
            self._wake(self)

    def _enforce_bound(self) -> None:
        self.flush()  # the kernel may accept enough to stay below the limit
        if self.outgoing_bytes > self._limits.max_outgoing_bytes:
            _log.warning(
                "%s: closed: it does not read, %d bytes are queued for it",
                self.peer_text,
                self.outgoing_bytes,
            )
            self.close()

    async def _drain(self) -> None:
        try:
            while self._outgoing:
                sent = await self.transport.send_some(self._outgoing)
                self._sent(sent)
                if sent >= LONG_SEND:
                    await self.turns.next()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._broken(error)
        finally:
            self._draining = False

    async def _run_deferred(self, function: Callable[..., Awaitable[Any]], args: tuple[object, ...]) -> None:
        try:
            await function(*args)
        except (RemoteClosed, RemoteTimeout, ProtocolError) as error:
            _log.info("%s: %s", self.peer_text, error)
        except Exception:  # an error in the work for one request must not end the connection
            _log.exception("%s: deferred work failed", self.peer_text)
        finally:
            self._deferred -= 1
            self._wake_reader()

    def _sent(self, count: int) -> None:
        if count:
            self.outgoing_bytes -= count
            self.is_active = True
            if self._drained is not None:
                self._wake_reader()

    def _wake_reader(self) -> None:
        if self._drained is not None and not self.is_congested:
            self._drained.set()
            self._drained = None

    def _broken(self, error: Exception) -> None:
        _log.debug("%s: cannot write: %s", self.peer_text, error)
        self.close()
