"""Policies of 5.x: which entry decides, against a plain reference; what an entry may state."""

from __future__ import annotations

import ipaddress
import random

import pytest

from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.acl.addresses import read_address
from rmqcli.codec.acl.decision import (
    Attempt,
    Decision,
    Identified,
    Need,
    Rules,
    decide,
    identify,
    on_cluster,
    permit,
)
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.acl.policies import User, entry_info, entry_of, policy_type, user_of
from rmqcli.codec.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rmqcli.codec.names import SystemTopic
from tests.seeds import seeds

CLUSTER = "DefaultCluster"
NAMES = ("a", "ab", "abc", "b", "%DLQ%a", "%DLQ%g", str(SystemTopic.SCHEDULE), str(SystemTopic.TRACE))
GROUPS = ("a", "ab", "g")
ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
RESOURCES = (
    *(
        "*",
        "Topic:*",
        "Group:*",
        "Cluster:*",
        "Topic:a*",
        "Topic:ab*",
        "Topic:%DLQ%*",
        "Topic:%RETRY%a",
        "Topic:%R*",
    ),
    *(
        "Group:a*",
        "Cluster:Def*",
        f"Cluster:{CLUSTER}",
        "Cluster:Other",
        "Namespace:*",
        "Namespace:a",
        "Topic:R*",
    ),
    *(f"Topic:{name}" for name in NAMES),
    *(f"Group:{name}" for name in GROUPS),
)
SOURCES: tuple[list[str], ...] = ([], [], [], ["10.0.0.0/8"], ["10.1.1.1"], ["::1", "192.168.0.0/16"])
HOSTS = ("10.1.1.1", "10.2.2.2", "::1", "192.168.3.4")
TEXTS = {permission.name: permission.name.capitalize() for permission in Permission if permission.name}


def any_entry(rng: random.Random) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource=rng.choice(RESOURCES),
        actions=rng.sample(ACTIONS, rng.randint(1, 3)),
        source_ips=rng.choice(SOURCES),
        decision=rng.choice(("Allow", "Allow", "Deny")),
    )


def any_user(rng: random.Random) -> tuple[User, dict[str, dict[str, PolicyEntryInfo]]]:
    """A user, and its entries by type and resource: one for each, as a broker keeps them."""
    types: dict[str, dict[str, PolicyEntryInfo]] = {"Custom": {}, "Default": {}}
    for kind, most in (("Custom", 7), ("Default", 3)):
        for _ in range(rng.randint(0, most)):
            entry = any_entry(rng)
            types[kind][entry.resource or ""] = entry
    policies = [PolicyInfo(policy_type=kind, entries=list(found.values())) for kind, found in types.items()]
    info = UserInfo(username="u", password="p", user_type="Normal")
    return user_of(info, AclInfo(subject="User:u", policies=policies), CLUSTER), types


def any_need(rng: random.Random) -> Need:
    bits = rng.sample([one for one in Permission if one.name != "DENY"], rng.randint(1, 3))
    permission = Permission(sum(bits))
    name = rng.choice(("", *NAMES, *(f"%RETRY%{group}" for group in GROUPS)))
    return Need(name, permission)


def rank_of(resource: str, kind: str, name: str) -> tuple[int, int] | None:
    """How specific a resource is, the more the greater; None if it is another one."""
    if resource == "*":
        return 0, 0
    of_kind, _, pattern = resource.partition(":")
    if of_kind != kind or not (name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern):
        return None
    return (3, 0) if not pattern.endswith("*") else (1 if pattern == "*" else 2, len(pattern))


def applies(entry: PolicyEntryInfo, wanted: set[str], host: str) -> bool:
    given, ips = set(entry.actions or ()), entry.source_ips or []
    address = ipaddress.ip_address(host)
    is_from = not ips or any(address in ipaddress.ip_network(ip) for ip in ips)
    return is_from and bool("All" in given or given & wanted)


def reference(types: dict[str, dict[str, PolicyEntryInfo]], need: Need, host: str) -> bool:
    """The rules, as the page states them."""
    kind, name = ("Cluster", CLUSTER) if not need.name else ("Topic", need.name)
    if need.name.startswith("%RETRY%"):
        kind, name = "Group", need.name[7:]
    wanted = {text for bit, text in TEXTS.items() if Permission[bit] & need.permission}
    reads = kind == "Topic" and "Sub" in wanted
    for entries in (types["Custom"], types["Default"]):
        matching: list[tuple[tuple[int, int], bool]] = []
        for resource, entry in entries.items():
            rank, denies = rank_of(resource, kind, name), entry.decision == "Deny"
            if rank is None or not applies(entry, wanted, host):
                continue
            if reads and name == SystemTopic.SCHEDULE and rank[0] < 3 and not denies:
                continue
            matching.append((rank, denies))
        if matching:
            rank, denies = max(matching)
            if not denies and reads and name.startswith("%DLQ%") and rank[0] < 3:
                return reference(types, Need("%RETRY%" + name[5:], Permission.SUB), host)
            return not denies
    return need == Need(SystemTopic.TRACE, Permission.PUB)


@pytest.mark.parametrize("seed", seeds(2))
def test_policies_decide_as_the_reference_does(seed: int) -> None:
    rng = random.Random(seed)
    allowed = 0
    for _ in range(600):
        user, types = any_user(rng)
        for _ in range(5):
            need, host = any_need(rng), rng.choice(HOSTS)
            decision = permit(Identified(user, "User:u", read_address(host)), None, (need,))
            assert decision.allowed == reference(types, need, host), (types, need, host, decision)
            allowed += decision.allowed
    assert 300 < allowed < 2700


