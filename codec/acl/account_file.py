"""Files of accounts: plain_acl.yml and those in the folder acl (4.9.8 `PlainAccessData`,
`PlainPermissionManager`).

Numbers are read as they are written, as Java does for members that are texts: 012345678 is a secret key of
nine characters. Unknown members are ignored and kept. A file with an invalid member is refused as a whole.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from enum import IntFlag
from typing import Any, Final

import msgspec
import yaml

from rmqcli.codec.acl.addresses import AddressRule, parse_rule
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.names import RETRY_PREFIX

# Reads YAML by libyaml, fifteen times as fast as PyYAML, where both are known to read the same.
#
# The parser is C, event by event, so that other threads run in between. What it reads differently, or not
# at all, is left to PyYAML, whose errors have the lines that people are shown: control characters and tabs,
# byte order marks, "?" in a flow collection, block scalars, anchors, tags, merges, directives and a second
# document.

DEEPEST: Final = 50
"""The maximum depth of nested collections."""
# Characters of documents that are left to PyYAML, because libyaml may read them differently.
_ODD: Final = re.compile(r"[^\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]|\r(?!\n)")
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_OTHERS: Final = frozenset(("<<", "="))
"""Plain scalars that are not texts."""
_NO_KEY: Final = object()
_NOTHING: Final = (yaml.StreamStartEvent, yaml.DocumentEndEvent)


class Unusual(Exception):
    """Raised for a document that is left to PyYAML."""


def read_quickly(content: bytes | str) -> Any:
    """Return the document with scalars as texts, but null as None. Raises Unusual."""
    if not yaml.__with_libyaml__:
        raise Unusual
    try:
        if _ODD.search(content if isinstance(content, str) else content.decode()):
            raise Unusual
        return _read_document(yaml.CLoader(content))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise Unusual from None


def _read_document(parser: Any) -> Any:
    builder = _Builder()
    handlers: dict[type, Callable[[Any], None]] = {
        yaml.ScalarEvent: builder.scalar,
        yaml.MappingStartEvent: builder.begin,
        yaml.SequenceStartEvent: builder.begin,
        yaml.MappingEndEvent: builder.end,
        yaml.SequenceEndEvent: builder.end,
        yaml.DocumentStartEvent: builder.document,
    }
    try:
        # Event by event, so that other threads can run during a long file.
        while (kind := type(event := parser.get_event())) is not yaml.StreamEndEvent:
            if handle := handlers.get(kind):
                handle(event)
            elif kind not in _NOTHING:
                raise Unusual
        return builder.root
    finally:
        parser.dispose()


class _Builder:
    """Builds a document from events; `root` is the finished document."""

    def __init__(self) -> None:
        self.root: Any = None
        self._holders: list[tuple[Any, Any, bool]] = []
        self._holder: Any = None
        self._key: Any = _NO_KEY
        self._is_flow = False
        self._documents = 0

    def scalar(self, event: Any) -> None:
        value: str | None = event.value
        if event.anchor is not None or event.tag is not None or event.style in ("|", ">"):
            raise Unusual
        if event.implicit[0]:
            # PyYAML does not read these as plain texts, so they are left to it.
            if value in _OTHERS or (self._is_flow and "?" in event.value):
                raise Unusual
            value = None if value in _NULLS else value
        self._add(value)

    def begin(self, event: Any) -> None:
        is_key = type(self._holder) is dict and self._key is _NO_KEY
        if event.anchor is not None or event.tag is not None or is_key or len(self._holders) >= DEEPEST:
            raise Unusual
        self._holders.append((self._holder, self._key, self._is_flow))
        self._holder = {} if type(event) is yaml.MappingStartEvent else []
        self._key, self._is_flow = _NO_KEY, event.flow_style

    def end(self, _event: Any) -> None:
        value = self._holder
        self._holder, self._key, self._is_flow = self._holders.pop()
        self._add(value)

    def document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1 or event.version or event.tags:
            raise Unusual

    def _add(self, value: Any) -> None:
        if self._holder is None:
            self.root = value
        elif type(self._holder) is list:
            self._holder.append(value)
        elif self._key is _NO_KEY:
            self._key = value
        else:
            self._holder[self._key] = value
            self._key = _NO_KEY


MAX_FILE: Final = 4 * 1024 * 1024
"""The maximum size of a file, in bytes."""
SHORTEST_KEY: Final = 7
"""The minimum number of characters of an access key and a secret key."""
MAX_PERMISSIONS: Final = 200_000
"""The maximum number of permissions in a file; by aliases, a short one could have any number."""
MAX_MERGED: Final = 1000
"""The maximum members of a map with `<<`, and of what it merges: each level of a short file could double
them.
"""
PLAIN: Final = "tag:yaml.org,2002:"
NOT_A_CHARACTER: Final = "\ufffd"


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
"""The texts that a request may set. Any other text in a file means DENY."""


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


class _Loader(yaml.SafeLoader):
    """Reads scalars as texts, but null as None."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        merged = [value for key, value in node.value if key.tag == f"{PLAIN}merge"]
        # Sizes are checked before the merge, so that it cannot grow without limit, and the result after it.
        sizes = [len(value.value) for value in merged]
        if max(sizes, default=0) <= MAX_MERGED:
            super().flatten_mapping(node)
        if merged and max(*sizes, len(node.value)) > MAX_MERGED:
            raise yaml.constructor.ConstructorError(None, None, "too much is merged", node.start_mark)


for _kind in ("int", "float", "bool", "timestamp", "binary"):
    _Loader.add_constructor(PLAIN + _kind, lambda loader, node: node.value)


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
    text, is_utf8 = _read(content)
    try:
        found = _loaded(text)
    except yaml.MarkedYAMLError as error:  # the text of the error would show lines of the file
        at = error.problem_mark or error.context_mark
        place = "" if at is None else f" at line {at.line + 1}, column {at.column + 1}"
        raise AclError(f"not a YAML file{place}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise AclError("not a YAML file") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise AclError("a map with globalWhiteRemoteAddresses and accounts is expected")
    if not is_utf8 and NOT_A_CHARACTER in str(found):
        raise AclError("not UTF-8, and not only in comments")
    return found


def _loaded(text: bytes | str) -> Any:
    try:
        return read_quickly(text)
    except Unusual:
        return yaml.load(text, _Loader)


def _read(content: bytes) -> tuple[bytes | str, bool]:
    """Return the text for the YAML reader, which knows UTF-16, and False if it is not UTF-8: comments may
    have another encoding.
    """
    try:
        content.decode()
    except UnicodeDecodeError:
        is_utf16 = content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        return content if is_utf16 else content.decode("utf-8", "replace"), is_utf16
    return content, True


def file_of(path: str, document: dict[str, Any]) -> AccountFile:
    """Return the accounts of a document that is to become a file. Raises AclError."""
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
    """Return the permission that a text in a file stands for."""
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
