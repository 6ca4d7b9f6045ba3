"""Accounts, and the signature of a gRPC call."""

from __future__ import annotations

import hmac

SECRET = "secret-of-writer"
ACCOUNTS = f"""
accounts:
- {{accessKey: writer-1, secretKey: {SECRET}, topicPerms: [orders=PUB], groupPerms: [billing=SUB]}}
- {{accessKey: operator, secretKey: secret-of-operator, admin: true}}
"""
MOMENT = "20261122T102014Z"


def signed(
    key: str = "writer-1",
    secret: str = SECRET,
    *,
    upper: bool = False,
    signed_headers: str = "x-mq-date-time",
) -> str:
    digest = hmac.new(secret.encode(), MOMENT.encode(), "sha1").hexdigest()
    text = digest.upper() if upper else digest
    return f"MQv2-HMAC-SHA1 Credential={key}/region/service, SignedHeaders={signed_headers}, Signature={text}"
