"""Acceptance of TLS: detection by the first byte of a connection, handshakes, and reloading of changed files.

0x16 opens a TLS handshake; a plain frame begins with its length, and so with 0x00 or 0x01 (Java
`NettyRemotingServer.HandshakeHandler`). Handshakes are limited in time and number: if there are too many, the
oldest one is ended, so that peers that stop in the middle cannot keep others out.

Files are compared every WATCH_SECONDS, and a change applies to new connections. While the new files are not
usable, the server keeps using the old ones.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import trio

from rmqcli.broker.config.tls import TlsConfig, load_tls
from rmqcli.broker.disk import REAL, Disk, FileState
from rmqcli.broker.errors import ConfigError
from rmqcli.broker.net.limits import Newcomers
from rmqcli.broker.net.tls.context import context_of, peer_context, server_context
from rmqcli.broker.net.tls.transport import TlsTransport
from rmqcli.broker.net.transport import Transport
from rmqcli.codec.errors import RemoteProtocolError

TLS_HANDSHAKE = b"\x16"
HANDSHAKE_SECONDS = 10.0
"""The timeout of Netty's SslHandler."""
MOST_HANDSHAKES = 512
WATCH_SECONDS = 0.5

InThread = Callable[..., Any]

_log = logging.getLogger("rmqcli.broker.net.tls")


class TlsAcceptor:
    """TLS of one server. `entries` have Java's names (`TlsConfig`); without any, TLS is refused.

    With `is_alone`, the name server is in this process and has the same entries, so it may refuse TLS as
    well. Without a certificate, `generate` returns one and its key in PEM for the first client that opens a
    handshake.
    """

    def __init__(
        self,
        entries: Mapping[str, str] = {},
        disk: Disk = REAL,
        in_thread: InThread = trio.to_thread.run_sync,
        *,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        most_handshakes: int = MOST_HANDSHAKES,
        is_alone: bool = False,
        generate: Callable[[], bytes] | None = None,
    ) -> None:
        self.config = TlsConfig()
        self._peers: ssl.SSLContext | None = None
        self._is_alone = is_alone
        self._generate = generate
        self._entries = entries
        self._disk = disk
        self._in_thread = in_thread
        self._handshake_seconds = handshake_seconds
        self._context: ssl.SSLContext | None = None
        self._files: dict[Any, FileState | None] = {}
        self._handshakes = Newcomers(most_handshakes, trio.CancelScope.cancel)
        self._one = trio.Lock()

    @property
    def refuses_plain(self) -> bool:
        return self.config.mode == "enforcing"

    @property
    def peers(self) -> ssl.SSLContext | None:
        """The context of connections to other nodes; None for plain ones."""
        return self.to_itself if self._is_alone else self._peers

    @property
    def to_itself(self) -> ssl.SSLContext | None:
        """The context of connections of this process to its own server; None also while that refuses TLS."""
        return None if self._context is None else self._peers

    @property
    def is_watching(self) -> bool:
        """True if there are files that may change."""
        return bool(self._files)

    async def load(self) -> None:
        """Read settings and files at startup. Raises ConfigError."""
        if self._entries:
            await self._in_thread(self._load)

    async def watch(self) -> None:
        """Run the service that reloads changed files."""
        while True:
            await trio.sleep(WATCH_SECONDS)
            await self._in_thread(self._follow)

    async def secured(self, transport: Transport, data: bytes) -> TlsTransport:
        """Return the TLS transport of a connection whose first bytes, `data`, open a handshake.

        Raises RemoteProtocolError if TLS is not accepted, or if the handshake failed or took too long.
        """
        if self._context is None and self._generate is not None and self.config.mode != "disabled":
            self._context = await self._in_turn(self._generated)
        if self._context is None:
            wanted = (
                "tls.server.mode=disabled"
                if self.config.mode == "disabled"
                else "tls.server.certPath is not set"
            )
            raise RemoteProtocolError(f"it speaks TLS, which is not accepted: {wanted}")
        secured = TlsTransport(transport, self._context)
        with trio.CancelScope(deadline=trio.current_time() + self._handshake_seconds) as scope:
            with self._handshakes.counting(scope):
                await secured.handshake(data, self._in_turn)
            return secured
        if trio.current_time() >= scope.deadline:
            raise RemoteProtocolError(f"its TLS handshake took more than {self._handshake_seconds:g} s")
        raise RemoteProtocolError(f"its TLS handshake made room: {self._handshakes.most} were unfinished")

    async def _in_turn(self, step: Any) -> Any:
        """Run a step in a worker thread, one at a time: a step may take milliseconds."""
        async with self._one:
            return await self._in_thread(step)

    def _generated(self) -> ssl.SSLContext | None:
        # Another handshake may have had it generated while this one waited for its turn.
        if self._context is None and self._generate is not None:
            return _negotiating(context_of(self._generate()))
        return self._context

    def _load(self) -> None:
        config, unknown = load_tls(self._entries, self._disk)
        self._files = self._states(config)
        for name in unknown:
            _log.warning("unknown property %s is ignored", name)
        context, peers = server_context(config, self._disk), peer_context(config, self._disk)
        if context is not None:
            context = _negotiating(context)
        self.config, self._context, self._peers = config, context, peers

    def _states(self, config: TlsConfig) -> dict[Any, FileState | None]:
        return {path: self._disk.state(path) for path in config.files}

    def _follow(self) -> None:
        found = {path: self._disk.state(path) for path in self._files}
        if found == self._files:
            return
        self._files = found  # set before loading: unusable files are tried, and logged, once per change
        try:
            self._load()
        except ConfigError as error:
            _log.error("%s; new connections still get the previous certificate", error)
        else:
            _log.info("loaded %s again", ", ".join(map(str, self._files)))


def _negotiating(context: ssl.SSLContext) -> ssl.SSLContext:
    """Accept HTTP/2 from clients that offer it: otherwise gRPC clients end the handshake, and those that
    connect to the wrong port would not learn about it.
    """
    context.set_alpn_protocols(["h2"])
    return context
