"""Accounts of 4.9: the versions of their files on brokers, checks before a change, refusals in plain words.

Facts of 4.9.8: `AdminBrokerProcessor`, `PlainPermissionManager`, `Permission`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rmqcli.client import Admin, BrokerRefused, ClientError, NotFound, TopicChange
from rmqcli.client.admin.access import subject_of, user_of
from rmqcli.codec.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.acl import CreateAccessConfigRequestHeader, GetBrokerAclConfigResponseHeader
from rmqcli.flows.errors import InvalidInput
from rmqcli.grammar.values import by_name

OFF: Final = "access control is off (aclEnable=false)"
SHORTEST_KEY: Final = 7
PERMISSIONS: Final = ("DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB")
_REFUSALS: Final = frozenset((209, 210, 211))
"""Codes of failed changes: account, deletion, whitelist. 5.x uses these numbers for other purposes."""


class Versions(NamedTuple):
    """`files`: broker, path, counter, time in epoch ms of each file; `off`: brokers without access control."""

    files: list[list[Any]]
    off: dict[str, str]


async def read_versions(admin: Admin, seats: Mapping[str, str], failures: dict[str, ClientError]) -> Versions:
    """Query brokers with access control for the versions of their files. Brokers without it are not queried:
    they would never respond (4.9.8).
    """
    configs = await admin.brokers.configs(seats, failures=failures)
    off = {label: OFF for label, table in configs.items() if table.get("aclEnable") == "false"}
    asked = {label: seats[label] for label in configs if label not in off}
    found = await admin.access.versions(asked, failures=failures) if asked else {}
    return Versions([row for label, header in found.items() for row in _files(label, header)], off)


def _files(label: str, header: GetBrokerAclConfigResponseHeader) -> list[list[Any]]:
    """Return the files of a broker, or only its default file if it names none."""
    files = json.loads(header.all_acl_file_version or "{}") or {"": json.loads(header.version)}
    return [
        [label, path, found.get("counter"), found.get("timestamp")] for path, found in sorted(files.items())
    ]


def account_of(
    key: str, secret: str, given: Mapping[str, Any], topics: Collection[str], groups: Collection[str]
) -> CreateAccessConfigRequestHeader:
    """Return the account. Raise InvalidInput for values that every broker of 4.9 refuses."""
    for what, text in (("access key", key), ("secret key", secret)):
        if len(text) < SHORTEST_KEY:
            raise InvalidInput(f"the {what} is too short: brokers of 4.9 require more than 6 characters")
    for text in (given["default_topic_perm"], given["default_group_perm"]):
        _check_permission(text, text)
    for text in (*topics, *groups):
        name, _, permission = text.partition("=")
        _check_permission(permission if name.strip() and "," not in text else "", text)
    for option, texts in (("--topic", topics), ("--group", groups)):
        by_name(option, ((name.strip(), text) for text in texts for name in [text.partition("=")[0]]))
    return CreateAccessConfigRequestHeader(
        access_key=key,
        secret_key=secret,
        topic_perms=",".join(topics) or None,
        group_perms=",".join(groups) or None,
        **given,
    )


def _check_permission(permission: str | None, text: str | None) -> None:
    if permission is not None and permission.strip() not in PERMISSIONS:
        raise InvalidInput(f"{text!r}: expected {' or '.join(PERMISSIONS[:4])}, after a name and = in lists")


def checked_addresses(addresses: Collection[str]) -> list[str]:
    """Return the addresses. Raise InvalidInput for a blank one, or a comma, even in braces: brokers split the
    list at every comma.
    """
    for one in addresses:
        if not one.strip() or "," in one:
            raise InvalidInput(f"{one!r}: expected one address, or a range such as 10.0.*.* or 10.0.0.1-9")
    return list(addresses)


def explained(error: ClientError) -> ClientError:
    """Return the error, or a clearer one if access control is off, because Java's remark is then a null
    pointer exception.
    """
    if not isinstance(error, BrokerRefused) or error.code not in _REFUSALS:
        return error
    if error.remark and OFF not in error.remark and "accessvalidator" not in error.remark.lower():
        return error
    text = f"{OFF} at {error.address}"
    return BrokerRefused(ResponseCode.SYSTEM_ERROR, text, error.address, error.request, concluded=True)


# Users and policies of 5.x: checks before a change, rows of a table, copies from one broker to another.
#
# Facts of 5.3.3: `auth.authorization.model`, `CopyUsersSubCommand`, `CopyAclsSubCommand`.

# Permissions of an account: decided here from files of accounts (4.9), or queried from a broker.
#
# A broker is queried with requests that change nothing.

ACTIONS: Final = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
KINDS: Final = ("Topic", "Group", "Cluster", "Namespace")
EVERYTHING: Final = "*"


def type_of(*, default: bool) -> str:
    """Return the name of the type of a policy."""
    return "Default" if default else "Custom"


def acl_of(
    name: str,
    resources: Collection[str],
    actions: Collection[str],
    sources: Collection[str],
    *,
    deny: bool,
    default: bool,
) -> AclInfo:
    """Return the policies of a user. Raise InvalidInput for resources and actions that 5.x does not know."""
    entries = [
        PolicyEntryInfo(
            resource=_resource(text),
            actions=[_action(one) for one in actions],
            source_ips=list(sources) or None,
            decision="Deny" if deny else "Allow",
        )
        for text in resources
    ]
    if not actions:
        raise InvalidInput(f"no action: use --action with {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}")
    return AclInfo(
        subject=subject_of(name), policies=[PolicyInfo(policy_type=type_of(default=default), entries=entries)]
    )


def _resource(text: str) -> str:
    kind, colon, name = text.partition(":")
    found = next((one for one in KINDS if one.lower() == kind.lower()), None)
    if text != EVERYTHING and not (found and colon and name):
        raise InvalidInput(f"{text!r}: expected * or {', '.join(f'{one}:NAME' for one in KINDS)}")
    return text if found is None else f"{found}:{name}"


def _action(text: str) -> str:
    found = next((one for one in ACTIONS if one.lower() == text.lower()), None)
    if found is None:
        raise InvalidInput(f"--action {text}: expected {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}")
    return found


def policy_rows(acl: AclInfo) -> Iterator[list[Any]]:
    """Yield user, type, resource, actions, sources, decision of each policy."""
    for policy in acl.policies or ():
        for one in policy.entries or ():
            places = [one.resource, one.actions or [], one.source_ips or [], one.decision]
            yield [user_of(acl.subject), policy.policy_type, *places]


async def copy_users(
    admin: Admin, source: str, target: dict[str, str], names: Collection[str]
) -> TopicChange:
    """Create or update the users of a broker on another one; `brokers` of the result are users.

    Raise NotFound if a name is unknown at the source.
    """
    found = {user.username or "": user for user in (await admin.access.users({"": source}))[""]}
    _known(admin, found, names, "user", "AUTH_LIST_USER")
    there = {user.username for user in next(iter((await admin.access.users(target)).values()))}
    done, failures = [], {}
    for name in names or found:
        put = admin.access.update_user if name in there else admin.access.create_user
        try:
            await put(target, found[name])
            done.append(name)
        except ClientError as error:
            failures[name] = error
    return TopicChange(tuple(done), failures)


async def copy_policies(
    admin: Admin, source: str, target: dict[str, str], names: Collection[str]
) -> TopicChange:
    """Set the policies of a broker's users on another one; `brokers` of the result are users."""
    found = {user_of(acl.subject): acl for acl in (await admin.access.policies({"": source}))[""]}
    _known(admin, found, names, "policies of", "AUTH_LIST_ACL")
    done, failures = [], {}
    for name in names or found:
        try:
            await admin.access.put_policies(target, found[name])
            done.append(name)
        except ClientError as error:
            failures[name] = error
    return TopicChange(tuple(done), failures)


def _known(admin: Admin, found: Collection[str], names: Collection[str], what: str, request: str) -> None:
    for name in names:
        if name not in found:
            raise NotFound(22, f"no {what} {name} at the source", "", request, concluded=True)
