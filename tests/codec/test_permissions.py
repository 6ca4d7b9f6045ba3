"""What each operation needs of an account: by the header, by the body, by a message; as docs/security.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqcli.broker.handlers import HANDLERS
from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.acl.decision import Need, on_group, on_topic
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmqcli.codec.bodies.offsets import LockBatchRequestBody
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.access import Access, ResourceKind
from rmqcli.codec.operations.permissions import ANY_ACCOUNT, JAVA, RULES, permission_of
from tests.operations import OPERATIONS

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
PUB, SUB = Permission.PUB, Permission.SUB
A, B, G = on_topic("a", PUB), on_topic("b", SUB), on_group("g")
EITHER = on_topic("b", PUB | SUB)
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
        (R.QUERY_MESSAGE, {"topic": "b"}, (B,)),
        (R.UNREGISTER_CLIENT, {"consumerGroup": "g"}, (G,)),
        (R.UNREGISTER_CLIENT, {"producerGroup": "g"}, ()),
        (R.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}, (G,)),
        (R.UPDATE_CONSUMER_OFFSET, {"topic": "b", "consumerGroup": "g"}, (B, G)),
        (R.POP_MESSAGE, {"topic": "b", "consumerGroup": "g"}, (B, G)),
        (R.ACK_MESSAGE, {"topic": "%RETRY%g_b", "consumerGroup": "g"}, (B, G)),
        (R.CHANGE_MESSAGE_INVISIBLETIME, {"topic": "%RETRY%g+b", "consumerGroup": "g"}, (B, G)),
        (R.ACK_MESSAGE, {"topic": "%RETRY%h_b", "consumerGroup": "g"}, (on_topic("%RETRY%h_b", SUB), G)),
        (R.PULL_MESSAGE, {"topic": "%RETRY%g_b", "consumerGroup": "g"}, (on_topic("%RETRY%g_b", SUB), G)),
        (R.GET_MAX_OFFSET, {"topic": "b"}, (EITHER,)),
        (R.GET_MAX_OFFSET, {"topic": "%RETRY%g"}, (on_topic("%RETRY%g", PUB | SUB),)),
        (R.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", "topic": "b"}, (G, on_group("h"), B)),
        (R.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "g", "topic": ""}, (G,)),
        (R.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "b"}, (G, EITHER)),
        (R.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g"}, (G,)),
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


def shown(access: Access) -> str:
    """As the page writes a check."""
    permission = permission_of(access.actions)
    if access.kind is ResourceKind.CLUSTER or not permission:
        return "administrator" if access.actions[0].name != "GET" else "any account"
    names = {PUB: "PUB", SUB: "SUB", PUB | SUB: "PUB or SUB"}
    return f"{names[permission]} {access.kind.lower()}"


def of_page() -> dict[str, str]:
    """Operation → what it needs, by the table of the page."""
    text = PAGE.read_text().split("| needs | requests |")[1].split("\n\n")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines()[2:]]
    found: dict[str, str] = {}
    for needs, requests in rows:
        for name in re.findall(r"[A-Z][A-Z_0-9]{3,}", requests):
            assert name not in found, f"{name} has two rows"
            found[name] = needs.strip()
    return found


def test_the_page_has_every_operation_and_what_it_needs() -> None:
    expected = {
        OPERATIONS[code].name: ", ".join(sorted(set(map(shown, OPERATIONS[code].access)))) or "nothing"
        for code in HANDLERS
    }
    assert of_page() == expected


def test_what_needs_no_permission_has_a_reason_on_the_page() -> None:
    """An operation that any account may send is named again, in the list of reasons."""
    reasons = PAGE.read_text().split("What needs no permission")[1].split("\n## ")[0]
    free = {name for name, needs in of_page().items() if needs in ("any account", "nothing")}
    assert free == {name for name in re.findall(r"`([A-Z][A-Z_0-9]{3,})`", reasons) if name in of_page()}
