"""The server of gRPC connections: accepts them like one of remoting, plain or over TLS on the same port."""

from __future__ import annotations

from functools import partial

import trio

from rmqcli.broker.net.foreign import HTTP1
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.net.transport import Transport
from rmqcli.broker.net.turns import Pace, Turns
from rmqcli.broker.proxy.http2 import (
    LONG_READ,
    NONE_TOGETHER,
    STALLED_SECONDS,
    Grants,
    Http2Session,
    Serve,
    Stalls,
    Together,
)
from rmqcli.broker.supervisor import Services, Supervisor
from rmqcli.codec.errors import RemoteProtocolError

PING_SECONDS = 45.0
HINT = "this port serves gRPC clients of RocketMQ 5, over HTTP/2"


class GrpcServer(Server):
    """Carries out calls by `serve`, those that `together` accepts together."""

    def __init__(
        self,
        serve: Serve,
        *,
        limits: ServerLimits | None = None,
        supervisor: Supervisor | None = None,
        turns: Turns | None = None,
        tls: TlsAcceptor | None = None,
        together: Together = NONE_TOGETHER,
    ) -> None:
        super().__init__(
            {}, limits=limits, name="grpc", supervisor=supervisor, turns=turns, tls=tls, hint=lambda: HINT
        )
        self._serve_call = serve
        self._together = together
        self._grants = Grants()
        self._stalls = Stalls()

    def _start(self, services: Services) -> None:
        super()._start(services)
        services.start("grpc pings", self._ping)
        services.start("grpc stalls", partial(self._stalls.run, self._turns))

    def _session(self, transport: Transport, peer: tuple[str, int]) -> Session:
        session = Http2Session(
            transport,
            peer=peer,
            limits=self._limits.session,
            wake=self._request_flush,
            turns=self._turns,
            server=self._name,
            serve=self._serve_call,
            grants=self._grants,
            stalls=self._stalls,
            together=self._together,
        )
        self.sessions.add(session)
        self._newcomers.add(session)
        return session

    async def _read(self, session: Session) -> None:
        assert isinstance(session, Http2Session)
        pace = self._turns.pace()
        is_new, was_long = True, False
        with trio.move_on_after(STALLED_SECONDS) as scope:
            data = await self._first(session)
        if scope.cancelled_caught:
            raise RemoteProtocolError(f"its first bytes did not come within {STALLED_SECONDS:g} s")
        if data[:4] in HTTP1:
            await self._refuse_http(session, data)
        session.http2.greet()
        while data:
            session.is_active = session.is_heard = True
            # Clients that send little go first, even before many clients that each send much for the first
            # time.
            if len(data) >= LONG_READ and not was_long:
                await pace.next()
            pace.begin()
            await session.feed(data, pace)
            if is_new and session.is_known:
                is_new = False
                self._newcomers.discard(session)
            if session.is_congested:
                await session.wait_for_room()
            was_long = len(data) >= LONG_READ or pace.waits > 0
            data = await self._next(session, pace if was_long else None)

    async def _converse(self, session: Session) -> None:
        await super()._converse(session)
        if isinstance(session, Http2Session) and session.calls:
            await self._turns.next()  # the end of its calls takes as long as a turn

    async def _next(self, session: Http2Session, pace: Pace | None) -> bytes:
        if not session.http2.is_inside:
            return await session.transport.receive(pace)
        with trio.move_on_after(STALLED_SECONDS):
            return await session.transport.receive(pace)
        raise RemoteProtocolError(f"the rest of a frame did not come within {STALLED_SECONDS:g} s")

    async def _ping(self) -> None:
        while True:
            await trio.sleep(PING_SECONDS)
            for session in list(self.sessions):
                if isinstance(session, Http2Session):
                    session.ping()
