"""The signature of gRPC requests."""

from __future__ import annotations

import pytest

from rmqcli.codec.acl.authorization import read_authorization
from rmqcli.codec.acl.errors import AclError

TIME = "20240102T030405Z"
# echo -n 20240102T030405Z | openssl sha1 -hmac secret
HEX = "d14bc679bac25fc20b9d14e4dca2dfa9b8a663bf"
HEADER = "MQv2-HMAC-SHA1 Credential={}, SignedHeaders=x-mq-date-time, Signature={}"


@pytest.mark.parametrize("credential", ["billing", "billing/", "billing/region/service"])
def test_the_key_and_the_signature_are_read(credential: str) -> None:
    for digest in (HEX, HEX.upper()):
        found = read_authorization(HEADER.format(credential, digest), TIME)
        assert found is not None and found.access_key == "billing"
        assert found.is_signed("secret") and not found.is_signed("Secret")
    found = read_authorization(HEADER.format(credential, HEX), "20240102T030406Z")
    assert found is not None and not found.is_signed("secret")


def test_hostile_texts_are_no_signatures() -> None:
    for signature in ("", "x", "\u00e9" * 40, HEX + "0", HEX[:-1]):
        found = read_authorization(HEADER.format("billing", signature), TIME)
        assert found is not None and not found.is_signed("secret")
    found = read_authorization("x Credential=", TIME)
    assert found is not None and (found.access_key, found.is_signed("secret")) == (None, False)


def test_unsigned_and_malformed_headers() -> None:
    assert read_authorization(None, TIME) is None
    assert read_authorization("", None) is None
    for header, time, text in (
        ("x Credential=a", None, "datetime is null."),
        ("Credential=a", TIME, "authentication header is incorrect."),
        ("x Credential=a, Signature", TIME, "authentication keyValues length is incorrect"),
    ):
        with pytest.raises(AclError, match=text):
            read_authorization(header, time)
