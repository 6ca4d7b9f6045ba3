"""A server that accepts connections, and reads and answers each one in a separate task.

The task reads the available bytes, decodes all complete frames and passes them to the dispatcher. A protocol
error of the peer ends only its own connection, and so does a programming error outside of handlers.

Limits (`ServerLimits`): simultaneous connections, seconds without a byte in either direction, bytes of
incomplete frames over all connections, and the limits of each session. If there are too many connections, the
oldest one whose peer has sent no admitted request is closed.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial

import trio

from rmqcli.broker.errors import RemoteClosed
from rmqcli.broker.net.busy_poll import BusyPoll
from rmqcli.broker.net.dispatch import NO_RUNS, Batches, Dispatcher, Gate, HandlerTable, RunTable
from rmqcli.broker.net.fast_failure import FastFailure
from rmqcli.broker.net.foreign import OFFERS_HTTP2, refuse_http, speaks_http
from rmqcli.broker.net.limits import Newcomers, PartialFrames, ServerLimits
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.tls.acceptor import TLS_HANDSHAKE, TlsAcceptor
from rmqcli.broker.net.transport import EAGER_BYTES, SocketTransport, StreamTransport, Transport, read_buffer
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.supervisor import Services, Supervisor, open_services
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.remoting.connection import ReceiveError
from rmqcli.codec.remoting.frame import NO_DIRECT, DirectReaders

_log = logging.getLogger("rmqcli.broker.net.server")

# 64 connections that were accepted in one step took 5 ms of the event loop.
ACCEPTS_PER_WAKE = 8
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
OUT_OF_RESOURCES_PAUSE_SECONDS = 0.1


class Server:
    """Serves handlers on any number of listening sockets. `sessions` are the open connections.

    Requests that a reader of `direct` matches reach their handler with a typed `header`. `runs`,
    `batches`, `gate` and `fast_failure` are as in `Dispatcher`. Services are named after `name`. `turns`
    are those of the event loop. `tls` must be loaded. `hint` returns the line for clients that speak
    HTTP. Without `busy_poll`, the loop sleeps whenever there is nothing to do.
    """

    def __init__(
        self,
        handlers: HandlerTable,
        *,
        limits: ServerLimits | None = None,
        name: str = "broker",
        batches: Batches | None = None,
        direct: DirectReaders = NO_DIRECT,
        runs: RunTable = NO_RUNS,
        gate: Gate | None = None,
        supervisor: Supervisor | None = None,
        turns: Turns | None = None,
        fast_failure: FastFailure | None = None,
        tls: TlsAcceptor | None = None,
        busy_poll: BusyPoll | None = None,
        hint: Callable[[], str] = lambda: "HTTP is not served on this port",
    ) -> None:
        self.sessions: set[Session] = set()
        self._turns = turns or Turns()
        self._dispatcher = Dispatcher(handlers, self._turns, runs, batches, gate, fast_failure)
        self._limits = limits or ServerLimits()
        self._name = name
        self._direct = direct
        self._supervisor = supervisor
        self._tls = tls or TlsAcceptor()
        self._busy_poll = busy_poll
        self._hint = hint
        self._has_hinted = False
        self._nursery: trio.Nursery | None = None
        self._partial_frames = PartialFrames(self._limits.max_partial_bytes)
        self._newcomers = Newcomers(self._limits.max_connections, Session.close)
        self._read_buffer = read_buffer()
        self._unflushed: set[Session] = set()
        self._flush_wanted = trio.Event()

    @property
    def is_running(self) -> bool:
        return self._nursery is not None

    async def serve(
        self,
        listeners: Sequence[socket.socket] = (),
        *,
        task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled, then close all connections and listeners. `nursery.start` returns the
        server."""
        try:
            async with open_services(self._supervisor) as services:
                self._nursery = services.nursery
                self._start(services)
                for listener in listeners:
                    accept = partial(self._accept, listener, services.nursery)
                    services.start(f"{self._name} accept", accept)
                task_status.started(self)
                await trio.sleep_forever()
        finally:
            self._nursery = None
            for listener in listeners:
                trio.lowlevel.notify_closing(listener)
                listener.close()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Serve one connection over any trio stream until it ends."""
        async with open_services(self._supervisor) as services:
            self._start(services)
            await self.serve_transport(StreamTransport(stream))

    async def serve_transport(self, transport: Transport, peer: tuple[str, int] = ("127.0.0.1", 1)) -> None:
        """Serve one connection until it ends. Bytes sent outside of a batch wait until `serve` runs."""
        await self._run(self._session(transport, peer))

    async def adopt(self, stream: trio.abc.Stream, peer: tuple[str, int]) -> Session:
        """Serve a connection that this node opened, like an accepted one. Raises RemoteClosed unless `serve`
        runs."""
        if self._nursery is None:
            await trio.aclose_forcefully(stream)
            raise RemoteClosed(f"{self._name} is not running")
        session = self._session(StreamTransport(stream), peer)
        await self._nursery.start(self._run, session)
        return session

    def _start(self, services: Services) -> None:
        services.start(f"{self._name} flush", self._flush)
        services.start(f"{self._name} idle connections", self._close_idle)
        services.start(f"{self._name} incomplete frames", self._partial_frames.close_stalled)
        if self._busy_poll is not None:
            services.start(f"{self._name} busy poll", self._busy_poll.run)
        if self._tls.is_watching:
            services.start(f"{self._name} certificates", self._tls.watch)

    async def _accept(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                self._accept_waiting(listener, nursery)
            except BlockingIOError:
                continue
            except OSError as error:
                # The socket stays readable, so without a pause the loop would spin. Any other error is of one
                # connection, which ended before it was accepted.
                if error.errno in OUT_OF_RESOURCES:
                    _log.error("%s: cannot accept: %s", self._name, error)
                    await trio.sleep(OUT_OF_RESOURCES_PAUSE_SECONDS)

    def _accept_waiting(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        for _ in range(ACCEPTS_PER_WAKE):
            sock, peer = listener.accept()
            if refusal := self._refusal(sock):
                _log.warning("%s: connection of %s refused: %s", self._name, peer, refusal)
                sock.close()
                continue
            session = self._session(SocketTransport(sock, self._read_buffer), (peer[0], peer[1]))
            nursery.start_soon(self._run, session)

    def _refusal(self, sock: socket.socket) -> str:
        """Return the reason to refuse a connection; empty if there is room, or another one was closed for
        it."""
        if len(self.sessions) >= self._limits.max_connections and not self._newcomers.make_room():
            return f"{len(self.sessions)} are open"
        if sock.fileno() > self._limits.max_descriptor and not self._newcomers.make_room():
            return (
                f"{sock.fileno()} files and connections are open, raise the limit of the process (ulimit -n)"
            )
        return ""

    def _session(self, transport: Transport, peer: tuple[str, int]) -> Session:
        session = Session(
            transport,
            peer=peer,
            limits=self._limits.session,
            wake=self._request_flush,
            direct=self._direct,
            turns=self._turns,
            server=self._name,
        )
        self.sessions.add(session)
        self._newcomers.add(session)
        return session

    async def _run(
        self, session: Session, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            async with trio.open_nursery() as nursery:
                session.attach(nursery)
                task_status.started()
                try:
                    await self._converse(session)
                finally:
                    session.detach()
                nursery.cancel_scope.cancel()
        except Exception:  # a programming error ends this connection, not the server
            _log.exception("%s: %s closed", self._name, session.peer_text)
        finally:
            self.sessions.discard(session)
            self._newcomers.discard(session)
            self._unflushed.discard(session)
            self._partial_frames.forget(session)
            with trio.CancelScope(shield=True):
                await session.transport.close()
            session.ended()

    async def _converse(self, session: Session) -> None:
        try:
            try:
                await self._read(session)
            except ReceiveError as error:
                # What came before the broken frame is whole, and is answered.
                await self._dispatcher.handle(session, error.commands)
                raise
        except RemoteProtocolError as error:
            _log.info("%s: %s closed: %s", self._name, session.peer_text, error)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            _log.debug("%s: %s lost: %s", self._name, session.peer_text, error)

    async def _read(self, session: Session) -> None:
        data = await self._first(session)
        if speaks_http(data):
            await self._refuse_http(session, data)
        # Bound once, because the loop runs for each read of the connection.
        receive = session.transport.receive
        decode = session.connection.receive
        handle = self._dispatcher.handle
        partial_frames, is_partial = self._partial_frames, False
        more = session.connection.more
        pace = self._dispatcher.pace()
        busy_poll = self._busy_poll
        is_new = True
        while data:
            # A flag, because a clock for each read would cost more: `_close_idle` derives the time from it.
            session.is_active = True
            if busy_poll is not None:
                busy_poll.note_read()
            if is_partial:
                partial_frames.forget(session)
            pace.begin()
            commands = decode(data)
            while commands:
                await handle(session, commands, pace if len(commands) > 1 else None)
                if commands := more():
                    await pace.step()
            if is_new and session.is_known:
                is_new = False
                self._newcomers.discard(session)
            is_partial = session.connection.held > 0
            if is_partial:
                partial_frames.update(session)
            # Elapsed time is not a criterion: on a busy machine, even a short request of a modest client
            # takes long.
            is_long = len(data) >= EAGER_BYTES or pace.waits > 0
            data = await receive(pace if is_long else None)
        decode(b"")  # the end of the stream: raises ReceiveError inside a frame

    async def _first(self, session: Session) -> bytes:
        """Return the first plain bytes of a connection, after a TLS handshake if its first byte opens one."""
        data = await session.transport.receive()
        if data[:1] == TLS_HANDSHAKE:
            try:
                session.transport = await self._tls.secured(session.transport, data)
            except RemoteProtocolError as error:
                if OFFERS_HTTP2 in data:
                    self._warn_of_http(session, str(error))
                raise
            return await session.transport.receive()
        if data and self._tls.refuses_plain:
            raise RemoteProtocolError("it does not speak TLS, which is required (tls.server.mode=enforcing)")
        return data

    async def _refuse_http(self, session: Session, data: bytes) -> None:
        self._warn_of_http(session, "it speaks HTTP")
        await refuse_http(session.transport, data, self._hint())
        raise RemoteProtocolError("it speaks HTTP")

    def _warn_of_http(self, session: Session, problem: str) -> None:
        if not self._has_hinted:
            self._has_hinted = True
            _log.warning("%s: %s: %s; %s", self._name, session.peer_text, problem, self._hint())

    def _request_flush(self, session: Session) -> None:
        self._unflushed.add(session)
        self._flush_wanted.set()

    async def _flush(self) -> None:
        while True:
            await self._flush_wanted.wait()
            self._flush_wanted = trio.Event()
            self._flush_all()

    def _flush_all(self) -> None:
        """Flush all sessions. This is a separate function so that no local variable keeps ended sessions
        alive until the next flush."""
        sessions, self._unflushed = self._unflushed, set()
        for session in sessions:
            session.flush()

    async def _close_idle(self) -> None:
        silence = self._limits.idle_seconds
        while True:
            await trio.sleep(silence / 12)
            now = trio.current_time()
            for session in [one for one in self.sessions if one.silent_since(now) <= now - silence]:
                _log.info("%s: %s closed: silent for %g s", self._name, session.peer_text, silence)
                session.close()
