"""Decides who may do what, by the policies of 5.x (5.3.3 `AclAuthorizationHandler`).

A policy entry matches a need by its resource, by one of the actions, and by the source address. The entries
of type Custom decide; those of type Default do if no Custom entry matches, and without any match, the need is
refused. Among several matches the most specific resource decides: a name before a longer prefix, this before
a shorter one, then all of a kind (`Topic:*`), and everything (`*`) last; for one resource, a denial decides.
5.3.3 prefers a shorter prefix and does not define the order of a name and a prefix; later versions decide as
here.

One rule is stricter than Java: only an entry with the name itself allows reading a topic in which a broker
keeps messages of other topics, and reading a dead-letter topic by any other entry also requires Sub of its
group. One is more generous: every user may send traces, unless an entry denies it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.acl.addresses import Address
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rmqcli.codec.names import RETRY_PREFIX

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

EVERYTHING: Final = "*"
TOPIC, GROUP, CLUSTER, NAMESPACE = "Topic", "Group", "Cluster", "Namespace"
KINDS: Final = {kind.lower(): kind for kind in (TOPIC, GROUP, CLUSTER, NAMESPACE)}
ACTIONS: Final = {
    "Pub": Permission.PUB,
    "Sub": Permission.SUB,
    "Create": Permission.CREATE,
    "Update": Permission.UPDATE,
    "Delete": Permission.DELETE,
    "Get": Permission.GET,
    "List": Permission.LIST,
}
ALL: Final = "All"
CUSTOM, DEFAULT = "Custom", "Default"
ALLOW, DENY = "Allow", "Deny"
SUPER, NORMAL = "Super", "Normal"
ENABLE, DISABLE = "enable", "disable"

LONGEST_RESOURCE: Final = 300
MOST_SOURCES: Final = 100

_ACTIONS: Final = {name.lower(): name for name in (*ACTIONS, ALL)}
_EVERY_ACTION: Final = Permission(sum(ACTIONS.values()))
_DECISIONS: Final = {name.lower(): name for name in (ALLOW, DENY)}
_TYPES: Final = {name.lower(): name for name in (CUSTOM, DEFAULT)}


class Resource(NamedTuple):
    """The resource of an entry: a kind, or everything; a name, or a prefix of names, which may be empty."""

    kind: str
    name: str
    is_prefix: bool

    @property
    def text(self) -> str:
        """The resource as 5.x writes it: `Topic:orders`, `Group:billing*`, `*`."""
        if self.kind == EVERYTHING:
            return EVERYTHING
        return f"{self.kind}:{self.name}{EVERYTHING if self.is_prefix else ''}"

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """The position in the order of entries, the most specific first."""
        return self.kind == EVERYTHING, self.is_prefix, -len(self.name)


class Entry(msgspec.Struct, frozen=True):
    """One entry of a policy. Without `networks`, it applies to all source addresses."""

    resource: Resource
    actions: Permission
    allows: bool
    networks: tuple[Network, ...] = ()

    @property
    def text(self) -> str:
        """The entry as the line that decides: `Topic:orders: Allow Pub,Sub`."""
        actions = ",".join(_names(self.actions))
        sources = f" from {','.join(map(str, self.networks))}" if self.networks else ""
        return f"{self.resource.text}: {ALLOW if self.allows else DENY} {actions}{sources}"

    def applies(self, permission: Permission, address: Address | None) -> bool:
        """Return True if the entry matches one of the actions, and the source address."""
        if not self.actions & permission:
            return False
        return not self.networks or (address is not None and any(address in one for one in self.networks))


class Policy(msgspec.Struct, frozen=True):
    """The entries of one type: those of a name by the name of the need, the others in their order."""

    named: Mapping[str, tuple[Entry, ...]] = {}
    patterns: tuple[Entry, ...] = ()

    def match(
        self, name: str, permission: Permission, address: Address | None, *, kept: bool
    ) -> Entry | None:
        """Return the entry that decides about a need of this name. If the topic is `kept` by the broker, only an
        entry of its name allows it."""
        for entry in self.named.get(name, ()):
            if entry.applies(permission, address):
                return entry
        kind = kind_of(name)
        for entry in self.patterns:
            of_kind, prefix, _ = entry.resource
            if of_kind != EVERYTHING and (of_kind != kind or not _bare(name).startswith(prefix)):
                continue
            if entry.applies(permission, address) and not (kept and entry.allows):
                return entry
        return None


class User(msgspec.Struct, frozen=True):
    """A user with its policies. `admin` is a super user, `bound` one with entries for some source addresses."""

    access_key: str
    secret_key: str
    admin: bool = False
    enabled: bool = True
    custom: Policy = Policy()
    default: Policy = Policy()
    bound: bool = False
    cluster: str = ""

    def __repr__(self) -> str:
        return f"User({self.access_key!r})"

    def match(
        self, name: str, permission: Permission, address: Address | None, *, kept: bool
    ) -> Entry | None:
        """Return the entry that decides about a need."""
        return self.custom.match(name, permission, address, kept=kept) or self.default.match(
            name, permission, address, kept=kept
        )

    def shown(self, name: str) -> str:
        """Return the resource of a need as 5.x writes it."""
        return f"{kind_of(name)}:{_bare(name) or self.cluster}"


def kind_of(name: str) -> str:
    """Return the kind of the resource of a need: a group is named by its retry topic, the cluster by an empty
    name.
    """
    if not name:
        return CLUSTER
    return GROUP if name.startswith(RETRY_PREFIX) else TOPIC


def _bare(name: str) -> str:
    return name.removeprefix(RETRY_PREFIX)


def user_of(info: UserInfo, acl: AclInfo | None, cluster: str) -> User:
    """Return a user with its policies, as a broker of this cluster applies them. Raises AclError."""
    policies = [] if acl is None else acl.policies or []
    entries = {
        kind: [
            entry_of(one)
            for policy in policies
            if (policy.policy_type or CUSTOM) == kind
            for one in policy.entries or ()
        ]
        for kind in (CUSTOM, DEFAULT)
    }
    return User(
        access_key=info.username or "",
        secret_key=info.password or "",
        admin=info.user_type == SUPER,
        enabled=info.user_status != DISABLE,
        custom=_policy(entries[CUSTOM], cluster),
        default=_policy(entries[DEFAULT], cluster),
        bound=any(entry.networks for some in entries.values() for entry in some),
        cluster=cluster,
    )


def _policy(entries: Iterable[Entry], cluster: str) -> Policy:
    named: dict[str, tuple[Entry, ...]] = {}
    patterns: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: (entry.resource.rank, entry.allows)):
        kind, name, is_prefix = entry.resource
        if kind == CLUSTER:
            # Needs name no cluster, because it is always that of the broker.
            if not (cluster.startswith(name) if is_prefix else cluster == name):
                continue
            name = ""
            entry = (
                entry
                if not is_prefix
                else msgspec.structs.replace(entry, resource=Resource(kind, name, True))
            )
        if is_prefix:
            patterns.append(entry)
        elif kind in (CLUSTER, GROUP) or (kind == TOPIC and not name.startswith(RETRY_PREFIX)):
            key = RETRY_PREFIX + name if kind == GROUP else name
            named[key] = (*named.get(key, ()), entry)
    return Policy(named, tuple(patterns))


def parse_resource(text: str | None) -> Resource:
    """Return the resource of an entry. Raises AclError.

    Java ignores text after the first * of a name that ends with one, and reads `Any:x` as everything.
    """
    if not (text or "").strip():
        raise AclError("The resource is null.")
    assert text is not None
    if text == EVERYTHING:
        return Resource(EVERYTHING, "", True)
    kind_text, _, name = text.partition(":")
    kind = KINDS.get(kind_text.lower())
    if kind is None or not name:
        raise AclError(
            f"The resource {text[:LONGEST_RESOURCE]!r} is neither * nor {', '.join(KINDS.values())} with : and a name."
        )
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST_RESOURCE or not text.isprintable():
        raise AclError(
            f"The resource has characters that cannot be printed, or more than {LONGEST_RESOURCE} bytes."
        )
    is_prefix = name.endswith(EVERYTHING)
    name = name.removesuffix(EVERYTHING)
    if EVERYTHING in name:
        raise AclError(f"The resource {text!r} has a * that is not its end.")
    return Resource(kind, name, is_prefix)


def entry_of(info: PolicyEntryInfo) -> Entry:
    """Return the entry in a request or a file. Raises AclError with Java's text if it has one."""
    resource = parse_resource(info.resource)
    actions = Permission(0)
    for text in info.actions or ():
        if text.lower() == "any":
            raise AclError("The actions can not be Any.")
        name = _ACTIONS.get(text.lower())
        if name is None:
            raise AclError(f"The action {text[:LONGEST_RESOURCE]!r} is unknown.")
        actions |= ACTIONS.get(name, _EVERY_ACTION)
    if not actions:
        raise AclError("The actions is empty.")
    decision = _DECISIONS.get((info.decision or "").lower())
    if decision is None:
        raise AclError("The decision is null or illegal.")
    return Entry(resource, actions, decision == ALLOW, parse_sources(info.source_ips or ()))


