"""Classification of TLS errors by their remedies, and their reasons in words."""

from __future__ import annotations

import ssl

from rmqcli.client.errors import TlsProblem

_OTHER_NAME = frozenset((62, 63, 64))
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_MISMATCH and _IP_ADDRESS_MISMATCH."""
_NOT_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "EOF occurred", "RECORD_LAYER_FAILURE")
_OF_CLIENT = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "UNSUPPORTED_CERTIFICATE",
)


def tls_problem(error: BaseException | None) -> tuple[TlsProblem | None, str]:
    """Return the kind of a TLS error, and the reason in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        kind = TlsProblem.HOST if error.verify_code in _OTHER_NAME else TlsProblem.CERTIFICATE
        return kind, f"TLS: its certificate is refused: {error.verify_message.rstrip('.')}"
    text = str(error)
    if any(word in text for word in _NOT_TLS):
        return TlsProblem.NOT_TLS, "TLS: it ended the handshake, or answered with something else"
    reason = (getattr(error, "reason", None) or text).replace("_", " ").lower()
    if any(word in text for word in _OF_CLIENT):
        return (
            TlsProblem.CLIENT_CERTIFICATE,
            f"TLS: it wants a certificate of this client that it knows: {reason}",
        )
    return None, f"TLS: {reason}"
