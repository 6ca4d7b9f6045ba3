"""Contexts of Python's ssl, made from settings and files.

Files are read through a `Disk`. OpenSSL requires a path for a private key, so it gets one to a file in
memory. Every error is a ConfigError that names property, file and remedy.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rmqcli.broker.config.tls import TlsConfig
from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import ConfigError
from rmqcli.codec.remoting.tls import reason_of

_BEGIN_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_BEGIN_KEY = b"PRIVATE KEY-----"
_ENCRYPTED = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")
_MISMATCH = "KEY_VALUES_MISMATCH"


class _Names(NamedTuple):
    """The properties of one end's certificate."""

    certificate: str
    key: str
    password: str
    trust: str


_SERVER = _Names(*(f"tls.server.{name}" for name in ("certPath", "keyPath", "keyPassword", "trustCertPath")))
_CLIENT = _Names(*(f"tls.client.{name}" for name in ("certPath", "keyPath", "keyPassword", "trustCertPath")))


def server_context(config: TlsConfig, disk: Disk) -> ssl.SSLContext | None:
    """Return the context of a server: TLS 1.2 and 1.3, no renegotiation; None without a certificate. Blocks.

    Raises ConfigError, even for a server that accepts only TLS and has no certificate.
    """
    if config.mode == "disabled":
        return None
    if not config.cert_path and not config.key_path:
        if config.mode == "enforcing":
            raise ConfigError(
                f"tls.server.mode=enforcing needs a certificate: set {_SERVER.certificate} and {_SERVER.key}"
            )
        return None
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    _load_pair(context, disk, _SERVER, config.cert_path, config.key_path, config.key_password)
    _ask_clients(context, config, disk)
    return context


def context_of(pair: bytes) -> ssl.SSLContext:
    """Return the context of a server with a certificate and its key, both in PEM. Blocks."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    with _as_path(pair) as path:
        context.load_cert_chain(path)
    return context


def peer_context(config: TlsConfig, disk: Disk) -> ssl.SSLContext | None:
    """Return the context of connections to name servers; None for plain ones. Blocks. Raises ConfigError.

    Host names are not checked, as in Java, because brokers identify name servers by their addresses.
    """
    if not config.secures_peers:
        return None
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if config.client_cert_path or config.client_key_path:
        pair = (config.client_cert_path, config.client_key_path, config.client_key_password)
        _load_pair(context, disk, _CLIENT, *pair)
    trust = config.client_trust_cert_path
    if not (bool(trust) if config.auth_server is None else config.auth_server):
        context.verify_mode = ssl.CERT_NONE
    elif trust:
        _load_trust(context, disk, _CLIENT.trust, trust)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def _ask_clients(context: ssl.SSLContext, config: TlsConfig, disk: Disk) -> None:
    """Request certificates of clients. They are always verified: an unchecked certificate proves nothing."""
    if config.need_client_auth == "none":
        return
    if config.trust_cert_path:
        _load_trust(context, disk, _SERVER.trust, config.trust_cert_path)
    elif config.auth_client:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    else:
        raise ConfigError(
            f"tls.server.need.client.auth={config.need_client_auth} needs the CA of the clients: "
            f"set {_SERVER.trust}"
        )
    required = config.need_client_auth == "require"
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL


def _load_pair(
    context: ssl.SSLContext,
    disk: Disk,
    names: _Names,
    certificate: str | None,
    key: str | None,
    password: str | None,
) -> None:
    """Load a certificate, with its chain, and its key: PKCS#8 or PKCS#1, encrypted or not."""
    if not certificate or not key:
        missing, other = (names.certificate, key) if not certificate else (names.key, certificate)
        raise ConfigError(f"{missing} is not set, it belongs to {other}")
    chain = _pem(disk, names.certificate, certificate, _BEGIN_CERTIFICATE, "a PEM certificate")
    _check_certificates(names.certificate, certificate, chain)
    secret = _pem(disk, names.key, key, _BEGIN_KEY, "a PEM private key")
    if not password and any(mark in secret for mark in _ENCRYPTED):
        raise ConfigError(f"{names.key}={key}: the key is encrypted: set {names.password}")
    try:
        with _as_path(chain + b"\n" + secret) as path:
            context.load_cert_chain(path, password=password or "")
    except (ssl.SSLError, ValueError) as error:
        if getattr(error, "reason", "") == _MISMATCH:
            reason = f"the key does not belong to {certificate}"
        elif any(mark in secret for mark in _ENCRYPTED):
            reason = f"the key cannot be read: check {names.password}"
        else:
            reason = f"the key cannot be read: {reason_of(error)}"
        raise ConfigError(f"{names.key}={key}: {reason}") from error


def _load_trust(context: ssl.SSLContext, disk: Disk, name: str, path: str) -> None:
    content = _pem(disk, name, path, _BEGIN_CERTIFICATE, "PEM certificates")
    _check_certificates(name, path, content, context.load_verify_locations)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Java trusts every certificate of the file


def _check_certificates(
    name: str, path: str, content: bytes, load: Callable[..., None] | None = None
) -> None:
    load = load or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations
    try:
        load(cadata=content.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{name}={path}: the certificate cannot be read: {reason_of(error)}") from error


def _pem(disk: Disk, name: str, path: str, mark: bytes, what: str) -> bytes:
    try:
        content = disk.read(Path(path))
    except OSError as error:
        raise ConfigError(f"{name}={path}: {error.strerror or error}") from error
    if mark not in content:
        raise ConfigError(f"{name}={path}: {what} is expected")
    return content


@contextmanager
def _as_path(content: bytes) -> Iterator[str]:
    """Yield a path from which this process can read `content`, in memory only if the system supports that."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("rmq-tls", os.MFD_CLOEXEC)
        try:
            os.write(fd, content)
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
        return
    with tempfile.NamedTemporaryFile(prefix="rmq-tls-") as file:
        file.write(content)
        file.flush()
        yield file.name
