"""Signatures of requests (4.9.8 `AclClientRPCHook`, `AclSigner`; 5.x reads the same).

A signed request has the ext fields AccessKey, SecurityToken if there is one, and Signature: the base64 of
HMAC-SHA1, keyed with the secret key, of the values of all other ext fields, ordered by name, and the body.
Code, flag, opaque number, version and remark are not covered, nor is any time, so a request can be replayed.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Generator, Mapping
from functools import cache
from typing import Final

from rmqcli.codec.codes import SerializeType
from rmqcli.codec.headers.base import Header, to_ext
from rmqcli.codec.headers.signed import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from rmqcli.codec.remoting.command import RemotingCommand

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""An ext field of QUERY_MESSAGE. Servers of 4.x do not include it in the signed content; those of 5.x do, unless
the client is of 4.9.3 or older."""
WITHOUT_UNIQUE_KEY: Final = 399
"""The version number of 4.9.3."""

PIECE: Final = 256 * 1024
"""The number of bytes of a body that are hashed at a time, in 0.2 ms."""
_BLOCK: Final = 64  # bytes of SHA-1
# The two pads of HMAC (RFC 2104).
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


class Mac:
    """HMAC-SHA1 with one key and a common beginning that is hashed once; takes half the time of
    `hmac.digest`.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret_key: str, beginning: bytes = b"") -> None:
        key = _bytes(secret_key)
        if len(key) > _BLOCK:
            key = hashlib.sha1(key, usedforsecurity=False).digest()
        key = key.ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha1(key.translate(_INNER) + beginning, usedforsecurity=False)
        self._outer = hashlib.sha1(key.translate(_OUTER), usedforsecurity=False)

    def base64(self, content: bytes, body: bytes | memoryview) -> bytes:
        """Return the signature of the common beginning, `content` and `body`."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        inner.update(body)
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)

    def base64_in_steps(self, content: bytes, body: bytes | memoryview) -> Generator[None, None, bytes]:
        """Like `base64` for a long body, but yields after each PIECE."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        with memoryview(body) as view:
            for start in range(0, len(view), PIECE):
                inner.update(view[start : start + PIECE])
                yield
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)


def content_order(ext_fields: Mapping[str, str]) -> list[str]:
    """Return the names of the signed fields in Java's order, by UTF-16 code units."""
    names = [name for name in ext_fields if name != SIGNATURE]
    # ASCII names have the same order in UTF-16, so they need not be encoded.
    if all(map(str.isascii, names)):
        return sorted(names)
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def signed_content(ext_fields: Mapping[str, str]) -> bytes:
    """Return the signed bytes that precede the body."""
    return _bytes("".join([ext_fields[name] for name in content_order(ext_fields)]))


class Signer:
    """Signs the requests of one account, including requests that no server checks."""

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self.access_key = access_key
        self.ext_fields = {ACCESS_KEY: access_key}
        if security_token is not None:
            self.ext_fields[SECURITY_TOKEN] = security_token
        self._secret_key = secret_key
        self._mac = Mac(secret_key)

    def sign(self, command: RemotingCommand) -> None:
        """Sign a finished request by setting its ext fields; an existing signature is replaced.

        Removes fields that receivers treat differently: UNIQUE_KEY_QUERY, which only limits the number of
        results, and empty values in a binary header, which Java reads as null and checks as the text "null".
        """
        fields = {**(command.ext_fields or {}), **self.ext_fields}
        fields.pop(UNIQUE_KEY_QUERY, None)
        fields.pop(SIGNATURE, None)
        if command.serialize_type is SerializeType.ROCKETMQ:
            fields = {name: value for name, value in fields.items() if value}
        fields[SIGNATURE] = self._mac.base64(signed_content(fields), command.body).decode()
        command.ext_fields = fields

    def mac(self, beginning: bytes) -> Mac:
        """Return a Mac for requests whose content has this beginning in common."""
        return Mac(self._secret_key, beginning)


def is_signed(
    mac: Mac, command: RemotingCommand, ext_fields: Mapping[str, str] | None = None, *, by_user: bool = False
) -> bool:
    """Check the signature of a received request as a server of 4.9.8 does, or that of a user as 5.3.3 does, in
    constant time. `ext_fields` are those of the request, if known."""
    content, given = _checked_parts(command, ext_fields, by_user)
    return hmac.compare_digest(mac.base64(content, command.body), given)


def is_signed_in_steps(
    mac: Mac, command: RemotingCommand, *, by_user: bool = False
) -> Generator[None, None, bool]:
    """Like `is_signed` for a long body, but yields after each PIECE."""
    content, given = _checked_parts(command, by_user=by_user)
    expected = yield from mac.base64_in_steps(content, command.body)
    return hmac.compare_digest(expected, given)


def received_ext_fields(command: RemotingCommand) -> dict[str, str]:
    """Return the ext fields of a request; those of a typed header are converted to their usual texts."""
    if command.ext_fields is not None:
        return command.ext_fields
    return {} if command.header is None else to_ext(command.header)


def _checked_parts(
    command: RemotingCommand, ext_fields: Mapping[str, str] | None = None, by_user: bool = False
) -> tuple[bytes, bytes]:
    """Return the signed bytes before the body, as a server reads them, and the received signature."""
    fields = received_ext_fields(command) if ext_fields is None else ext_fields
    given = _bytes(fields.get(SIGNATURE, ""))
    # Java reads an empty value in a binary header as null, and appends it as "null".
    has_null = command.serialize_type is SerializeType.ROCKETMQ and "" in fields.values()
    if command.header is not None and not has_null:
        order = _order_of(type(command.header))
        return _bytes("".join(filter(None, map(fields.get, order)))), given
    fields = {name: value or "null" if has_null else value for name, value in fields.items()}
    if not by_user or command.version <= WITHOUT_UNIQUE_KEY:
        fields.pop(UNIQUE_KEY_QUERY, None)
    return signed_content(fields), given


@cache
def _order_of(header: type[Header]) -> tuple[str, ...]:
    """Return the names of a header's signed fields in Java's order; UNIQUE_KEY_QUERY is not among them."""
    return tuple(content_order(dict.fromkeys(header.__struct_encode_fields__, "")))


def _bytes(text: str) -> bytes:
    # Lone surrogates pass here; the encoder of the header refuses them.
    return text.encode("utf-8", "surrogatepass")
