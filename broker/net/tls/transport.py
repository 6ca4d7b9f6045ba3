"""TLS over another transport, which does all I/O.

A connection has one reader and one writer at a time. At most ENCRYPTED_BYTES are encrypted ahead of the
socket; their plain buffers stay with the session until all of them were sent.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from rmqcli.broker.net.transport import SEND_SIZE, Buffer, Transport, drop_front, front
from rmqcli.broker.net.turns import Pace
from rmqcli.codec.errors import TlsError
from rmqcli.codec.remoting.tls import HANDSHAKE_BYTES, RECORD_BYTES, TlsConnection

ENCRYPTED_BYTES = SEND_SIZE - RECORD_BYTES
ALERT_SECONDS = 1.0
"""Longest wait for a peer to disconnect after an alert."""

InThread = Callable[[Callable[[], bool]], Awaitable[bool]]


class TlsTransport:
    """The server's end of one TLS connection, over `inner`, which it closes."""

    def __init__(self, inner: Transport, context: ssl.SSLContext) -> None:
        self._inner = inner
        self._tls = TlsConnection(context)
        self._encrypted: list[Buffer] = []
        self._taken = 0

    async def handshake(self, data: bytes, in_thread: InThread) -> None:
        """Perform the handshake with a peer that sent `data`. Raises TlsError, and the errors of the inner
        transport.

        All steps are done by `in_thread`: depending on the choices of the peer, any of them may sign, agree
        on a key or check a certificate.
        """
        while True:
            try:
                is_finished = await in_thread(partial(self._tls.shake, data))
            except TlsError:
                await self._alert()
                raise
            await self._send_own()
            if is_finished:
                return
            data = await self._inner.receive()

    async def receive(self, pace: Pace | None = None) -> bytes:
        data: bytes | None = None
        while (plain := self._decrypt(data)) is None:
            data = await self._inner.receive(pace)
        return plain

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
        self._send_last(self._tls.close())
        await self._inner.close()

    async def _send_own(self) -> None:
        own: list[Buffer] = [self._tls.to_send()] if self._tls.pending else []
        self._inner.send_now(own)
        while own:
            await self._inner.send_some(own)

    async def _alert(self) -> None:
        """Send the alert of a failed handshake, and keep reading until the peer has it: closing a connection
        with unread bytes would reset it, and the peer would never see the reason."""
        if not self._tls.pending:
            return
        await self._send_own()
        received = 0
        with trio.move_on_after(ALERT_SECONDS):
            while received < HANDSHAKE_BYTES and (data := await self._inner.receive()):
                received += len(data)

    def _send_last(self, data: bytes) -> None:
        """Send an alert, if the kernel accepts it now; not in the middle of a record."""
        if data and not self._encrypted:
            with contextlib.suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                self._inner.send_now([data])

    def _decrypt(self, data: bytes | None) -> bytes | None:
        try:
            plain = self._tls.receive(data)
        except TlsError:
            self._send_last(self._tls.to_send())
            raise
        # While `_taken` is set, a task is sending. It sends the responses along with the bytes after these.
        if self._tls.pending and not self._taken:
            if not self._encrypted:
                self._encrypted.append(self._tls.to_send())
            self._inner.send_now(self._encrypted)
        return plain

    def _encrypt(self, buffers: list[Buffer]) -> None:
        size = sum(map(len, buffers))
        chunk = buffers if size <= ENCRYPTED_BYTES else front(buffers, ENCRYPTED_BYTES)
        data = chunk[0] if len(chunk) == 1 else b"".join(chunk)
        try:
            self._encrypted.append(self._tls.encrypt(data))
        except TlsError as error:
            raise trio.BrokenResourceError from error
        self._taken = len(data)

    def _done(self, buffers: list[Buffer]) -> int:
        """Remove the buffers that were encrypted once all their bytes were sent; return the number of
        bytes."""
        if self._encrypted:
            return 0
        taken, self._taken = self._taken, 0
        drop_front(buffers, taken)
        return taken
