"""Users and policies of 5.x: checks before a change, rows of a table, copies from one broker to another.

Facts of 5.3.3: `auth.authorization.model`, `CopyUsersSubCommand`, `CopyAclsSubCommand`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from codec.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo
from rmqcli.client import Admin, ClientError, NotFound, TopicChange
from rmqcli.client.admin.access import subject_of, user_of
from rmqcli.flows.errors import InvalidInput

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
    """Return the policies of a user; InvalidInput for resources and actions that 5.x does not know."""
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

    NotFound if a name is unknown at the source.
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
