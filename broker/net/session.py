"""One connection as handlers see it: who is at the other end, and how to send to it at any time.

Nothing here waits but `request`. Bytes to send are queued and leave together: replies of a batch at the end of the
batch, everything else when the scheduler gets to the flusher. Two marks bound the queue: over `pause_bytes` the
connection is not read until it has drained (the peer feels it as back-pressure); over `max_outgoing_bytes`, which only
pushes and late replies can reach, the connection is closed.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import trio

from broker.errors import RemoteClosed, RemoteTimeout
from broker.net.transport import Buffer, Transport, coalesce
from codec.errors import ProtocolError
from codec.remoting.connection import Connection
from codec.remoting.frame import NO_DIRECT, DirectReaders, RemotingCommand, encode_frame, encode_frame_head

__all__ = ["Session", "SessionLimits"]

_log = logging.getLogger("broker.net.session")
_numbers = itertools.count(1)


class SessionLimits(NamedTuple):
    """Bounds of one connection: bytes queued for the peer, and tasks working for it at a time."""

    pause_bytes: int = 1024 * 1024
    max_outgoing_bytes: int = 64 * 1024 * 1024
    max_deferred: int = 1024
    max_frame: int = 16 * 1024 * 1024


class _Waiter:
    """One of our own requests waiting for the peer's answer."""

    __slots__ = ("answered", "reply")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.reply: RemotingCommand | None = None


