"""Changes of the users and policies of a broker (5.3.3 `AuthenticationMetadataManagerImpl`,
`AuthorizationMetadataManagerImpl`): each returns a new table. Error messages are Java's where it has any.

A change of policies merges: an entry replaces the one of its policy type that has the same resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.acl.policies import (
    DISABLE,
    ENABLE,
    NORMAL,
    SUPER,
    entry_of,
    parse_resource,
    policy_info,
    policy_type,
)
from rmqcli.codec.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo, UserTable

SUBJECT: Final = "User:"
LONGEST_NAME: Final = 255
"""Bytes of the name of a user."""
LONGEST_PASSWORD: Final = 1024
MOST_USERS: Final = 10_000
MOST_ENTRIES: Final = 1_000
"""Maximum number of entries in the policies of a user."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of all users and policies together, as JSON without spaces."""

_TYPES: Final = {name.lower(): name for name in (SUPER, NORMAL)}
_STATUSES: Final = {name.lower(): name for name in (ENABLE, DISABLE)}


class UserError(AclError):
    """A change that is refused as in Java, with code 16."""


def subject_of(name: str) -> str:
    """Return the subject of a user, `User:name`."""
    return SUBJECT + name


def name_of(subject: str | None) -> str:
    """Return the name of the user in a subject. Raises UserError."""
    kind, _, name = (subject or "").partition(":")
    if kind.lower() != "user" or not name.strip():
        raise UserError("The subject type is null.")
    return name


def with_new_user(table: UserTable, info: UserInfo) -> UserTable:
    """Return the table with one more user."""
    name = _name(info.username)
    if not (info.password or "").strip():
        raise UserError("password can not be blank")
    if name in table.users:
        raise UserError("The user is existed")
    if len(table.users) >= MOST_USERS:
        raise AclError(f"the broker has {MOST_USERS} users, which is the limit")
    fresh = UserInfo(
        username=name,
        password=_password(info.password),
        user_type=_word(_TYPES, info.user_type, "user type") or NORMAL,
        user_status=_word(_STATUSES, info.user_status, "user status") or ENABLE,
    )
    return replace(table, users={**table.users, name: fresh})


def with_changed_user(table: UserTable, info: UserInfo) -> UserTable:
    """Return the table with the given members of a user changed."""
    name = _name(info.username)
    old = table.users.get(name)
    if old is None:
        raise UserError("The user is not exist")
    fresh = UserInfo(
        username=name,
        password=_password(info.password) if (info.password or "").strip() else old.password,
        user_type=_word(_TYPES, info.user_type, "user type") or old.user_type,
        user_status=_word(_STATUSES, info.user_status, "user status") or old.user_status,
    )
    return replace(table, users={**table.users, name: fresh})


def without_user(table: UserTable, name: str) -> UserTable:
    """Return the table without a user and its policies."""
    subject = subject_of(name)
    return UserTable(
        users={one: info for one, info in table.users.items() if one != name},
        acls={one: acl for one, acl in table.acls.items() if one != subject},
    )


def with_policies(table: UserTable, name: str, policies: Iterable[PolicyInfo]) -> UserTable:
    """Return the table with policies of a user merged into those it has."""
    given = [policy_info(policy) for policy in policies if policy.entries]
    if not given:
        raise UserError("The policies is empty.")
    subject = subject_of(name)
    if name not in table.users:
        raise UserError(f"The subject of {subject} is not exist.")
    types: dict[str, dict[str, PolicyEntryInfo]] = {}
    for policy in [*_policies(table, subject), *given]:
        entries = types.setdefault(policy.policy_type or "", {})
        entries.update((entry.resource or "", entry) for entry in policy.entries or ())
    count = sum(map(len, types.values()))
    if count > MOST_ENTRIES:
        raise AclError(f"the policies of {subject} would have {count} entries, {MOST_ENTRIES} is the limit")
    return replace(table, acls={**table.acls, subject: _acl(subject, types)})


