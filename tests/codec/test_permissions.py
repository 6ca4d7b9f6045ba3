"""What each operation needs of an account: by the header, by the body, by a message; as docs/security.md says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from rmqcli.broker.handlers import HANDLERS
from rmqcli.codec.acl.account_file import OF_FILES, Permission
from rmqcli.codec.acl.decision import Need, on_cluster, on_group, on_topic
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmqcli.codec.bodies.offsets import LockBatchRequestBody
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.access import Access, ResourceKind
from rmqcli.codec.operations.permissions import ANY_ACCOUNT, JAVA, RULES, permission_of
from tests.operations import OPERATIONS

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
PUB, SUB, GET, UPDATE = Permission.PUB, Permission.SUB, Permission.GET, Permission.UPDATE
A, B, G = on_topic("a", PUB), on_topic("b", SUB), on_group("g")
READS, LOOKS = on_topic("b", SUB | GET), on_group("g", SUB | GET)
EITHER = on_topic("b", PUB | SUB | GET)
CHANGES = on_topic("b", SUB | UPDATE), on_group("g", SUB | UPDATE)
TOPIC, GROUP = partial(on_topic, "t"), partial(on_group, "g")
CREATE, DELETE = Permission.CREATE, Permission.DELETE
JAVA_OF_USERS = {
    **dict.fromkeys(
        (R.SEND_MESSAGE, R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE, R.RECALL_MESSAGE), (TOPIC(PUB),)
    ),
    **dict.fromkeys((R.PULL_MESSAGE, R.LITE_PULL_MESSAGE), (TOPIC(SUB), GROUP())),
    **dict.fromkeys((R.CONSUMER_SEND_MSG_BACK, R.UNREGISTER_CLIENT), (GROUP(),)),
    R.QUERY_MESSAGE: (TOPIC(SUB | GET),),
    R.GET_CONSUMER_LIST_BY_GROUP: (GROUP(SUB | GET),),
    R.QUERY_CONSUMER_OFFSET: (
        TOPIC(SUB | GET),
        GROUP(SUB | GET),
    ),
    R.UPDATE_CONSUMER_OFFSET: (
        TOPIC(SUB | UPDATE),
        GROUP(SUB | UPDATE),
    ),
    R.UPDATE_AND_CREATE_TOPIC: (TOPIC(CREATE),),
    R.DELETE_TOPIC_IN_BROKER: (TOPIC(DELETE),),
    R.DELETE_SUBSCRIPTIONGROUP: (GROUP(DELETE),),
    **dict.fromkeys(
        (R.AUTH_CREATE_USER, R.AUTH_DELETE_ACL, R.RESET_MASTER_FLUSH_OFFSET), (on_cluster(UPDATE),)
    ),
    **dict.fromkeys((R.VIEW_BROKER_STATS_DATA, R.GET_ALL_PRODUCER_INFO), (on_cluster(GET),)),
}
ADMINISTRATORS = {
    *(R.UPDATE_AND_CREATE_TOPIC, R.UPDATE_BROKER_CONFIG, R.DELETE_TOPIC_IN_BROKER),
    *(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, R.DELETE_SUBSCRIPTIONGROUP),
}
"""Java's requests for administrators."""


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
        (R.SEND_REPLY_MESSAGE, {"topic": "a"}, (A,)),
        (R.SEND_REPLY_MESSAGE_V2, {"b": "a"}, (A,)),
        (R.CONSUMER_SEND_MSG_BACK, {"group": "g"}, (G,)),
        (R.PULL_MESSAGE, {"topic": "b", "consumerGroup": "g"}, (B, G)),
        (R.LITE_PULL_MESSAGE, {"topic": "b", "consumerGroup": "g"}, (B, G)),
        (R.QUERY_MESSAGE, {"topic": "b"}, (READS,)),
        (R.UNREGISTER_CLIENT, {"consumerGroup": "g"}, (G,)),
        (R.UNREGISTER_CLIENT, {"producerGroup": "g"}, ()),
        (R.POP_MESSAGE, {"topic": "b", "consumerGroup": "g"}, (B, G)),
        (R.ACK_MESSAGE, {"topic": "%RETRY%g_b", "consumerGroup": "g"}, (B, G)),
        (R.CHANGE_MESSAGE_INVISIBLETIME, {"topic": "%RETRY%g+b", "consumerGroup": "g"}, (B, G)),
        (R.ACK_MESSAGE, {"topic": "%RETRY%h_b", "consumerGroup": "g"}, (on_topic("%RETRY%h_b", SUB), G)),
        (R.PULL_MESSAGE, {"topic": "%RETRY%g_b", "consumerGroup": "g"}, (on_topic("%RETRY%g_b", SUB), G)),
        (R.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}, (LOOKS,)),
        (R.UPDATE_CONSUMER_OFFSET, {"topic": "b", "consumerGroup": "g"}, CHANGES),
        (R.GET_MAX_OFFSET, {"topic": "b"}, (EITHER,)),
        (R.GET_MAX_OFFSET, {"topic": "%RETRY%g"}, (on_topic("%RETRY%g", PUB | SUB | GET),)),
        (
            R.CLONE_GROUP_OFFSET,
            {"srcGroup": "g", "destGroup": "h", "topic": "b"},
            (LOOKS, on_group("h", SUB | UPDATE), CHANGES[0]),
        ),
        (R.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "g", "topic": ""}, (LOOKS, CHANGES[1])),
        (R.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "b"}, (LOOKS, EITHER)),
        (R.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g"}, (LOOKS,)),
        (R.UPDATE_AND_CREATE_TOPIC, {"topic": "b"}, (on_topic("b", Permission.CREATE),)),
        (R.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"}, (on_group("g", Permission.DELETE),)),
        (R.UPDATE_BROKER_CONFIG, {}, (on_cluster(UPDATE),)),
        (R.AUTH_LIST_USER, {}, (on_cluster(UPDATE | GET),)),
        (R.END_TRANSACTION, {"topic": "b"}, ()),
        (9999, {"topic": "b"}, ()),
    ],
)
def test_what_headers_need(code: int, ext: dict[str, str], needs: tuple[Need, ...]) -> None:
    assert RULES.get(code, ANY_ACCOUNT).needs(ext) == needs