class Session:
    """A connection of the server. Made by the server; one per peer, alive until `closed`.

    `id` is unique in this process, `peer` and `local` are (host, port), `peer_text` is "ip:port" as Java prints it.
    """

    __slots__ = (
        "_deferred",
        "_drainer",
        "_limits",
        "_nursery",
        "_on_close",
        "_outgoing",
        "_relief",
        "_silent_since",
        "_wake",
        "closed",
        "connection",
        "id",
        "in_batch",
        "local",
        "outgoing_bytes",
        "peer",
        "peer_text",
        "stirred",
        "transport",
    )

    def __init__(
        self,
        transport: Transport,
        *,
        peer: tuple[str, int],
        local: tuple[str, int],
        limits: SessionLimits,
        wake: Callable[[Session], None],
        direct: DirectReaders = NO_DIRECT,
    ) -> None:
        self.id = next(_numbers)
        self.transport = transport
        self.connection = Connection(max_frame=limits.max_frame, direct=direct)
        self.peer = peer
        self.peer_text = address_text(peer)
        self.local = local
        self.closed = False
        self.in_batch = False
        self.stirred = False
        self._silent_since = trio.current_time()
        self.outgoing_bytes = 0
        self._limits = limits
        self._wake = wake
        self._outgoing: list[Buffer] = []
        self._on_close: list[Callable[[], None]] = []
        self._nursery: trio.Nursery | None = None
        self._drainer = False
        self._deferred = 0
        self._relief: trio.Event | None = None

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.peer_text}{' closed' if self.closed else ''}>"

    # sending

    def send(self, command: RemotingCommand, views: Sequence[memoryview] = ()) -> None:
        """Queues a reply (or any command whose opaque is set), followed by `views` as its body, which are not copied.

        Never waits. On a closed connection nothing happens.
        """
        if views:
            size = sum(len(view) for view in views)
            self._queue([encode_frame_head(command, size), *views])
        else:
            self._queue([encode_frame(command)])

    def respond(
        self, request: RemotingCommand, reply: RemotingCommand, views: Sequence[memoryview] = ()
    ) -> None:
        """As `send`, but nothing is sent when the request is one-way."""
        if not request.is_oneway:
            self.send(reply, views)

    def oneway(self, command: RemotingCommand) -> None:
        """Queues a request of ours that the peer does not answer."""
        if not self.closed:
            self._queue([self.connection.oneway(command)])

    async def request(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Asks the peer and waits for its reply, whatever its code.

        Raises RemoteTimeout after `timeout_s` seconds, RemoteClosed when the connection ends before.
        """
        if self.closed:
            raise RemoteClosed(f"{self.peer_text} is gone")
        waiter = _Waiter()
        self._queue([self.connection.request(command, waiter)])
        try:
            with trio.move_on_after(timeout_s):
                await waiter.answered.wait()
        finally:
            self.connection.forget(command.opaque)
        if waiter.reply is not None:
            return waiter.reply
        if self.closed:
            raise RemoteClosed(f"{self.peer_text} went away before it answered code {command.code}")
        raise RemoteTimeout(f"{self.peer_text} did not answer code {command.code} in {timeout_s:g} s")

    # life

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Runs `function(*args)` as a task of this connection: it is cancelled when the connection ends.

        What it raises is logged and ends nothing else. Ignored on a closed connection.
        """
        if self._nursery is not None and not self.closed:
            self._deferred += 1
            self._nursery.start_soon(self._run_deferred, function, args)

    def on_close(self, callback: Callable[[], None]) -> None:
        """`callback()` runs once when the connection has ended (at once if it has ended already)."""
        if self.closed:
            callback()
        else:
            self._on_close.append(callback)

    def close(self) -> None:
        """Ends the connection; bytes not sent yet are lost."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    # for the server

    def silent_since(self, now: float) -> float:
        """The time of the last look that found bytes either way (`stirred`) since the one before it."""
        if self.stirred:
            self.stirred = False
            self._silent_since = now
        return self._silent_since

    def attach(self, nursery: trio.Nursery) -> None:
        """The nursery that the connection lives in."""
        self._nursery = nursery

    def detach(self) -> None:
        """The conversation is over: from here on no task may start in a nursery that is about to close."""
        self._nursery = None

    def answered(self, reply: RemotingCommand) -> None:
        """A reply of the peer came in; late and unknown ones are dropped."""
        waiter = self.connection.match(reply)
        if isinstance(waiter, _Waiter):
            waiter.reply = reply
            waiter.answered.set()
        else:
            _log.debug("%s: reply %d answers nothing", self.peer_text, reply.opaque)

    def queue_reply(self, frame: bytes) -> None:
        """A whole frame made while a batch is handled."""
        self._outgoing.append(frame)
        self.outgoing_bytes += len(frame)

    def queue_replies(self, frames: Sequence[bytes]) -> None:
        self._outgoing += frames
        self.outgoing_bytes += sum(map(len, frames))

    def flush(self) -> None:
        """Sends what the kernel takes now; a task sends the rest when it can."""
        if self._drainer or self.closed or not self._outgoing:
            return
        coalesce(self._outgoing, self.outgoing_bytes)
        try:
            self._sent(self.transport.send_now(self._outgoing))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._broken(error)
            return
        if self._outgoing and self._nursery is not None:
            self._drainer = True
            self._nursery.start_soon(self._drain)

    @property
    def must_wait(self) -> bool:
        """The peer owes us too much to be read on."""
        return self.outgoing_bytes > self._limits.pause_bytes or self._deferred > self._limits.max_deferred

    async def relief(self) -> None:
        """Waits until the peer may be read again."""
        self.flush()
        while self.must_wait:
            self._relief = trio.Event()
            await self._relief.wait()

    def ended(self) -> None:
        """The connection is over: waiting requests fail, callbacks run."""
        self.closed = True
        self._outgoing.clear()
        for waiter in self.connection.abandon():
            if isinstance(waiter, _Waiter):
                waiter.answered.set()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # one owner's bug must not keep the others from learning
                _log.exception("%s: callback at close failed", self.peer_text)

    # inside

    def _queue(self, buffers: list[Buffer]) -> None:
        if self.closed:
            return
        self._outgoing += buffers
        for buffer in buffers:
            self.outgoing_bytes += len(buffer)
        if self.outgoing_bytes > self._limits.max_outgoing_bytes:
            self._enforce_bound()
        elif not (self.in_batch or self._drainer):
            self._wake(self)

    def _enforce_bound(self) -> None:
        self.flush()
        if self.outgoing_bytes > self._limits.max_outgoing_bytes:
            _log.warning(
                "%s: closed, it does not read: %d bytes wait for it", self.peer_text, self.outgoing_bytes
            )
            self.close()

    async def _drain(self) -> None:
        try:
            while self._outgoing:
                self._sent(await self.transport.send_some(self._outgoing))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._broken(error)
        finally:
            self._drainer = False

    async def _run_deferred(self, function: Callable[..., Awaitable[Any]], args: tuple[object, ...]) -> None:
        try:
            await function(*args)
        except (RemoteClosed, RemoteTimeout, ProtocolError) as error:
            _log.info("%s: %s", self.peer_text, error)
        except Exception:  # a bug in work for one request must not end the connection
            _log.exception("%s: deferred work failed", self.peer_text)
        finally:
            self._deferred -= 1
            self._relieve()

    def _sent(self, count: int) -> None:
        if count:
            self.outgoing_bytes -= count
            self.stirred = True
            self._relieve()

    def _relieve(self) -> None:
        if self._relief is not None and not self.must_wait:
            self._relief.set()
            self._relief = None

    def _broken(self, error: Exception) -> None:
        _log.debug("%s: cannot write: %s", self.peer_text, error)
        self.close()


def address_text(address: tuple[str, int]) -> str:
    """ "ip:port", an IPv6 address in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