def without_policies(table: UserTable, name: str, kind: str | None, resource: str | None) -> UserTable:
    """Return the table without the entry for a resource in the policies of a user, by default of type Custom;
    without a resource, without all policies of the user."""
    subject = subject_of(name)
    if name not in table.users:
        raise UserError("The subject is not exist.")
    if subject not in table.acls:
        raise UserError("The acl is not exist.")
    types: dict[str, dict[str, PolicyEntryInfo]] = {}
    if resource:
        where, text = policy_type(kind), parse_resource(resource).text
        for policy in _policies(table, subject):
            entries = {entry.resource or "": entry for entry in policy.entries or ()}
            if policy.policy_type == where:
                entries.pop(text, None)
            if entries:
                types[policy.policy_type or ""] = entries
    acls = {one: acl for one, acl in table.acls.items() if one != subject}
    return replace(table, acls={**acls, subject: _acl(subject, types)} if types else acls)


def users_with(table: UserTable, text: str | None) -> list[UserInfo]:
    """Return the users whose names contain `text`, by name."""
    return [table.users[name] for name in _ordered(table.users) if not (text or "").strip() or text in name]  # type: ignore[operator]


def policies_with(table: UserTable, subject: str | None, resource: str | None) -> list[AclInfo]:
    """Return the policies whose subjects and resources contain these texts, by subject."""
    found: list[AclInfo] = []
    for one in _ordered(table.acls):
        if (subject or "").strip() and subject not in one:  # type: ignore[operator]
            continue
        types = {
            policy.policy_type or "": {entry.resource or "": entry for entry in policy.entries or ()}
            for policy in _policies(table, one)
        }
        wanted = (resource or "").strip() and resource
        if wanted:
            types = {
                kind: {text: entry for text, entry in entries.items() if wanted in text}
                for kind, entries in types.items()
            }
        types = {kind: entries for kind, entries in types.items() if entries}
        if types:
            found.append(_acl(one, types))
    return found


def checked(table: UserTable) -> UserTable:
    """Return a table that was read from a file, if a broker can use it. Raises AclError."""
    for name, info in table.users.items():
        if info.username != name or not (info.password or "").strip():
            raise AclError(f"user {name}: its username or password is missing")
        _word(_TYPES, info.user_type, f"user type of {name}")
        _word(_STATUSES, info.user_status, f"user status of {name}")
    for subject, acl in table.acls.items():
        for policy in acl.policies or ():
            policy_type(policy.policy_type)
            for entry in policy.entries or ():
                try:
                    entry_of(entry)
                except AclError as error:
                    raise AclError(f"policies of {subject}: {error}") from None
    return table


def size_of(table: UserTable, name: str) -> int:
    """Return the size of a user and its policies as JSON without spaces."""
    parts = table.users.get(name), table.acls.get(subject_of(name))
    return sum(len(msgspec.json.encode(part)) for part in parts if part is not None)


def _policies(table: UserTable, subject: str) -> list[PolicyInfo]:
    acl = table.acls.get(subject)
    return [] if acl is None else acl.policies or []


def _acl(subject: str, types: dict[str, dict[str, PolicyEntryInfo]]) -> AclInfo:
    policies = [
        PolicyInfo(policy_type=kind, entries=list(entries.values())) for kind, entries in types.items()
    ]
    return AclInfo(subject=subject, policies=policies)


def _ordered(names: Iterable[str]) -> list[str]:
    return sorted(names, key=str.encode)


def _name(name: str | None) -> str:
    if not (name or "").strip():
        raise UserError("username can not be blank")
    assert name is not None
    if not name.isprintable() or len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME:
        raise AclError(
            f"a username has only characters that can be printed, and at most {LONGEST_NAME} bytes"
        )
    return name


def _password(text: str | None) -> str:
    text = text or ""
    if not text.isprintable() or len(text.encode("utf-8", "surrogatepass")) > LONGEST_PASSWORD:
        raise AclError(
            f"a password has only characters that can be printed, and at most {LONGEST_PASSWORD} bytes"
        )
    return text


def _word(known: dict[str, str], text: str | None, what: str) -> str | None:
    """Return a word in Java's spelling, None if it is not given. Raises AclError for an unknown word."""
    if not text:
        return None
    found = known.get(text.lower())
    if found is None:
        raise AclError(f"the {what} is {' or '.join(known.values())}")
    return found
