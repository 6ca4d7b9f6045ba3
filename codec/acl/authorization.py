"""The header of a signed gRPC request (5.3.3 `DefaultAuthenticationContextBuilder`):

    authorization: MQv2-HMAC-SHA1 Credential=KEY/…, SignedHeaders=x-mq-date-time, Signature=HEX

The signature is the HMAC-SHA1 of the header x-mq-date-time, keyed with the secret key. No time is checked.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from rmqcli.codec.acl.errors import AclError


class Authorization(NamedTuple):
    """The header as it was sent. `access_key` is None if it names none."""

    access_key: str | None
    signature: str
    date_time: str

    def is_signed(self, secret_key: str) -> bool:
        """Check the signature in constant time."""
        key, content = (text.encode("utf-8", "surrogatepass") for text in (secret_key, self.date_time))
        expected = hmac.digest(key, content, hashlib.sha1).hex()
        return hmac.compare_digest(expected.encode(), self.signature.lower().encode("utf-8", "surrogatepass"))


def read_authorization(header: str | None, date_time: str | None) -> Authorization | None:
    """Return the signature of a request; None for an unsigned one. Raises AclError with Java's text."""
    if not header:
        return None
    if not date_time:
        raise AclError("datetime is null.")
    _, blank, pairs = header.partition(" ")
    if not blank:
        raise AclError("authentication header is incorrect.")
    found: dict[str, str] = {}
    for pair in pairs.split(","):
        name, equals, value = pair.strip().partition("=")
        if not equals:
            raise AclError("authentication keyValues length is incorrect, actual length=1.")
        found[name] = value
    access_key = found.get("Credential", "").partition("/")[0]
    return Authorization(access_key or None, found.get("Signature", ""), date_time)
