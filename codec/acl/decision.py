"""Decides who may do what, for the accounts of 4.9 (4.9.8 `PlainPermissionManager.validate`) and the users
of 5.x (5.3.3 `DefaultAuthenticationHandler`, `UserAuthorizationHandler`), and names the line that decides.

The order is: global whitelist; the access key, which is that of an account or the name of a user; the
whitelisted address of an account; the signature; traces; then for an account, requests for administrators,
and the permission for each resource, or the default; for a user, its policies (`rmqcli.codec.acl.policies`).

This is stricter than Java: no default permission covers reading a topic in which a broker keeps messages of
other topics. It covers a dead-letter topic only if the account may consume as the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from rmqcli.codec.acl.account_file import OF_FILES, Account, AccountFile, Permission
from rmqcli.codec.acl.addresses import Address, AddressRule
from rmqcli.codec.acl.policies import User
from rmqcli.codec.names import DLQ_PREFIX, RETRY_PREFIX, SystemTopic, keeps_others


class Need(NamedTuple):
    """A permission for a topic, for a group by the name of its retry topic, or for the cluster of the broker, whose
    name is empty here. If it has several actions, any of them is enough.
    """

    name: str
    permission: Permission

    @property
    def shown(self) -> str:
        """The resource as Java writes it: `topic:orders`, `group:billing`."""
        if self.name.startswith(RETRY_PREFIX):
            return f"group:{self.name.removeprefix(RETRY_PREFIX)}"
        return f"topic:{self.name}"


def on_topic(name: str, permission: Permission) -> Need:
    """Return the need of a permission for a topic."""
    return Need(name, permission)


def on_group(name: str, permission: Permission = Permission.SUB) -> Need:
    """Return the need of a permission for a group, by default to consume as it."""
    return Need(RETRY_PREFIX + name, permission)


def on_cluster(permission: Permission) -> Need:
    """Return the need of a permission for the cluster of the broker."""
    return Need("", permission)


def _none() -> tuple[Need, ...]:
    return ()


def _is_signed(_subject: Subject) -> bool:
    return True


Subject = Account | User


class Attempt(NamedTuple):
    """A request. `needs` is called once its signature is known to be correct, which `signed` checks;
    `admin_code` is the code of a request for administrators.
    """

    address: Address | None
    access_key: str | None
    needs: Callable[[], tuple[Need, ...]] = _none
    admin_code: int | None = None
    signed: Callable[[Subject], bool] = _is_signed


class Decision(NamedTuple):
    """The result of a check. `refusal` is Java's text, or empty if the attempt is allowed; `line` states what
    decides. The text of a refusal `by_policy` is that of 5.x, with another code.
    """

    refusal: str
    line: str
    by_policy: bool = False

    @property
    def allowed(self) -> bool:
        return not self.refusal


class Rules(msgspec.Struct, frozen=True):
    """The rules of all files: whitelisted addresses and accounts with the path of their file; the users by
    name, None if they have no access.
    """

    white: tuple[tuple[AddressRule, str], ...] = ()
    accounts: Mapping[str, tuple[Account, str]] = {}
    users: Mapping[str, User] | None = None

    def subject(self, key: str | None) -> Subject | None:
        """Return the account or the user with an access key."""
        found = self.accounts.get(key or "")
        return found[0] if found is not None else (self.users or {}).get(key or "")

    def __repr__(self) -> str:
        return f"Rules({len(self.accounts)} accounts, {len(self.users or ())} users)"


def merged(files: Iterable[AccountFile]) -> Rules:
    """Return the rules of files in their order; the first account with an access key takes precedence."""
    white: list[tuple[AddressRule, str]] = []
    accounts: dict[str, tuple[Account, str]] = {}
    for file in files:
        white += [(rule, file.path) for rule in file.white]
        for account in file.accounts:
            accounts.setdefault(account.access_key, (account, file.path))
    return Rules(tuple(white), accounts)


def duplicates(files: Iterable[AccountFile]) -> list[tuple[str, str]]:
    """Return the access keys that occur again in a later file, each with that file."""
    seen: dict[str, str] = {}
    pairs = [(account.access_key, file.path) for file in files for account in file.accounts]
    return [(key, path) for key, path in pairs if seen.setdefault(key, path) != path]


TRACE: Final = Need(SystemTopic.TRACE, Permission.PUB)
"""Every account may send traces."""


class Identified(NamedTuple):
    """An account whose permissions decide, and its place in a file; or a user, and its source address."""

    account: Subject
    place: str
    address: Address | None = None


def decide(rules: Rules, attempt: Attempt) -> Decision:
    """Return the decision about an attempt. Raises the errors of `needs`."""
    found = identify(rules, attempt)
    return found if isinstance(found, Decision) else permit(found, attempt.admin_code, attempt.needs())


def identify(rules: Rules, attempt: Attempt) -> Decision | Identified:
    """Return the account or the user that makes an attempt, or the decision if its permissions do not matter."""
    address, key = attempt.address, attempt.access_key
    if address is not None:
        for rule, path in rules.white:
            if rule.matches(address):
                return Decision("", f"{path}: globalWhiteRemoteAddresses: {rule.text}")
    found = rules.accounts.get(key or "")
    if found is None:
        return _unknown(key) if rules.users is None else _identify_user(rules.users, attempt)
    account, path = found
    place = f"{path}: {key}"
    if address is not None and account.white.matches(address):
        return Decision("", f"{place}: whiteRemoteAddress: {account.white.text}")
    if not attempt.signed(account):
        return Decision(f"Check signature failed for accessKey={key}", f"{place}: secretKey")
    return Identified(account, place)


def _unknown(key: str | None) -> Decision:
    if key is None:
        return Decision("No accessKey is configured", "no white address matches, and there is no access key")
    return Decision(f"No acl config for {key}", "no file has this access key")


def _identify_user(users: Mapping[str, User], attempt: Attempt) -> Decision | Identified:
    if not attempt.access_key:
        return Decision("username cannot be null.", "there is no access key", by_policy=True)
    user = users.get(attempt.access_key)
    place = f"User:{attempt.access_key}"
    if user is None:
        return Decision(f"{place} is not found.", place, by_policy=True)
    if not user.enabled:
        return Decision(f"{place} is disabled.", place, by_policy=True)
    if not attempt.signed(user):
        return Decision("check signature failed.", f"{place}: password", by_policy=True)
    return Identified(user, place, attempt.address)


def permit(found: Identified, admin_code: int | None, needs: tuple[Need, ...]) -> Decision:
    """Return the decision about the permissions of an account or a user. The same arguments always lead to the
    same decision.
    """
    if isinstance(found.account, User):
        return _permit_user(found.account, found, needs)
    return _permit_account(found.account, found.place, admin_code, needs)


def _permit_account(
    account: Account, place: str, admin_code: int | None, needs: tuple[Need, ...]
) -> Decision:
    if needs == (TRACE,):
        return Decision("", f"every account may send to {TRACE.name}")
    if admin_code is not None and not account.admin:
        return Decision(
            f"Need admin permission for request code={admin_code}, but accessKey={account.access_key} is not",
            f"{place}: admin: false",
        )
    # Being an administrator covers what a file cannot state.
    needs = tuple(need for need in needs if need.permission & OF_FILES)
    if not needs:
        return Decision("", f"{place}: {'admin: true' if admin_code is not None else 'any account'}")
    if account.admin and not account.permissions:
        return Decision("", f"{place}: admin: true, without permissions of its own")
    lines = []
    for need in needs:
        owned, line = _owned(account, need)
        lines.append(f"{place}: {line}")
        if owned & Permission.DENY or not owned & need.permission:
            return Decision(f"No default permission for {need.shown}", lines[-1])
    return Decision("", "; ".join(lines))


def _permit_user(user: User, found: Identified, needs: tuple[Need, ...]) -> Decision:
    if user.admin:
        return Decision("", f"{found.place}: Super")
    lines = []
    for need in needs:
        refusal, line = _by_policies(user, found, need)
        lines.append(f"{found.place}: {line}")
        if refusal:
            text = f"{found.place} has no permission to access {user.shown(need.name)} from {found.address}, {refusal}"
            return Decision(text, lines[-1], by_policy=True)
    return Decision("", "; ".join(lines) or f"{found.place}: any user")


def _by_policies(user: User, found: Identified, need: Need) -> tuple[str, str]:
    """Return the reason why the policies refuse a need, "" if they allow it, and what decides."""
    name, permission = need
    reads = bool(permission & Permission.SUB) and bool(name) and not name.startswith(RETRY_PREFIX)
    entry = user.match(name, permission, found.address, kept=reads and keeps_others(name))
    if entry is None:
        if need == TRACE:
            return "", f"every user may send to {TRACE.name}"
        return "no matched policies.", "no policy matches"
    if not entry.allows:
        return "the decision is deny.", entry.text
    if reads and name.startswith(DLQ_PREFIX) and entry.resource.is_prefix:
        refusal, line = _by_policies(user, found, on_group(name.removeprefix(DLQ_PREFIX)))
        if refusal:
            return refusal, line
    return "", entry.text


def _owned(account: Account, need: Need) -> tuple[Permission, str]:
    """Return the permission of an account for a resource, and the member that states it."""
    is_group = need.name.startswith(RETRY_PREFIX)
    owned = account.permissions.get(need.name)
    if owned is not None:
        member, name = (
            ("groupPerms", need.name.removeprefix(RETRY_PREFIX)) if is_group else ("topicPerms", need.name)
        )
        return owned, f"{member}: {name}={permission_text(owned)}"
    if is_group:
        return account.default_group, f"defaultGroupPerm: {permission_text(account.default_group)}"
    owned, line = account.default_topic, f"defaultTopicPerm: {permission_text(account.default_topic)}"
    if not need.permission & Permission.SUB:
        return owned, line
    if keeps_others(need.name):
        return Permission.DENY, f"{line}, which does not cover {need.name}"
    if need.name.startswith(DLQ_PREFIX):
        of_group, group_line = _owned(account, on_group(need.name.removeprefix(DLQ_PREFIX)))
        if of_group & Permission.DENY or not of_group & Permission.SUB:
            return Permission.DENY, group_line
    return owned, line


def permission_text(permission: Permission) -> str:
    """Return a permission as files state it: `PUB|SUB`."""
    return "|".join(
        one.name or "" for one in (Permission.DENY, Permission.PUB, Permission.SUB) if one & permission
    )
