"""Classification of TLS errors by their remedies, and their reasons in words."""

from __future__ import annotations

import ssl

from rmqcli.client.errors import TlsProblem
from rmqcli.codec.errors import TlsError
from rmqcli.codec.remoting.tls import reason_of

_OTHER_NAME = frozenset((62, 63, 64))
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_MISMATCH and _IP_ADDRESS_MISMATCH."""
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "it ended the TLS handshake")
_OF_CLIENT = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "UNSUPPORTED_CERTIFICATE",
)


def tls_problem(error: TlsError) -> tuple[TlsProblem | None, str]:
    """Return the kind of a TLS error, and the reason in words."""
    cause = error.__cause__ or error
    reason = reason_of(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        kind = TlsProblem.HOST if cause.verify_code in _OTHER_NAME else TlsProblem.CERTIFICATE
        return kind, f"TLS: its certificate is refused: {reason}"
    text = str(cause)
    if any(word in text for word in _NOT_TLS):
        return TlsProblem.NOT_TLS, "TLS: it ended the handshake, or answered with something else"
    if any(word in text for word in _OF_CLIENT):
        return (
            TlsProblem.CLIENT_CERTIFICATE,
            f"TLS: it wants a certificate of this client that it knows: {reason}",
        )
    return None, str(error)
