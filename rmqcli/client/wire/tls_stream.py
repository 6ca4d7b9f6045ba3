"""The client side of a TLS connection over another stream, with OpenSSL working in memory.

One task reads and one writes, as on the underlying stream. Data that was encrypted but not yet written is
kept here.
"""

from __future__ import annotations

import contextlib
import ssl

import trio

from rmqcli.client.wire.streams import READ_SIZE, DirectStream, SendNow, Stream

RECORD_BYTES = 16 * 1024
"""The maximum number of plain bytes in one TLS record."""


class TlsStream:
    """A stream that encrypts; call `do_handshake` first. Raises ssl.SSLError, and the errors of `inner`."""

    def __init__(self, inner: Stream, context: ssl.SSLContext, host: str) -> None:
        self._inner = inner
        self._inner_send_now: SendNow | None = getattr(inner, "send_now", None)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._unsent = b""
        self._ahead = 0  # plain bytes that are encrypted already, but that the writer counts as not sent
        self._ended = False

    async def do_handshake(self) -> None:
        """Shake hands. Raises ssl.SSLError, also if the peer closes the connection."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                # The alert tells the server why; if it cannot be sent, the error still counts.
                with contextlib.suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._flush()
                raise
            else:
                await self._flush()
                return
            try:
                await self._flush()
                data = await self._inner.receive_some(READ_SIZE)
            except (ConnectionError, trio.BrokenResourceError) as error:
                raise ssl.SSLEOFError("EOF occurred in the handshake") from error
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    async def send_all(self, data: bytes) -> None:
        ahead, self._ahead = self._ahead, 0
        # The first `ahead` bytes were encrypted by `send_now`; encrypting them again would send them twice.
        if rest := memoryview(data)[ahead:]:
            self._tls.write(rest)
        await self._flush()

    def send_now(self, data: bytes) -> int:
        """Write without waiting. For the writer, either all of `data` was sent or nothing."""
        if self._unsent or self._ahead or self._inner_send_now is None:
            return 0
        try:
            self._tls.write(data)
        except ssl.SSLError:
            return 0
        encrypted = self._outgoing.read()
        sent = self._inner_send_now(encrypted)
        if sent == len(encrypted):
            return len(data)
        # The writer gets all of `data` again, and skips the bytes that are encrypted already.
        self._unsent, self._ahead = encrypted[sent:], len(data)
        return 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            if (data := self._decrypted()) is not None:
                if not data:  # lets a reader that goes on reading at the end be cancelled
                    await trio.lowlevel.checkpoint()
                return data
            self._take(await self._inner.receive_some(max_bytes or READ_SIZE))

    async def aclose(self) -> None:
        # The peer has not closed yet, so unwrap raises instead of waiting for it.
        with contextlib.suppress(ssl.SSLError, ValueError):
            self._tls.unwrap()
        if self._inner_send_now is not None and not self._unsent and self._outgoing.pending:
            self._inner_send_now(self._outgoing.read())
        await self._inner.aclose()

    def _take(self, data: bytes | bytearray) -> None:
        """Accept encrypted bytes; empty means the end. Java servers close without a last TLS message."""
        if data:
            self._incoming.write(data)
        else:
            self._ended = True

    def _decrypted(self) -> bytes | None:
        """Return all plain bytes that have arrived: None if there are none, empty at the end."""
        parts: list[bytes] = []
        try:
            while part := self._tls.read(RECORD_BYTES):
                parts.append(part)
            self._ended = True
        except ssl.SSLWantReadError:
            pass
        if parts:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        return b"" if self._ended else None

    async def _flush(self) -> None:
        data, self._unsent = self._unsent + self._outgoing.read(), b""
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
        data = self._read_inner_now(max_bytes)
        if data is not None:
            self._take(data)
        return self._decrypted()


def tls_stream(inner: Stream, context: ssl.SSLContext, host: str) -> TlsStream:
    """Return a TlsStream, a direct one if the underlying stream is direct."""
    kind = DirectTlsStream if isinstance(inner, DirectStream) else TlsStream
    return kind(inner, context, host)  # type: ignore[arg-type]
