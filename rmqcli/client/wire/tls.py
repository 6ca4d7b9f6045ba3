"""TLS of connections: the certificates that a client trusts, and the one that it presents.

A connection speaks TLS from its first byte, to name servers, brokers and VIP ports alike (Java
`ClientConfig.useTLS`). A certificate is checked against the host of the address.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from rmqcli.client.errors import InvalidRequest
from rmqcli.client.wire.streams import OpenStream, Stream, close_forcefully
from rmqcli.client.wire.tls_stream import tls_stream


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings of a client, which can be pickled.

    `ca`: a PEM file of the CAs to accept; None means those of the system. `certificate` (with its chain) and
    `key` are presented to servers that request them; with `key` None, the key is in the certificate file.
    Without `check`, every server is trusted; without `check_host`, so is one whose certificate is for another
    host, as in Java.

    ```python
    async with Producer("shop", tls=Tls(check=False)) as secure:
        ...
    ```
    """

    ca: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    key_password: str | None = field(default=None, repr=False)
    check: bool = True
    check_host: bool = True

    def context(self) -> ssl.SSLContext:
        """Return the context for Python's ssl.

        Reads the files; InvalidRequest names an unusable one.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.check_hostname = self.check and self.check_host
        context.verify_mode = ssl.CERT_REQUIRED if self.check else ssl.CERT_NONE
        if self.ca is not None:
            self._load_ca(context, self.ca)
        elif self.check:
            context.load_default_certs()
        if self.certificate is not None:
            self._load_pair(context, self.certificate)
        elif self.key is not None:
            raise InvalidRequest(f"TLS key {self.key} has no certificate")
        return context

    def _load_ca(self, context: ssl.SSLContext, path: str | Path) -> None:
        try:
            context.load_verify_locations(cafile=path)
        except ssl.SSLError as error:
            raise InvalidRequest(f"TLS CA {path}: PEM certificates are expected") from error
        except OSError as error:
            raise InvalidRequest(f"TLS CA {path}: {error.strerror}") from error
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN

    def _load_pair(self, context: ssl.SSLContext, certificate: str | Path) -> None:
        for path in (certificate,) if self.key is None else (certificate, self.key):
            try:
                # Opened only for an error that names the file; that of ssl would not.
                Path(path).open("rb").close()
            except OSError as error:
                raise InvalidRequest(f"TLS certificate or key {path}: {error.strerror}") from error
        try:
            # Without a password, OpenSSL would ask for it on the terminal.
            context.load_cert_chain(certificate, self.key, password=self.key_password or "")
        except (ssl.SSLError, ValueError) as error:
            files = certificate if self.key is None else f"{certificate} and key {self.key}"
            reason = (
                "they do not belong together" if "MISMATCH" in str(error) else "not PEM, or another password"
            )
            raise InvalidRequest(f"TLS certificate {files}: {reason}") from error


class TlsStreams:
    """Opens TLS connections over those of `open_stream`."""

    def __init__(self, tls: Tls | ssl.SSLContext, open_stream: OpenStream) -> None:
        self._context = tls.context() if isinstance(tls, Tls) else tls
        self._open_stream = open_stream

    async def __call__(self, host: str, port: int) -> Stream:
        stream = await self._open_stream(host, port)
        secured = tls_stream(stream, self._context, host)
        try:
            await secured.do_handshake()
        except BaseException:
            await close_forcefully(stream)
            raise
        return secured
