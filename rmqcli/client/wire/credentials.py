"""The account of a client (Java `SessionCredentials`)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rmqcli.client.errors import InvalidRequest
from rmqcli.codec.edited import unmarked
from rmqcli.codec.errors import BodyError
from rmqcli.codec.remoting.signature import Signer


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access key and secret key of an account, and a temporary security token.

    `repr` shows only the access key.

    Raises InvalidRequest for a key that is blank or cannot be sent in a header.

    ```python
    account = Credentials("shop", "secret")
    assert repr(account) == "Credentials(access_key='shop')"
    async with Producer("shop", credentials=account) as signing:
        await signing.send(Message.of("orders", b"signed"))
    ```
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = {"access key": self.access_key, "secret key": self.secret_key}
        for what, text in (given | {"security token": self.security_token}).items():
            if text is None:
                continue
            if not text.strip():
                raise InvalidRequest(f"the {what} is empty")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InvalidRequest(f"the {what} is no Unicode text") from None

    def signer(self) -> Signer:
        """Return the signer of requests with these keys."""
        return Signer(self.access_key, self.secret_key, self.security_token)


# Files with keys, in three forms: a secret key on the first line; Java's key file (`SessionCredentials`:
# `AccessKey=…`, `SecretKey=…`, `SecurityToken=…`); tools.yml of mqadmin (`accessKey: …`, `secretKey: …`).

_OF_YAML = rb"(?m)^\s*(accessKey|secretKey)\s*:"
_OF_JAVA = rb"(?m)^\s*(AccessKey|SecretKey)\s*="


class Keys(NamedTuple):
    """The keys in a file; None for a kind that it does not contain."""

    access_key: str | None = None
    secret_key: str | None = None
    security_token: str | None = None


def read_keys(path: str | os.PathLike[str] | int) -> Keys:
    """Return the keys in a file or open descriptor.

    Raises OSError, and InvalidRequest, without any of its text, if it cannot be read.
    """
    name = "standard input" if isinstance(path, int) else os.fspath(path)
    with open(path, "rb", closefd=not isinstance(path, int)) as file:
        data = file.read()
    try:
        found = _keys_in(unmarked(data), name)
    except InvalidRequest:
        raise
    except (ValueError, BodyError):  # the text of the error would show some of the file
        raise InvalidRequest(f"{name}: not a text in UTF-8") from None
    if not found.secret_key:
        raise InvalidRequest(f"{name} holds no secret key")
    return found


def is_exposed(path: str | os.PathLike[str]) -> bool:
    """Return True for a file that users other than its owner may read. Raises OSError."""
    return bool(Path(path).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def credentials_of(access_key: str | None, keys: Keys, security_token: str | None = None) -> Credentials:
    """Return the account of these keys; keys given explicitly take precedence.

    Raises InvalidRequest without an access key.
    """
    access_key = access_key or keys.access_key
    if not access_key:
        raise InvalidRequest("a secret key needs an access key")
    return Credentials(access_key, keys.secret_key or "", security_token or keys.security_token)


def _keys_in(data: bytes, name: str) -> Keys:
    """Return the keys in a text. Comments in Java's format may be in any encoding.

    Raises ValueError and BodyError.
    """
    if re.search(_OF_JAVA, data):
        from rmqcli.codec.bodies.config import load_properties_file

        return Keys(*_texts(load_properties_file(data), "AccessKey", "SecretKey", "SecurityToken"))
    text = data.decode()
    if re.search(_OF_YAML, data):
        return Keys(*_texts(_of_yaml(text, name), "accessKey", "secretKey", "securityToken"))
    return Keys(secret_key=text.partition("\n")[0].rstrip("\r") or None)


def _texts(table: Mapping[str, object], *names: str) -> list[str | None]:
    values = [table.get(name) for name in names]
    return [str(value).strip() if isinstance(value, str | int) else None for value in values]


def _of_yaml(text: str, name: str) -> dict[str, object]:
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:  # the text of the error shows lines of the file
        found = None
    if not isinstance(found, dict):
        raise InvalidRequest(f"{name}: not a YAML file of keys")
    return found
