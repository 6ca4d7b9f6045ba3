"""Connections to other nodes: one per address, opened at the first request and reopened after a loss."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import trio

from rmqcli.broker.errors import PeerUnreachable, RemoteClosed, RemoteTimeout
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.supervisor import Supervisor
from rmqcli.codec.ids import split_address
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.signature import Signer
from rmqcli.codec.remoting.tls import reason_of

CONNECT_SECONDS = 3.0


class Peers:
    """Sends requests to other nodes while `run` runs. `tls` returns the context of new connections, None for
    plain ones; `signer` signs the requests."""

    def __init__(
        self,
        name: str,
        network: Network = TCP,
        supervisor: Supervisor | None = None,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
        signer: Signer | None = None,
    ) -> None:
        self._server = Server({}, name=name, supervisor=supervisor)
        self._network = network
        self._tls = tls
        self._signer = signer
        self._sessions: dict[str, Session] = {}
        self._connecting: dict[str, trio.Lock] = {}
        self._answered: set[str] = set()

    @property
    def is_running(self) -> bool:
        return self._server.is_running

    async def run(self, *, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the connections open until cancelled, then close them."""
        await self._server.serve(task_status=task_status)

    async def request(self, address: str, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Send a request to `address` ("host:port") and return the reply, whatever its code.

        Raises PeerUnreachable, RemoteClosed, or RemoteTimeout after `timeout_s` seconds, which include the
        time to connect.
        """
        if self._signer is not None:
            self._signer.sign(command)
        deadline = trio.current_time() + timeout_s
        with trio.move_on_at(deadline):
            session = await self._session(address)
            try:
                reply = await session.request(command, deadline - trio.current_time())
            except RemoteClosed as error:
                if address in self._answered or self._tls() is not None:
                    raise
                raise RemoteClosed(f"{error}; if it accepts only TLS, set tls.enable=true") from None
            self._answered.add(address)
            return reply
        raise RemoteTimeout(f"{address} did not answer code {command.code} in {timeout_s:g} s")

    async def _session(self, address: str) -> Session:
        # Requests that arrive during an attempt to connect share its connection.
        async with self._connecting.setdefault(address, trio.Lock()):
            session = self._sessions.get(address)
            if session is None or session.closed:
                stream = await open_peer(self._network, address, self._tls())
                peer = split_address(address)
                session = self._sessions[address] = await self._server.adopt(stream, peer)
                session.is_known = True  # we opened it
            return session


async def open_peer(network: Network, address: str, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Open a connection to `address` ("host:port"), over TLS if there is a context. Raises
    PeerUnreachable."""
    try:
        host, port = split_address(address)
        with trio.fail_after(CONNECT_SECONDS):
            stream = await network.open_stream(host, port)
            return stream if tls is None else await _secured(stream, host, tls)
    except (OSError, ValueError, trio.TooSlowError) as error:
        raise PeerUnreachable(f"cannot connect to {address}: {error or 'too slow'}") from error
    except trio.BrokenResourceError as error:
        raise PeerUnreachable(f"cannot connect to {address} by TLS: {_reason(error)}") from error


async def _secured(stream: trio.abc.Stream, host: str, tls: ssl.SSLContext) -> trio.abc.Stream:
    secured = trio.SSLStream(stream, tls, server_hostname=host, https_compatible=True)
    try:
        await secured.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(secured)
        raise
    return secured


def _reason(error: trio.BrokenResourceError) -> str:
    cause = error.__cause__
    # Which of the two it is for a peer that closes without an alert differs by versions of Python and OpenSSL.
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return reason_of(cause)
    return "the peer closed the connection during the handshake: it may not accept TLS"
