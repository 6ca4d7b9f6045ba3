"""TLS over another transport: bytes go through OpenSSL in memory, the transport below does all I/O.

A connection has one reader and one writer at a time. At most ENCRYPTED_BYTES are encrypted ahead of the
socket: the buffers they came from stay with the session until all of them left.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Awaitable, Callable

import trio

from broker.net.transport import SEND_SIZE, Buffer, Transport, drop_front, front
from broker.net.turns import Pace
from codec.errors import RemoteProtocolError

RECORD_BYTES = 16 * 1024
"""The most plain bytes of one TLS record."""
ENCRYPTED_BYTES = SEND_SIZE - RECORD_BYTES
HANDSHAKE_BYTES = 256 * 1024
"""The most that a peer sends in its handshake: certificates have a few KiB each."""
UNSENT_BYTES = 1024 * 1024
"""A peer that causes more answers of the TLS layer without reading them is disconnected."""

ALERT_SECONDS = 1.0
"""The longest time to wait for a peer to leave after an alert."""

InThread = Callable[[Callable[[], bool]], Awaitable[bool]]


class TlsTransport:
    """The server's end of one TLS connection, over `inner`, which it closes."""

    def __init__(self, inner: Transport, context: ssl.SSLContext) -> None:
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._encrypted: list[Buffer] = []
        self._taken = 0
        self._ended = False

    async def handshake(self, data: bytes, in_thread: InThread) -> None:
        """Shake hands with a peer that sent `data`. RemoteProtocolError; OSError and trio's as the inner.

        All steps are done by `in_thread`: by what the peer chooses, any may sign, agree on a key or check a
        certificate.
        """
        received = 0
        while True:
            received += len(data)
            if not data or received > HANDSHAKE_BYTES:
                raise RemoteProtocolError(
                    "it ended the TLS handshake" if not data else "its TLS handshake is too long"
                )
            self._incoming.write(data)
            try:
                finished = await in_thread(self._step)
            except ssl.SSLError as error:
                await self._alert()
                raise RemoteProtocolError(f"TLS handshake failed: {reason_of(error)}") from None
            if self._outgoing.pending:
                await self._send_own()
            if finished:
                return
            data = await self._inner.receive()

    async def receive(self, pace: Pace | None = None) -> bytes:
        while True:
            if data := self._decrypt():
                return data
            if self._ended:
                return b""
            data = await self._inner.receive(pace)
            if data:
                self._incoming.write(data)
            else:
                self._ended = True  # peers of Java often leave without a last TLS message

    def send_now(self, buffers: list[Buffer]) -> int:
        if not self._encrypted:
            self._encrypt(buffers)
        self._inner.send_now(self._encrypted)
        return self._done(buffers)

    async def send_some(self, buffers: list[Buffer]) -> int:
        if not self._encrypted:
            self._encrypt(buffers)
        while self._encrypted:
            await self._inner.send_some(self._encrypted)
        return self._done(buffers)

    async def close(self) -> None:
        if not self._encrypted:
            # raises because the peer has not closed yet
            with contextlib.suppress(ssl.SSLError, ValueError):
                self._tls.unwrap()
            self._send_last()
        await self._inner.close()

    def _step(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def _send_own(self) -> None:
        own: list[Buffer] = [self._outgoing.read()]
        self._inner.send_now(own)
        while own:
            await self._inner.send_some(own)

    async def _alert(self) -> None:
        """Send the alert of a failed handshake, and read on until the peer has it: closing a connection with
        unread bytes would reset it, and the peer would not learn the reason."""
        await self._send_own()
        received = 0
        with trio.move_on_after(ALERT_SECONDS):
            while received < HANDSHAKE_BYTES and (data := await self._inner.receive()):
                received += len(data)

    def _send_last(self) -> None:
        """Send an alert, if the kernel accepts it now."""
        if self._outgoing.pending:
            with contextlib.suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                self._inner.send_now([self._outgoing.read()])

    def _decrypt(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._tls.read(RECORD_BYTES):
                parts.append(part)
            self._ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            if not parts:
                self._send_last()
                raise RemoteProtocolError(f"TLS: {reason_of(error)}") from None
        if self._outgoing.pending:
            self._answer_peer()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _answer_peer(self) -> None:
        """Send, now or with the next bytes, what the TLS layer answers by itself."""
        self._encrypted.append(self._outgoing.read())
        if sum(map(len, self._encrypted)) > UNSENT_BYTES:
            raise RemoteProtocolError("TLS: it does not read the answers that it asks for")
        if not self._taken:
            self._inner.send_now(self._encrypted)

    def _encrypt(self, buffers: list[Buffer]) -> None:
        size = sum(map(len, buffers))
        chunk = buffers if size <= ENCRYPTED_BYTES else front(buffers, ENCRYPTED_BYTES)
        data = chunk[0] if len(chunk) == 1 else b"".join(chunk)
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise trio.BrokenResourceError from error
        self._taken = len(data)
        self._encrypted.append(self._outgoing.read())

    def _done(self, buffers: list[Buffer]) -> int:
        """Remove the buffers whose bytes have left, once all of them have."""
        if self._encrypted:
            return 0
        taken, self._taken = self._taken, 0
        drop_front(buffers, taken)
        return taken


def reason_of(error: ssl.SSLError) -> str:
    """Return the reason in words: OpenSSL's is in capitals, with underscores."""
    return getattr(error, "verify_message", None) or (error.reason or str(error)).replace("_", " ").lower()


def broken_reason(error: trio.BrokenResourceError) -> str:
    """Return the reason for which a TLS stream of trio broke."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return reason_of(cause)
    return "the peer closed the connection during the handshake: it may not accept TLS"
