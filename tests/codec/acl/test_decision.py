"""Who may do what: the order of the checks, and the line that decides."""

from __future__ import annotations

import pytest

from codec.acl.account_file import Permission, parse_file
from codec.acl.addresses import read_address
from codec.acl.decision import Attempt, Decision, Need, Rules, decide, duplicates, merged, on_group, on_topic
from codec.acl.needs import ADMIN_CODES, needs_of, needs_of_heartbeat
from codec.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from codec.codes import RequestCode as R

FILE = b"""
globalWhiteRemoteAddresses: [10.0.0.*]
accounts:
- {accessKey: ordinary, secretKey: secret-1, topicPerms: [a=PUB, b=SUB, c=PUB|SUB, d=DENY], groupPerms: [g=SUB, p=PUB]}
- {accessKey: generous, secretKey: secret-2, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB, topicPerms: [d=DENY]}
- {accessKey: operator, secretKey: secret-3, admin: true}
- {accessKey: bounded1, secretKey: secret-4, admin: true, topicPerms: [a=PUB]}
- {accessKey: addressed, secretKey: secret-5, whiteRemoteAddress: 192.168.0.1}
"""
RULES = merged([parse_file("f", FILE)])
PUB, SUB = Permission.PUB, Permission.SUB
A, B, C, D, G, P, X = (
    on_topic("a", PUB), on_topic("b", SUB), on_topic("c", SUB), on_topic("d", PUB), on_group("g"), on_group("p"),
    on_topic("x", PUB),
)  # fmt: skip


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
        (attempt("ordinary", X, on_topic("RMQ_SYS_TRACE_TOPIC", PUB)), "", "every account may send to RMQ_SYS_TRACE_TOPIC"),
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


@pytest.mark.parametrize(
    ("code", "ext", "needs"),
    [
        (R.SEND_MESSAGE, {"topic": "a"}, (A,)),
        (R.SEND_MESSAGE, {"topic": "%RETRY%x", "group": "g"}, (G, on_group("x"))),
        (R.SEND_MESSAGE, {"topic": "%RETRY%g", "producerGroup": "p"}, (G,)),
        (R.SEND_MESSAGE_V2, {"b": "a", "a": "producers"}, (A,)),
        (R.SEND_MESSAGE_V2, {"b": "%RETRY%x", "a": "g"}, (G, on_group("x"))),
        (R.SEND_MESSAGE_V2, {"b": "%RETRY%g", "a": "g"}, (G,)),
        (R.SEND_BATCH_MESSAGE, {"b": "a", "a": "producers"}, (A,)),
        (R.CONSUMER_SEND_MSG_BACK, {"group": "g"}, (G,)),
        (R.PULL_MESSAGE, {"topic": "b", "consumerGroup": "g"}, (B, G)),
        (R.LITE_PULL_MESSAGE, {"topic": "b", "consumerGroup": "g"}, (B, G)),
        (R.QUERY_MESSAGE, {"topic": "b"}, (B,)),
        (R.UNREGISTER_CLIENT, {"consumerGroup": "g"}, (G,)),
        (R.UNREGISTER_CLIENT, {"producerGroup": "g"}, ()),
        (R.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}, (G,)),
        (R.UPDATE_CONSUMER_OFFSET, {"topic": "b", "consumerGroup": "g"}, (B, G)),
        (R.GET_MAX_OFFSET, {"topic": "b"}, ()),
        (9999, {"topic": "b"}, ()),
    ],
)
def test_the_needs_of_requests(code: int, ext: dict[str, str], needs: tuple[Need, ...]) -> None:
    assert needs_of(code, ext) == needs


def test_the_needs_of_a_heartbeat() -> None:
    topics = [SubscriptionData(topic="b"), SubscriptionData(topic="%RETRY%g")]
    body = HeartbeatData(
        client_id="c", consumer_data_set=[ConsumerData(group_name="g", subscription_data_set=topics)]
    )
    assert tuple(needs_of_heartbeat(body)) == (G, B)


def test_requests_of_administrators() -> None:
    assert {17, 25, 215, 200, 207} <= ADMIN_CODES
    assert {50, 51, 53} < ADMIN_CODES and 52 not in ADMIN_CODES