def test_what_bodies_need() -> None:
    topics = [SubscriptionData(topic="b"), SubscriptionData(topic="%RETRY%g")]
    consumer = ConsumerData(group_name="g", subscription_data_set=topics)
    body = HeartbeatData(client_id="c", consumer_data_set=[consumer])
    assert set(RULES[R.HEART_BEAT].needs_of_body(body)) == {G, B}
    queues = [MessageQueue(topic, "broker-a", number) for topic in ("b", "%RETRY%g") for number in range(3)]
    lock = LockBatchRequestBody(consumer_group="g", client_id="c", mq_set=queues)
    assert tuple(RULES[R.LOCK_BATCH_MQ].needs_of_body(lock)) == (G, B, G)


def test_requests_of_administrators() -> None:
    found = {code for code, rule in RULES.items() if rule.is_for_admins}
    ours = {*(R.UPDATE_AND_CREATE_ACL_CONFIG, R.DELETE_ACL_CONFIG, R.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)}
    assert ADMINISTRATORS | ours < found and R.GET_BROKER_CLUSTER_ACL_INFO not in found
    assert not found & JAVA


def of_account(access: Access) -> str:
    """As the page writes what an account of 4.9 needs for a check."""
    permission = permission_of(access.actions) & OF_FILES
    if access.kind is ResourceKind.CLUSTER or not permission:
        return "administrator" if access.actions[0].name != "GET" else "any account"
    names = {PUB: "PUB", SUB: "SUB", PUB | SUB: "PUB or SUB"}
    return f"{names[permission]} {access.kind.lower()}"


def of_user(access: Access) -> str:
    """As the page writes what a user of 5.x needs for a check."""
    return f"{access.kind} {'/'.join(access.actions)}"


def of_page() -> dict[str, tuple[str, str]]:
    """Operation → what it needs of an account and of a user, by the table of the page."""
    text = PAGE.read_text().split("| account of 4.9 | user of 5.x | requests |")[1].split("\n\n")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines()[2:]]
    found: dict[str, tuple[str, str]] = {}
    for account, user, requests in rows:
        for name in re.findall(r"[A-Z][A-Z_0-9]{3,}", requests):
            assert name not in found, f"{name} has two rows"
            found[name] = account.strip(), user.strip()
    return found


def joined(texts: Iterable[str]) -> str:
    return ", ".join(sorted(set(texts))) or "nothing"


def test_the_page_has_every_operation_and_what_it_needs() -> None:
    checks = {OPERATIONS[code].name: OPERATIONS[code].access for code in HANDLERS}
    expected = {
        name: (joined(map(of_account, access)), joined(map(of_user, access)))
        for name, access in checks.items()
    }
    assert of_page() == expected


def test_users_need_what_java_demands_of_them() -> None:
    """5.3.3 `DefaultAuthorizationContextBuilder`, as far as it names a resource by the header."""
    ext = {
        "topic": "t",
        "consumerGroup": "g",
        "group": "g",
        "a": "p",
        "b": "t",
        "groupName": "g",
        "subject": "User:u",
    }
    for code, needs in JAVA_OF_USERS.items():
        assert set(RULES[code].needs(ext)) == set(needs), R(code).name


def test_what_needs_no_permission_has_a_reason_on_the_page() -> None:
    """An operation that any account may send is named again, in the list of reasons."""
    reasons = PAGE.read_text().split("What needs no permission")[1].split("\n## ")[0]
    free = {name for name, (needs, _) in of_page().items() if needs in ("any account", "nothing")}
    assert free == {name for name in re.findall(r"`([A-Z][A-Z_0-9]{3,})`", reasons) if name in of_page()}