def parse_sources(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return the addresses and networks of an entry. Raises AclError."""
    if len(texts) > MOST_SOURCES:
        raise AclError(f"The entry has {len(texts)} source ips, {MOST_SOURCES} is the limit.")
    found: list[Network] = []
    for text in texts:
        if not text.strip():
            raise AclError("The source ip is empty.")
        _, slash, size = text.partition("/")
        try:
            # Java does not accept network masks, and accepts host names only by accident.
            if "%" in text or (slash and not (size.isascii() and size.isdigit())):
                raise ValueError
            found.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise AclError("The source ip is invalid.") from None
    return tuple(found)


def entry_info(info: PolicyEntryInfo) -> PolicyEntryInfo:
    """Return an entry in the spelling of 5.x. Raises AclError."""
    entry = entry_of(info)
    actions = dict.fromkeys(_ACTIONS[text.lower()] for text in info.actions or ())
    return PolicyEntryInfo(
        resource=entry.resource.text,
        actions=list(actions),
        source_ips=list(info.source_ips) if info.source_ips else None,
        decision=ALLOW if entry.allows else DENY,
    )


def policy_type(text: str | None) -> str:
    """Return the type of a policy, by default Custom. Raises AclError."""
    if not text:
        return CUSTOM
    found = _TYPES.get(text.lower())
    if found is None:
        raise AclError(f"The policy type {text[:LONGEST_RESOURCE]!r} is neither {CUSTOM} nor {DEFAULT}.")
    return found


def policy_info(info: PolicyInfo) -> PolicyInfo:
    """Return a policy in the spelling of 5.x. Raises AclError."""
    return PolicyInfo(
        policy_type=policy_type(info.policy_type), entries=[*map(entry_info, info.entries or ())]
    )


def _names(actions: Permission) -> list[str]:
    if actions == _EVERY_ACTION:
        return [ALL]
    return [name for name, bit in ACTIONS.items() if bit & actions]
