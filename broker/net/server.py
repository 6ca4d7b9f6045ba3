"""Accepts connections and answers requests from a table of handlers.

One task per connection. It reads as much as there is, decodes all whole frames, calls the handlers in order, and the
replies of a batch leave in one write; those of a long one in several, so that the peer has work while we do ours. A handler is a
plain function: it returns the reply, or its whole (short) frame, or None when there is none (yet). What a handler raises is
answered and logged, never more. A peer that breaks the protocol loses its own connection, nobody else's.

Limits: connections at a time, silence (`idle_seconds` without a byte either way), bytes of frames that are not whole yet
(`max_half_frames`, over all connections), and the session's own bounds.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import trio

from broker.errors import Refusal, RemoteClosed
from broker.net.half_frames import HalfFrames
from broker.net.session import Session, SessionLimits
from broker.net.transport import SocketTransport, StreamTransport, Transport, read_buffer
from broker.supervisor import Services, Supervisor, open_services
from codec.codes import RPC_ONEWAY, RPC_RESPONSE, ResponseCode
from codec.errors import CodecError, RemoteProtocolError
from codec.remoting.connection import ReceiveError
from codec.remoting.frame import NO_DIRECT, DirectReaders, RemotingCommand, encode_frame

__all__ = [
    "Batches",
    "Handler",
    "HandlerTable",
    "Server",
    "ServerLimits",
    "listen",
    "listener_address",
    "serve",
    "unsupported",
]

Handler = Callable[[Session, RemotingCommand], RemotingCommand | bytes | None]
HandlerTable = Mapping[int, Handler]
RunHandler = Callable[[Session, Sequence[RemotingCommand]], Sequence[bytes]]
"""Handles as many as it likes of the requests that come next, whatever their codes are, in order; returns a frame for each."""
RunTable = Mapping[int, RunHandler]
NO_RUNS: RunTable = {}

_log = logging.getLogger("broker.net.server")

TLS_HANDSHAKE = 0x16
ACCEPTS_PER_WAKE = 64
REPLIES_PER_WRITE = 32
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
NO_DESCRIPTORS_PAUSE_SECONDS = 0.1


class ServerLimits(NamedTuple):
    """Bounds of one server. `idle_seconds` is serverChannelMaxIdleTimeSeconds of NettyServerConfig."""

    max_connections: int = 16384
    idle_seconds: float = 120.0
    session: SessionLimits = SessionLimits()
    max_half_frames: int = 512 * 1024 * 1024


def listen(host: str, port: int, backlog: int = 1024) -> socket.socket:
    """A listening socket on an address of this machine, port 0 for any free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.create_server((host, port), family=family, backlog=backlog)
    sock.setblocking(False)
    return sock


def listener_address(listener: socket.socket) -> tuple[str, int]:
    """Host and port it is bound to."""
    host, port = listener.getsockname()[:2]
    return host, port


class Batches(Protocol):
    """Hears when requests are handled together: what can wait until their replies are on the way waits for the end."""

    def begin_batch(self) -> None: ...

    def end_batch(self) -> None: ...


class _Unheard:
    def begin_batch(self) -> None: ...

    def end_batch(self) -> None: ...


