"""The client side of a TLS connection over another stream.

One task reads and one writes, as on the underlying stream. Data that was encrypted but not yet written is
kept here.
"""

from __future__ import annotations

import contextlib
import ssl

import trio

from rmqcli.client.wire.streams import READ_SIZE, DirectStream, SendNow, Stream
from rmqcli.codec.errors import TlsError
from rmqcli.codec.remoting.tls import TlsConnection


class TlsStream:
    """A stream that encrypts; call `do_handshake` first. Raises TlsError, and the errors of `inner`."""

    def __init__(self, inner: Stream, context: ssl.SSLContext, host: str) -> None:
        self._inner = inner
        self._inner_send_now: SendNow | None = getattr(inner, "send_now", None)
        self._tls = TlsConnection(context, host)
        self._unsent = b""
        self._ahead = 0  # plain bytes that are encrypted already, but that the writer counts as not sent

    async def do_handshake(self) -> None:
        """Perform the handshake. Raises TlsError, even if the peer closes the connection."""
        try:
            is_finished = self._tls.shake()
            while not is_finished:
                await self._flush()
                is_finished = self._tls.shake(await self._inner.receive_some(READ_SIZE))
            await self._flush()
        except (ConnectionError, trio.BrokenResourceError):
            self._tls.shake(b"")
        except TlsError:
            # The alert tells the server why; if it cannot be sent, the error still counts.
            with contextlib.suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                await self._flush()
            raise

    async def send_all(self, data: bytes) -> None:
        ahead, self._ahead = self._ahead, 0
        # The first `ahead` bytes were encrypted by `send_now`; encrypting them again would send them twice.
        if rest := memoryview(data)[ahead:]:
            self._unsent += self._tls.encrypt(rest)
        await self._flush()

    def send_now(self, data: bytes) -> int:
        """Write without waiting. For the writer, either all of `data` was sent or nothing."""
        if self._unsent or self._ahead or self._inner_send_now is None:
            return 0
        try:
            encrypted = self._tls.encrypt(data)
        except TlsError:
            return 0
        sent = self._inner_send_now(encrypted)
        if sent == len(encrypted):
            return len(data)
        # The writer gets all of `data` again, and skips the bytes that are encrypted already.
        self._unsent, self._ahead = encrypted[sent:], len(data)
        return 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = None
        while (plain := self._tls.receive(data)) is None:
            data = await self._inner.receive_some(max_bytes or READ_SIZE)
        if not plain:  # lets a reader that continues to read at the end be cancelled
            await trio.lowlevel.checkpoint()
        return plain

    async def aclose(self) -> None:
        last = self._tls.close()
        # After only a part of a record, the peer could not read the alert.
        if self._inner_send_now is not None and not self._unsent and last:
            self._inner_send_now(last)
        await self._inner.aclose()

    async def _flush(self) -> None:
        data, self._unsent = self._unsent + self._tls.to_send(), b""
        if data:
            await self._inner.send_all(data)


class DirectTlsStream(TlsStream):
    """A TlsStream over a stream whose reader may stop or change at any time."""

    def __init__(self, inner: DirectStream, context: ssl.SSLContext, host: str) -> None:
        super().__init__(inner, context, host)
        self._read_inner_now = inner.read_now
        self.wait_readable = inner.wait_readable
        self.call_off = inner.call_off

    def read_now(self, max_bytes: int) -> bytes | None:
        """Return the bytes that have arrived: None if there are none, empty at the end."""
        return self._tls.receive(self._read_inner_now(max_bytes))


def tls_stream(inner: Stream, context: ssl.SSLContext, host: str) -> TlsStream:
    """Return a TlsStream, a direct one if the underlying stream is direct."""
    kind = DirectTlsStream if isinstance(inner, DirectStream) else TlsStream
    return kind(inner, context, host)  # type: ignore[arg-type]
