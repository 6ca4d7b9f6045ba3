"""TLS over another transport: bytes pass through OpenSSL in memory, and the inner transport does all I/O.

A connection has one reader and one writer at a time. At most ENCRYPTED_BYTES are encrypted ahead of the
socket; their plain buffers stay with the session until all of them were sent.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Awaitable, Callable

import trio

from rmqcli.broker.net.transport import SEND_SIZE, Buffer, Transport, drop_front, front
from rmqcli.broker.net.turns import Pace
from rmqcli.codec.errors import RemoteProtocolError

RECORD_BYTES = 16 * 1024
"""Maximum number of plain bytes of one TLS record."""
ENCRYPTED_BYTES = SEND_SIZE - RECORD_BYTES
HANDSHAKE_BYTES = 256 * 1024
"""Maximum number of bytes that a peer may send in its handshake; certificates have a few KiB each."""
UNSENT_BYTES = 1024 * 1024
"""Maximum number of bytes of unread answers of the TLS layer; a peer that causes more without reading them is
disconnected."""
ALERT_SECONDS = 1.0
"""Longest wait for a peer to disconnect after an alert."""

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
        """Do the handshake with a peer that sent `data`. Raises RemoteProtocolError, and the errors of the
        inner transport.

        All steps are done by `in_thread`: depending on the choices of the peer, any of them may sign, agree
        on a key or check a certificate.
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
                self._ended = True  # Java's peers often disconnect without a last TLS message

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
            # `unwrap` raises because the peer has not closed yet, after it has written the closing alert.
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
        """Send the alert of a failed handshake, and keep reading until the peer has it: closing a connection
        with unread bytes would reset it, and the peer would never see the reason."""
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
            # Bytes decrypted before the error are returned first; the next read raises again.
            if not parts:
                self._send_last()
                raise RemoteProtocolError(f"TLS: {reason_of(error)}") from None
        if self._outgoing.pending:
            self._answer_peer()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _answer_peer(self) -> None:
        """Send the answers that the TLS layer makes by itself, now or with the next bytes."""
        self._encrypted.append(self._outgoing.read())
        if sum(map(len, self._encrypted)) > UNSENT_BYTES:
            raise RemoteProtocolError("TLS: it does not read the answers that it asks for")
        if not self._taken:  # otherwise the task that sends is about to send these bytes as well
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
        """Remove the buffers that were encrypted once all their bytes were sent; return the number of
        bytes."""
        if self._encrypted:
            return 0
        taken, self._taken = self._taken, 0
        drop_front(buffers, taken)
        return taken


def reason_of(error: ssl.SSLError) -> str:
    """Return the reason in words; OpenSSL's has capitals and underscores."""
    return getattr(error, "verify_message", None) or (error.reason or str(error)).replace("_", " ").lower()


def broken_reason(error: trio.BrokenResourceError) -> str:
    """Return the reason why a TLS stream of trio broke."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return reason_of(cause)
    return "the peer closed the connection during the handshake: it may not accept TLS"
