"""One end of a TLS connection without I/O, for either end: OpenSSL works in memory.

* `shake` accepts the bytes of the handshake, at most HANDSHAKE_BYTES.
* `receive` then accepts encrypted bytes and returns the plain bytes of all whole records, so that only the
  start of one record is kept.
* `encrypt` returns the bytes to send for plain ones, `to_send` those that OpenSSL sends in response.

A peer that causes more than UNSENT_BYTES of responses without reading them is refused.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import Final

from rmqcli.codec.errors import TlsError

RECORD_BYTES: Final = 16 * 1024
"""Maximum number of plain bytes of one TLS record."""
HANDSHAKE_BYTES: Final = 256 * 1024
"""Maximum number of bytes that a peer may send in its handshake; certificates have a few KiB each."""
UNSENT_BYTES: Final = 1024 * 1024
"""Maximum number of bytes of responses of the TLS layer that wait to be sent."""


class TlsConnection:
    """One end of a TLS connection: a client that expects the certificate of `host`, or a server without one.

    Every method but `close` and `to_send` raises TlsError; an alert for the peer may then be left in
    `to_send`.
    """

    def __init__(self, context: ssl.SSLContext, host: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._shaken = 0
        self._is_ended = False
        self._failure: TlsError | None = None

    @property
    def pending(self) -> int:
        """The number of bytes that `to_send` would return."""
        return self._outgoing.pending

    def shake(self, data: bytes | bytearray | None = None) -> bool:
        """Continue the handshake with the bytes of the peer, empty at its end; a client begins without any.

        Returns True when the handshake is finished on this side, which may leave bytes to send.
        """
        if data is not None:
            self._shaken += len(data)
            if not data:
                raise TlsError("it ended the TLS handshake")
            if self._shaken > HANDSHAKE_BYTES:
                raise TlsError("its TLS handshake is too long")
            self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsError(f"TLS handshake failed: {reason_of(error)}") from error
        return True

    def receive(self, data: bytes | bytearray | None = None) -> bytes | None:
        """Return the plain bytes of `data` and of bytes before it: None if there are none, empty at the end.

        Empty `data` is the end of the stream. Plain bytes before an error are returned; the next call raises
        it.
        """
        if self._failure is None and not self._is_ended:
            plain = self._decrypted(data)
            if plain:
                return plain
        if self._failure is not None:
            raise self._failure
        return b"" if self._is_ended else None

    def _decrypted(self, data: bytes | bytearray | None) -> bytes:
        if data:
            self._incoming.write(data)
        elif data is not None:
            self._is_ended = True  # Java's peers often disconnect without a closing alert
        parts: list[bytes] = []
        try:
            # Without this test, each call would end with an exception that costs more than the decryption.
            while self._incoming.pending:
                if not (part := self._tls.read(RECORD_BYTES)):
                    self._is_ended = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._failure = _error(error)
        if self._outgoing.pending > UNSENT_BYTES:
            self._failure = TlsError("TLS: it does not read the answers that it asks for")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """Return the bytes to send: those of `to_send`, then the records of `data`."""
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise _error(error) from error
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """Return the bytes of handshakes, responses and alerts that must be sent now."""
        return self._outgoing.read()

    def close(self) -> bytes:
        """Return the last bytes to send, with the closing alert."""
        # `unwrap` raises after it has written the alert, because it would wait for that of the peer.
        with contextlib.suppress(ssl.SSLError, ValueError):
            self._tls.unwrap()
        return self._outgoing.read()


def _error(error: ssl.SSLError) -> TlsError:
    found = TlsError(f"TLS: {reason_of(error)}")
    found.__cause__ = error
    return found


def reason_of(error: BaseException) -> str:
    """Return OpenSSL's reason in words, without its capitals and underscores."""
    if found := getattr(error, "verify_message", None):
        return str(found).rstrip(".")
    return str(getattr(error, "reason", None) or error).replace("_", " ").lower()