async def serve(
    listeners: Sequence[socket.socket],
    handlers: HandlerTable,
    *,
    limits: ServerLimits | None = None,
    name: str = "broker",
    batches: Batches | None = None,
    direct: DirectReaders = NO_DIRECT,
    runs: RunTable = NO_RUNS,
    supervisor: Supervisor | None = None,
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves until cancelled, then closes every connection and listener; `nursery.start` gives the server."""
    server = Server(
        handlers, limits=limits, name=name, batches=batches, direct=direct, runs=runs, supervisor=supervisor
    )
    await server.serve(listeners, task_status=task_status)


def unsupported(_session: Session, request: RemotingCommand) -> RemotingCommand:
    """Java's answer to a code without a handler."""
    return request.reply(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported"
    )


class Server:
    """A table of handlers behind any number of listening sockets. `sessions` are the connections alive now.

    Requests that a reader of `direct` is for come to their handler with a typed `header`. One that `runs` has a handler for
    is offered to that first, with those behind it, unless there are none.
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
        supervisor: Supervisor | None = None,
    ) -> None:
        self.sessions: set[Session] = set()
        self._handlers = handlers
        self._limits = limits or ServerLimits()
        self._name = name
        self._batches = batches or _Unheard()
        self._direct = direct
        self._runs = runs
        self._supervisor = supervisor
        self._nursery: trio.Nursery | None = None
        self._half_frames = HalfFrames(self._limits.max_half_frames)
        self._read_buffer = read_buffer()
        self._unflushed: set[Session] = set()
        self._flush_wanted = trio.Event()

    @property
    def is_running(self) -> bool:
        return self._nursery is not None

    async def serve(
        self,
        listeners: Sequence[socket.socket],
        *,
        task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until cancelled; then every connection is closed, and the listeners too."""
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

    async def serve_stream(self, stream: trio.abc.Stream, peer: tuple[str, int] = ("127.0.0.1", 1)) -> None:
        """One connection over any trio stream, until it ends."""
        async with open_services(self._supervisor) as services:
            self._start(services)
            await self._run(self._session(StreamTransport(stream), peer, ("127.0.0.1", 0)))

    def _start(self, services: Services) -> None:
        services.start(f"{self._name} flush", self._flusher)
        services.start(f"{self._name} idle connections", self._close_idle)

    async def adopt(self, stream: trio.abc.Stream, peer: tuple[str, int]) -> Session:
        """A connection that we made ourselves, served like those that came in; only while `serve` runs."""
        if self._nursery is None:
            raise RemoteClosed(f"{self._name} is not running")
        session = self._session(StreamTransport(stream), peer, ("", 0))
        await self._nursery.start(self._run, session)
        return session

    async def _accept(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                self._accept_waiting(listener, nursery)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in NO_DESCRIPTORS:
                    _log.error("%s: cannot accept: %s", self._name, error)
                    await trio.sleep(NO_DESCRIPTORS_PAUSE_SECONDS)

    def _accept_waiting(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        for _ in range(ACCEPTS_PER_WAKE):
            sock, peer = listener.accept()
            if len(self.sessions) >= self._limits.max_connections:
                _log.warning(
                    "%s: connection of %s refused: %d are open", self._name, peer, len(self.sessions)
                )
                sock.close()
                continue
            local = sock.getsockname()
            session = self._session(
                SocketTransport(sock, self._read_buffer), (peer[0], peer[1]), (local[0], local[1])
            )
            nursery.start_soon(self._run, session)

    def _session(self, transport: Transport, peer: tuple[str, int], local: tuple[str, int]) -> Session:
        session = Session(
            transport,
            peer=peer,
            local=local,
            limits=self._limits.session,
            wake=self._wake_flusher,
            direct=self._direct,
        )
        self.sessions.add(session)
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
            self._unflushed.discard(session)
            self._half_frames.forget(session)
            with trio.CancelScope(shield=True):
                await session.transport.close()
            session.ended()

    async def _converse(self, session: Session) -> None:
        try:
            try:
                await self._read(session)
            except ReceiveError as error:
                await self._handle_batch(session, error.commands)
                raise
        except RemoteProtocolError as error:
            _log.info("%s: %s closed: %s", self._name, session.peer_text, error)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            _log.debug("%s: %s lost: %s", self._name, session.peer_text, error)

    async def _read(self, session: Session) -> None:
        receive = session.transport.receive
        decode = session.connection.receive
        half_frames = self._half_frames
        data = await receive()
        if data[:1] == bytes((TLS_HANDSHAKE,)):
            raise RemoteProtocolError("it speaks TLS, which is not supported yet")
        while data:
            session.stirred = True
            await self._handle_batch(session, decode(data))
            half_frames.note(session)
            data = await receive()
        decode(b"")

    async def _handle_batch(self, session: Session, commands: list[RemotingCommand]) -> None:
        position = 0
        while position < len(commands):
            position = self._handle_some(session, commands, position)
            if session.must_wait:
                await session.relief()

    def _handle_some(self, session: Session, commands: list[RemotingCommand], position: int) -> int:
        """Handles some commands from `position` on and sends what they are answered; the position behind them."""
        runs = self._runs
        session.in_batch = True
        self._batches.begin_batch()
        last = min(position + REPLIES_PER_WRITE, len(commands))
        while position < last and not session.must_wait:
            run = runs.get(commands[position].code)
            if run is not None and position + 1 < last:
                taken = self._handle_run(session, run, commands[position:last])
                position += taken
                if taken:
                    continue
            self._handle(session, commands[position])
            position += 1
        session.in_batch = False
        session.flush()
        self._batches.end_batch()
        return position

    def _handle_run(self, session: Session, run: RunHandler, commands: list[RemotingCommand]) -> int:
        try:
            frames = run(session, commands)
        except Exception as error:  # as for one request, which it is taken to have been
            self._answer_failure(session, commands[0], error)
            return 1
        session.queue_replies(frames)
        return len(frames)

    def _handle(self, session: Session, command: RemotingCommand) -> None:
        flag = command.flag
        if flag & RPC_RESPONSE:
            session.answered(command)
            return
        try:
            reply = self._handlers.get(command.code, unsupported)(session, command)
            if flag & RPC_ONEWAY or reply is None:
                return
            session.queue_reply(reply if isinstance(reply, bytes) else encode_frame(reply))
        except Exception as error:  # whatever a handler raises, the connection and its other requests go on
            self._answer_failure(session, command, error)

    def _answer_failure(self, session: Session, command: RemotingCommand, error: Exception) -> None:
        if isinstance(error, Refusal):
            reply = command.reply(error.code, error.remark, error.ext_fields)
        else:
            if isinstance(error, CodecError):
                _log.info("%s: %s: code %d: %s", self._name, session.peer_text, command.code, error)
            else:
                _log.error(
                    "%s: %s: code %d failed", self._name, session.peer_text, command.code, exc_info=error
                )
            reply = command.reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        session.respond(command, reply)

    def _wake_flusher(self, session: Session) -> None:
        self._unflushed.add(session)
        self._flush_wanted.set()

    async def _flusher(self) -> None:
        while True:
            await self._flush_wanted.wait()
            self._flush_wanted = trio.Event()
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
