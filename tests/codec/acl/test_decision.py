"""Who may do what: the order of the checks, and the line that decides."""

from __future__ import annotations

import pytest

from rmqcli.codec.acl.account_file import Permission, parse_file
from rmqcli.codec.acl.addresses import read_address
from rmqcli.codec.acl.decision import (
    Attempt,
    Decision,
    Need,
    Rules,
    decide,
    duplicates,
    merged,
    on_group,
    on_topic,
)
from rmqcli.codec.names import SystemTopic

FILE = b"""
globalWhiteRemoteAddresses: [10.0.0.*]
accounts:
- {accessKey: ordinary, secretKey: secret-1, topicPerms: [a=PUB, b=SUB, c=PUB|SUB, d=DENY], groupPerms: [g=SUB, p=PUB]}
- {accessKey: generous, secretKey: secret-2, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB, topicPerms: [d=DENY]}
- {accessKey: operator, secretKey: secret-3, admin: true}
- {accessKey: bounded1, secretKey: secret-4, admin: true, topicPerms: [a=PUB]}
- {accessKey: bystander, secretKey: secret-6, defaultTopicPerm: PUB|SUB, topicPerms: ['%DLQ%o=SUB', SCHEDULE_TOPIC_XXXX=SUB]}
- {accessKey: addressed, secretKey: secret-5, whiteRemoteAddress: 192.168.0.1}
"""
RULES = merged([parse_file("f", FILE)])
PUB, SUB = Permission.PUB, Permission.SUB
A, B, C, D, G, P, X = (
    on_topic("a", PUB), on_topic("b", SUB), on_topic("c", SUB), on_topic("d", PUB), on_group("g"), on_group("p"),
    on_topic("x", PUB),
)  # fmt: skip
TRACE = on_topic(SystemTopic.TRACE, PUB)
KEPT = (SystemTopic.SCHEDULE, SystemTopic.TRANS_HALF, SystemTopic.TRANS_CHECK_MAX_TIME, "cluster_REPLY_TOPIC")
"""Topics in which a broker keeps messages of others."""


def attempt(
    key: str | None, *needs: Need, code: int | None = None, host: str = "1.2.3.4", right: bool = True
) -> Decision:
    found = Attempt(read_address(host), key, lambda: needs, code, lambda account: right)
    return decide(RULES, found)


@pytest.mark.parametrize(
    ("decision", "refusal", "line"),
    [
        (attempt(None, host="10.0.0.7"), "", "f: globalWhiteRemoteAddresses: 10.0.0.*"),
        (attempt(None), "No accessKey is configured", "no white address matches"),
        (attempt("unknown1"), "No acl config for unknown1", "no file has this access key"),
        (attempt("addressed", X, code=25, host="192.168.0.1", right=False), "", "addressed: whiteRemoteAddress: 192.168.0.1"),
        (attempt("ordinary", right=False), "Check signature failed for accessKey=ordinary", "f: ordinary: secretKey"),
        (attempt("ordinary", TRACE), "", "every account may send to RMQ_SYS_TRACE_TOPIC"),
        (attempt("ordinary", X, TRACE), "No default permission for topic:x", "defaultTopicPerm: DENY"),
        (attempt("ordinary", on_topic("RMQ_SYS_TRACE_TOPIC", SUB)), "No default permission for topic:RMQ_SYS_TRACE_TOPIC", "defaultTopicPerm: DENY"),
        (attempt("ordinary", code=17), "Need admin permission for request code=17, but accessKey=ordinary is not", "f: ordinary: admin: false"),
        (attempt("operator", code=17), "", "f: operator: admin: true"),
        (attempt("ordinary"), "", "f: ordinary: any account"),
        (attempt("operator", X, G), "", "admin: true, without permissions of its own"),
        (attempt("bounded1", X), "No default permission for topic:x", "f: bounded1: defaultTopicPerm: DENY"),
        (attempt("bounded1", A, code=25), "", "f: bounded1: topicPerms: a=PUB"),
        (attempt("ordinary", A), "", "f: ordinary: topicPerms: a=PUB"),
        (attempt("ordinary", on_topic("a", SUB)), "No default permission for topic:a", "topicPerms: a=PUB"),
        (attempt("ordinary", B), "", "topicPerms: b=SUB"),
        (attempt("ordinary", C, G), "", "f: ordinary: topicPerms: c=PUB|SUB; f: ordinary: groupPerms: g=SUB"),
        (attempt("ordinary", D), "No default permission for topic:d", "topicPerms: d=DENY"),
        (attempt("ordinary", P), "No default permission for group:p", "groupPerms: p=PUB"),
        (attempt("generous", X, on_group("any")), "", "defaultTopicPerm: PUB|SUB; f: generous: defaultGroupPerm: SUB"),
        (attempt("generous", D), "No default permission for topic:d", "topicPerms: d=DENY"),
        (attempt("ordinary", X), "No default permission for topic:x", "defaultTopicPerm: DENY"),
        (attempt("generous", on_topic("%DLQ%g", SUB)), "", "defaultTopicPerm: PUB|SUB"),
        (attempt("bystander", on_topic("%DLQ%g", PUB)), "", "defaultTopicPerm: PUB|SUB"),
        (attempt("bystander", on_topic("%DLQ%g", SUB)), "No default permission for topic:%DLQ%g", "defaultGroupPerm: DENY"),
        (attempt("bystander", on_topic("%DLQ%o", SUB)), "", "topicPerms: %DLQ%o=SUB"),
        *((attempt("generous", on_topic(name, SUB)), f"No default permission for topic:{name}", "does not cover") for name in KEPT),
        (attempt("bystander", on_topic(SystemTopic.SCHEDULE, SUB)), "", "topicPerms: SCHEDULE_TOPIC_XXXX=SUB"),
    ],
)  # fmt: skip
def test_decisions(decision: Decision, refusal: str, line: str) -> None:
    assert decision.refusal == refusal
    assert decision.allowed is not bool(refusal)
    assert line in decision.line


def test_the_first_file_with_an_account_wins() -> None:
    first = parse_file("acl/a.yml", b"accounts: [{accessKey: same-key, secretKey: secret-1, admin: true}]")
    last = parse_file("plain_acl.yml", b"accounts: [{accessKey: same-key, secretKey: secret-2}]")
    account, path = merged([first, last]).accounts["same-key"]
    assert (account.admin, path) == (True, "acl/a.yml")
    assert duplicates([first, last]) == [("same-key", "plain_acl.yml")]
    assert duplicates([last]) == []


def test_without_rules_nobody_may_do_anything() -> None:
    assert (
        decide(Rules(), Attempt(read_address("127.0.0.1"), "any-key")).refusal == "No acl config for any-key"
    )
    assert decide(Rules(), Attempt(None, None)).refusal == "No accessKey is configured"
