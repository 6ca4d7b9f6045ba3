"""Files of accounts: plain_acl.yml and those in the folder acl (4.9.8 `PlainAccessData`,
`PlainPermissionManager`).

Numbers are read as written, as Java does for string members: 012345678 is a secret key of nine characters.
Unknown members are ignored and kept. A file with an invalid member is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import Any, Final

import msgspec

from rmqcli.codec.acl.addresses import AddressRule, parse_rule
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.names import RETRY_PREFIX

MAX_FILE: Final = 4 * 1024 * 1024
"""The maximum size of a file, in bytes."""
SHORTEST_KEY: Final = 7
"""The minimum number of characters of an access key and a secret key."""
MAX_PERMISSIONS: Final = 200_000
"""The maximum number of permissions in a file; with aliases, a short file could have any number."""


class Permission(IntFlag):
    """Java's bits; 2 (ANY) does not occur in files. Files have the first three, policies of 5.x all but DENY."""

    DENY = 1
    PUB = 4
    SUB = 8
    CREATE = 16
    UPDATE = 32
    DELETE = 64
    GET = 128
    LIST = 256


OF_FILES: Final = Permission.PUB | Permission.SUB
"""The permissions that a file can grant; administrators have the others."""


PERMISSIONS: Final = {
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
}
"""The values that a request may set. Any other value in a file means DENY."""


class Account(msgspec.Struct, frozen=True):
    """One account. `permissions` are those for topics, and for groups by the name of their retry topic."""

    access_key: str
    secret_key: str
    white: AddressRule
    admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    permissions: Mapping[str, Permission] = {}

    def __repr__(self) -> str:
        return f"Account({self.access_key!r})"


class FileVersion(msgspec.Struct, frozen=True):
    """The number of changes by requests, and the time of the last one in epoch ms."""

    counter: int = 0
    timestamp: int = 0


class AccountFile(msgspec.Struct, frozen=True):
    """A file; `document` is its content, for rewriting it."""

    path: str
    white: tuple[AddressRule, ...] = ()
    accounts: tuple[Account, ...] = ()
    version: FileVersion = FileVersion()
    document: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"AccountFile({self.path!r}, {len(self.accounts)} accounts)"


def parse_file(path: str, content: bytes, loaded_ms: int = 0) -> AccountFile:
    """Return the accounts in a file; an empty one has none. Raises AclError with the name of the file and the
    problem.
    """
    try:
        return _file(path, _document(content), loaded_ms)
    except AclError as error:
        raise AclError(f"{path}: {error}") from None


def _document(content: bytes) -> dict[str, Any]:
    if len(content) > MAX_FILE:
        raise AclError(f"{len(content)} bytes, {MAX_FILE} is the limit")
    from rmqcli.codec.acl.account_yaml import read_document  # imports PyYAML

    return read_document(content)


def file_of(path: str, document: dict[str, Any]) -> AccountFile:
    """Return the accounts of a document that will be written to a file. Raises AclError."""
    try:
        return _file(path, document, 0)
    except AclError as error:
        raise AclError(f"{path}: {error}") from None


def _file(path: str, document: dict[str, Any], loaded_ms: int) -> AccountFile:
    white = tuple(map(parse_rule, _texts(document, "globalWhiteRemoteAddresses")))
    accounts: dict[str, Account] = {}
    permissions = 0
    for number, members in enumerate(_list(document, "accounts"), 1):
        if not isinstance(members, dict):
            raise AclError(f"account {number}: a map is expected")
        permissions += len(_list(members, "topicPerms")) + len(_list(members, "groupPerms"))
        if permissions > MAX_PERMISSIONS:
            raise AclError(f"more than {MAX_PERMISSIONS} permissions")
        found = parse_account(members, f"account {number}")
        accounts.setdefault(found.access_key, found)
    return AccountFile(path, white, tuple(accounts.values()), _version(document, loaded_ms), document)


def parse_account(members: Mapping[str, Any], name: str) -> Account:
    """Return one account of a file. Raises AclError, with `name` or the access key."""
    access_key, secret_key = _text(members, "accessKey", name), _text(members, "secretKey", name)
    if not access_key or len(access_key) < SHORTEST_KEY:
        raise AclError(f"{name}: accessKey has fewer than {SHORTEST_KEY} characters")
    name = f"account {access_key}"
    if not secret_key or len(secret_key) < SHORTEST_KEY:
        raise AclError(f"{name}: secretKey has fewer than {SHORTEST_KEY} characters")
    try:
        white = parse_rule(_text(members, "whiteRemoteAddress", name) or "")
    except AclError as error:
        raise AclError(f"{name}: whiteRemoteAddress: {error}") from None
    permissions: dict[str, Permission] = {}
    for member, prefix in (("groupPerms", RETRY_PREFIX), ("topicPerms", "")):
        for entry in _texts(members, member, name):
            parts = entry.split("=")
            if len(parts) != 2:
                raise AclError(f"{name}: {member}: {entry!r}: NAME=PERMISSION is expected")
            permissions[prefix + parts[0].strip()] = permission_of(parts[1])
    return Account(
        access_key,
        secret_key,
        white,
        is_true(members.get("admin"), name),
        permission_of(_text(members, "defaultTopicPerm", name)),
        permission_of(_text(members, "defaultGroupPerm", name)),
        permissions,
    )


def permission_of(text: str | None) -> Permission:
    """Return the permission that a string in a file denotes."""
    return PERMISSIONS.get((text or "").strip(), Permission.DENY)


def is_true(value: object, name: str) -> bool:
    """Return the value of `admin`. Raises AclError for anything but a truth value."""
    if value is None or value is False or value is True:
        return bool(value)
    text = str(value).strip().lower()
    if text not in ("true", "false", "yes", "no", "on", "off"):
        raise AclError(f"{name}: admin: true or false is expected")
    return text in ("true", "yes", "on")


def _version(document: Mapping[str, Any], loaded_ms: int) -> FileVersion:
    found = document.get("dataVersion")
    first = found[0] if isinstance(found, list) and found else None
    try:
        return FileVersion(int(first["counter"]), int(first["timestamp"]))  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        return FileVersion(0, loaded_ms)


def _list(members: Mapping[str, Any], name: str) -> list[Any]:
    found = members.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise AclError(f"{name}: a list is expected")
    return found


def _texts(members: Mapping[str, Any], name: str, owner: str = "") -> list[str]:
    found = _list(members, name)
    if not all(isinstance(text, str) for text in found):
        raise AclError(f"{owner}{': ' if owner else ''}{name}: a list of texts is expected")
    return found


def _text(members: Mapping[str, Any], name: str, owner: str) -> str | None:
    found = members.get(name)
    if found is None or isinstance(found, str):
        return found
    raise AclError(f"{owner}: {name}: a text is expected")
