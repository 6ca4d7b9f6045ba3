"""What is missing, from the remarks of Java's access control."""

from __future__ import annotations

import pytest

from rmqcli.client import BrokerRefused, NotPermitted
from rmqcli.client.errors import refusal
from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.operations.permissions import RULES, permission_of

OLD = "org.apache.rocketmq.acl.common.AclException: "


@pytest.mark.parametrize(
    ("code", "remark", "request_code", "missing"),
    [
        (
            1,
            OLD + "No default permission for topic:T, o.a.P.checkPerm(P.java:7)",
            310,
            "PUB on topic T is missing",
        ),
        (1, OLD + "No default permission for topic:T", RequestCode.PULL_MESSAGE, "SUB on topic T is missing"),
        (
            1,
            OLD + "No default permission for topic:T",
            RequestCode.END_TRANSACTION,
            "PUB on topic T is missing",
        ),
        (
            1,
            OLD + "No default permission for topic:T",
            RequestCode.GET_MAX_OFFSET,
            "PUB or SUB on topic T is missing",
        ),
        (1, OLD + "No default permission for group:G", RequestCode.SEND_MESSAGE, "SUB on group G is missing"),
        (
            1,
            OLD + "Need admin permission for request code=17, but accessKey=k is not",
            17,
            "it takes an admin account",
        ),
        (1, OLD + "No acl config for k", 17, "the broker has no account k"),
        (1, OLD + "No PlainAccessResource for accessKey=k", 17, "the broker has no account k"),
        (1, OLD + "Check signature failed for accessKey=k", 17, "the secret key of k is another one"),
        (1, OLD + "No accessKey is configured", 17, "the request is not signed"),
        (1, OLD + "something else", 17, ""),
        (16, "username cannot be null.", 17, "the request is not signed"),
        (16, "check signature failed.", 17, "the secret key is another one"),
        (16, "User:k is not found.", 17, "the broker has no user k"),
        (16, "User:k is disabled.", 17, "the user k is disabled"),
        (
            16,
            "User:k has no permission to access Topic:T from 1.2.3.4, no matched policies.",
            310,
            "Pub of user k on Topic T is missing",
        ),
        (
            16,
            "User:k has no permission to access Group:G from 1.2.3.4, the decision is deny.",
            11,
            "Sub of user k on Group G is missing",
        ),
    ],
)
def test_what_is_missing(code: int, remark: str, request_code: int, missing: str) -> None:
    error = refusal(code, remark, "h:1", request_code)
    assert isinstance(error, NotPermitted) and error.by_account
    assert str(error).endswith(f"; {missing}" if missing else "something else")
    assert error.remark == remark
    assert "org.apache" not in str(error) and ".java" not in str(error)


@pytest.mark.parametrize(
    ("code", "remark"), [(16, "the broker[b] sending message is forbidden"), (1, "oops")]
)
def test_other_refusals(code: int, remark: str) -> None:
    error = refusal(code, remark, "h:1", 310)
    assert isinstance(error, BrokerRefused)
    assert not getattr(error, "by_account", False)
    assert str(error).endswith(remark)


def test_the_permissions_that_are_named_are_those_of_the_table() -> None:
    for code, rule in RULES.items():
        bits = {permission for _, is_group, permission in rule.in_header if not is_group}
        if rule.message is not None:
            bits.add(permission_of(rule.message.actions))
        # Of the actions of 5.x, accounts of 4.9 know these two.
        for permission in {bit & (Permission.PUB | Permission.SUB) for bit in bits} - {Permission(0)}:
            remark = f"{OLD}No default permission for topic:T"
            expected = {
                Permission.PUB: "PUB",
                Permission.SUB: "SUB",
                Permission.PUB | Permission.SUB: "PUB or SUB",
            }[permission]
            assert str(refusal(1, remark, "h:1", code)).endswith(f"; {expected} on topic T is missing"), code