def user(*entries: PolicyEntryInfo, default: tuple[PolicyEntryInfo, ...] = (), **members: str) -> User:
    policies = [
        PolicyInfo(policy_type="Custom", entries=list(entries)),
        PolicyInfo(policy_type="Default", entries=list(default)),
    ]
    return user_of(UserInfo(username="u", password="p", **members), AclInfo(policies=policies), CLUSTER)


def entry(resource: str, *actions: str, decision: str = "Allow") -> PolicyEntryInfo:
    return PolicyEntryInfo(resource=resource, actions=list(actions), decision=decision)


def asked(subject: User, *needs: Need, host: str = "10.1.1.1", signed: bool = True) -> Decision:
    attempt = Attempt(read_address(host), "u", lambda: needs, None, lambda _subject: signed)
    return decide(Rules(users={"u": subject}), attempt)


ORDERS = Need("orders", Permission.PUB)


def test_refusals_have_the_texts_of_java() -> None:
    nobody = Rules(users={})
    address = read_address("10.1.1.1")
    for key, text in (
        (None, "username cannot be null."),
        ("", "username cannot be null."),
        ("x", "User:x is not found."),
    ):
        found = identify(nobody, Attempt(address, key))
        assert isinstance(found, Decision) and (found.refusal, found.by_policy) == (text, True)
    assert asked(user(user_status="disable"), ORDERS).refusal == "User:u is disabled."
    assert asked(user(), ORDERS, signed=False).refusal == "check signature failed."
    refusal = "User:u has no permission to access {} from 10.1.1.1, {}"
    none = asked(user(entry("Topic:orders", "Sub")), ORDERS)
    assert (none.refusal, none.by_policy) == (refusal.format("Topic:orders", "no matched policies."), True)
    denied = asked(user(entry("Topic:o*", "Pub", decision="Deny"), entry("*", "All")), ORDERS)
    assert denied.refusal == refusal.format("Topic:orders", "the decision is deny.")
    assert denied.line == "User:u: Topic:o*: Deny Pub"
    of_cluster = asked(user(), on_cluster(Permission.UPDATE))
    assert of_cluster.refusal == refusal.format("Cluster:DefaultCluster", "no matched policies.")
    of_group = asked(user(), Need("%RETRY%g", Permission.SUB), host="::1")
    assert of_group.refusal == "User:u has no permission to access Group:g from ::1, no matched policies."


def test_every_need_has_to_be_allowed_and_a_super_user_has_none() -> None:
    both = ORDERS, Need("%RETRY%g", Permission.SUB)
    assert not asked(user(entry("Topic:orders", "Pub")), *both).allowed
    assert asked(user(entry("Topic:orders", "Pub"), entry("Group:g", "Sub")), *both).allowed
    assert asked(user(user_type="Super"), *both).allowed


def test_the_default_applies_only_where_no_custom_entry_does() -> None:
    everything = (entry("*", "All"),)
    assert asked(user(default=everything), ORDERS).allowed
    assert not asked(user(entry("*", "Pub", decision="Deny"), default=everything), ORDERS).allowed
    assert asked(user(entry("*", "Sub", decision="Deny"), default=everything), ORDERS).allowed


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ({"resource": ""}, "The resource is null."),
        ({"resource": "orders"}, "neither * nor Topic, Group, Cluster, Namespace with : and a name"),
        ({"resource": "Any:orders"}, "neither * nor"),
        ({"resource": "Topic:"}, "neither * nor"),
        ({"resource": "Topic:a*b*"}, "has a * that is not its end"),
        ({"resource": "Topic:a*b"}, "has a * that is not its end"),
        ({"resource": "Topic:a\0b"}, "cannot be printed"),
        ({"resource": "Topic:" + "x" * 300}, "more than 300 bytes"),
        ({"actions": []}, "The actions is empty."),
        ({"actions": ["Any"]}, "The actions can not be Any."),
        ({"actions": ["Pubb"]}, "The action 'Pubb' is unknown."),
        ({"decision": "Maybe"}, "The decision is null or illegal."),
        ({"decision": None}, "The decision is null or illegal."),
        ({"source_ips": [" "]}, "The source ip is empty."),
        ({"source_ips": ["10.0.0.*"]}, "The source ip is invalid."),
        ({"source_ips": ["10.0.0.0/33"]}, "The source ip is invalid."),
        ({"source_ips": ["10.0.0.0/255.0.0.0"]}, "The source ip is invalid."),
        ({"source_ips": ["host/8"]}, "The source ip is invalid."),
        ({"source_ips": ["fe80::1%eth0"]}, "The source ip is invalid."),
        ({"source_ips": ["10.0.0.1"] * 101}, "100 is the limit"),
    ],
)
def test_what_an_entry_cannot_state(broken: dict[str, object], text: str) -> None:
    members = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"} | broken
    with pytest.raises(AclError) as caught:
        entry_of(PolicyEntryInfo(**members))  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_words_are_read_in_any_case_and_shown_as_java_does() -> None:
    given = PolicyEntryInfo(
        resource="toPIC:Orders*", actions=["pUB", "Pub", "SUB"], source_ips=["10.0.0.1/8"], decision="ALLOW"
    )
    assert entry_info(given) == PolicyEntryInfo(
        resource="Topic:Orders*", actions=["Pub", "Sub"], source_ips=["10.0.0.1/8"], decision="Allow"
    )
    assert (policy_type(None), policy_type("default")) == ("Custom", "Default")
    with pytest.raises(AclError, match="neither Custom nor Default"):
        policy_type("Other")
