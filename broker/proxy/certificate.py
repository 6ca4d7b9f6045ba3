"""The certificate of a front for which none is configured: the official clients of Java, Go and C# use TLS by
default, and accept any certificate."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

VALID_DAYS = 3650


def generated() -> bytes:
    """Return a new self-signed certificate and its key in PEM. Blocks."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rmq")])
    now = datetime.now(UTC)
    hosts = [x509.DNSName(host) for host in {"localhost", socket.gethostname()}]
    addresses = [x509.IPAddress(ip_address(address)) for address in ("127.0.0.1", "::1")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([*hosts, *addresses]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + secret
