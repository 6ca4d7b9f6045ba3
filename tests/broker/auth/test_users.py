"""Users and policies of 5.x: their administration by requests, and what they may do."""

from __future__ import annotations

import base64
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.auth.control import AccessControl
from rmqcli.broker.auth.opening import open_access
from rmqcli.broker.auth.users import Users
from rmqcli.broker.config import BrokerConfig, config_text, update_config
from rmqcli.broker.disk import REAL
from rmqcli.broker.errors import ConfigError, Refusal, StoreDamaged
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.in_memory import START_MS
from rmqcli.client import Admin, ClientInstance, Credentials, NotPermitted, Producer
from rmqcli.codec.acl import users as limits
from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.acl.decision import Need, on_topic
from rmqcli.codec.bodies.acl import PolicyInfo, UserInfo
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.message import Message
from rmqcli.codec.remoting.frame import decode_frame
from rmqcli.codec.remoting.signature import Mac, is_signed
from tests.broker.auth.support import ACCOUNTS, FROM, HOME, OPERATOR, PLAIN, Asker, asking, disk_with
from tests.broker.auth.users import BILLING, FIRST, ROOT, acl_body, custom, entry, user_body, with_users
from tests.broker.tls.support import in_place

DATA = Path(__file__).parents[2] / "data" / "wire-users.jsonl.xz"
"""Requests to a broker of 5.3.3 with authentication and authorization, and its replies."""
NAME, SUBJECT = {"username": "billing"}, {"subject": "User:billing"}
DONE = (0, "not set any response code")
ORDERS = entry("Topic:orders", "Pub", "Sub")


def recorded() -> list[tuple[Any, Any]]:
    def frame(text: str) -> Any:
        return decode_frame(base64.b64decode(text)[4:])

    lines = [json.loads(line) for line in lzma.decompress(DATA.read_bytes()).splitlines()]
    return [(frame(line["request"]), frame(line["reply"])) for line in lines]


def test_signatures_of_java_are_right_for_users() -> None:
    """Of `rocketmq`, whose password does not change. Two requests of `u1` have the wrong password."""
    signed = [
        request for request, _ in recorded() if (request.ext_fields or {}).get("AccessKey") == "rocketmq"
    ]
    assert len(signed) > 80
    assert all(is_signed(Mac("12345678"), request, by_user=True) for request in signed)
    assert not any(is_signed(Mac("12345679"), request, by_user=True) for request in signed)


async def test_what_java_replied_to_administration_is_replied_here(autojump_clock: MockClock) -> None:
    first = '{"username":"rocketmq","password":"12345678"}'
    compared = 0
    async with (
        with_users(init_authentication_user=first) as cluster,
        ClientInstance(**cluster.client()) as instance,
    ):
        for request, reply in recorded():
            if not (R.AUTH_CREATE_USER <= request.code <= R.AUTH_LIST_ACL or reply.code == 16):
                continue
            request.opaque = 0
            ours = await instance.pool.request(cluster.broker_address, request, 30)
            assert (ours.code, ours.remark) == (reply.code, reply.remark), R(request.code)
            assert (json.loads(bytes(ours.body)) if ours.body else None) == (
                json.loads(bytes(reply.body)) if reply.body else None
            ), R(request.code)
            compared += 1
    assert compared > 14


async def create(ask: Asker, *entries: Any, user: Credentials = BILLING, **members: str) -> None:
    body = user_body(user.secret_key, **members)
    assert await ask(R.AUTH_CREATE_USER, {"username": user.access_key}, body, account=ROOT) == DONE
    if entries:
        header = {"subject": f"User:{user.access_key}"}
        assert await ask(R.AUTH_CREATE_ACL, header, acl_body(*entries), account=ROOT) == DONE


async def test_policies_admit_producers_and_are_followed_at_once(autojump_clock: MockClock) -> None:
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask, ORDERS)
        async with Producer("p", **cluster.client(), credentials=BILLING) as producer:
            await producer.send(Message("orders", b"x"))
            with pytest.raises(NotPermitted) as caught:
                await producer.send(Message("news", b"x"))
            assert "User:billing has no permission to access Topic:news from" in str(caught.value)
            denial = acl_body(entry("Topic:orders", "Pub", decision="Deny"))
            assert await ask(R.AUTH_UPDATE_ACL, SUBJECT, denial, account=ROOT) == DONE
            with pytest.raises(NotPermitted, match="the decision is deny"):
                await producer.send(Message("orders", b"x"))
            assert (
                await ask(R.AUTH_UPDATE_USER, NAME, user_body(None, userStatus="disable"), account=ROOT)
                == DONE
            )
            with pytest.raises(NotPermitted, match="billing is disabled"):
                await producer.send(Message("orders", b"x"))
            assert await ask(R.AUTH_DELETE_USER, NAME, account=ROOT) == DONE
            with pytest.raises(NotPermitted, match="the broker has no user billing"):
                await producer.send(Message("orders", b"x"))


async def test_requests_for_messages_need_permission_for_their_topic(autojump_clock: MockClock) -> None:
    """A message is named by its offset; a transaction by that of its half message."""
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask, entry("Topic:other", "All"))
        async with Producer("p", **cluster.client(), credentials=ROOT) as producer:
            sent = await producer.send(Message("orders", b"x"))
        offset = int((sent.offset_msg_id or "")[16:], 16)
        code, remark = await ask(R.VIEW_MESSAGE_BY_ID, {"offset": str(offset)}, account=BILLING)
        assert (code, "to access Topic:orders from" in remark) == (16, True)
        assert (await ask(R.VIEW_MESSAGE_BY_ID, {"offset": str(offset)}, account=ROOT))[0] == 0


async def test_a_held_pull_is_answered_when_its_user_may_no_longer_read(autojump_clock: MockClock) -> None:
    pull = {
        "consumerGroup": "g",
        "topic": "orders",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "1",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "20000",
        "subVersion": "0",
        "subscription": "*",
        "expressionType": "TAG",
    }
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask, ORDERS, entry("Group:g", "Sub"))
        await ask(R.UPDATE_AND_CREATE_TOPIC, _topic("orders"), account=ROOT)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pull, ask, pull)
            await trio.sleep(1)
            await ask(R.AUTH_DELETE_ACL, SUBJECT, account=ROOT)
        assert trio.current_time() - began < 5
        assert (await ask(R.PULL_MESSAGE, pull, account=BILLING))[0] == 16


async def _pull(ask: Asker, header: dict[str, str]) -> None:
    await ask(R.PULL_MESSAGE, header, account=BILLING)


def _topic(name: str) -> dict[str, str]:
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": "1",
        "writeQueueNums": "1",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }


async def test_source_addresses_are_those_of_the_connection(autojump_clock: MockClock) -> None:
    async with with_users() as cluster, asking(cluster) as ask:
        elsewhere = entry("Topic:*", "Pub", sources=("10.0.0.0/8",))
        await create(ask, elsewhere)
        assert (await _send(ask, "orders"))[0] == 16
        here = entry("Topic:*", "Pub", sources=("10.0.0.0/8", "127.0.0.0/8"))
        assert await ask(R.AUTH_UPDATE_ACL, SUBJECT, acl_body(here), account=ROOT) == DONE
        assert (await _send(ask, "orders"))[0] == 0


async def _send(ask: Asker, topic: str, account: Credentials | None = BILLING) -> tuple[int, str]:
    header = {
        "a": "p",
        "b": topic,
        "c": "TBW102",
        "d": "1",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return await ask(R.SEND_MESSAGE_V2, header, b"x", account=account)


async def test_what_is_saved_is_there_again(autojump_clock: MockClock) -> None:
    disk = SimulatedDisk(now_ms=lambda: START_MS, loses_power=False)
    async with with_users(disk) as cluster, asking(cluster) as ask:
        await create(ask, ORDERS)
        saved = json.loads(disk.read(cluster.store_path / "config" / "users.json"))
        assert saved["users"]["billing"]["password"] == BILLING.secret_key
        assert saved["acls"]["User:billing"]["policies"][0]["entries"][0]["resource"] == "Topic:orders"
    again = with_users(disk, init_authentication_user=None, store=cluster.store_path)
    async with again as cluster, asking(cluster) as ask:
        assert (await _send(ask, "orders"))[0] == 0
        assert (await _send(ask, "orders", ROOT))[0] == 0
        assert (await _send(ask, "news"))[0] == 16


async def test_only_the_owner_may_read_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def users() -> Users:
        found = Users(tmp_path, "DefaultCluster", REAL, in_place, Turns())
        found.load()
        return found

    first = users()
    for name in ("a", "b"):
        await first.ensure(UserInfo(username=name, password="secret"))
    for path in (first.path, first.path.with_name("users.json.bak")):
        assert path.stat().st_mode & 0o777 == 0o600
    assert set(users().by_name) == {"a", "b"} and not caplog.records
    first.path.chmod(0o644)
    users()
    assert "others may read" in caplog.text and "chmod 600" in caplog.text


async def test_a_change_that_is_not_saved_has_no_effect(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask, ORDERS)

        def full(*_arguments: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("rmqcli.broker.auth.users.save_table", full)
            code, remark = await ask(R.AUTH_DELETE_USER, NAME, account=ROOT)
            assert (code, "No space left" in remark) == (1, True)
        assert (await _send(ask, "orders"))[0] == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "users.json"),
        (b'{"acls":{},"users":{"x":{"username":"y","password":"p"}}}', "user x: its username or password is missing"),
        (b'{"acls":{},"users":{"x":{"username":"x","password":"p","userType":"King"}}}', "Super or Normal"),
        (
            b'{"users":{},"acls":{"User:x":{"subject":"User:x","policies":[{"entries":[{"resource":"x"}]}]}}}',
            "policies of User:x: The resource 'x' is neither",
        ),
    ],
)  # fmt: skip
async def test_a_broken_file_prevents_the_start(
    autojump_clock: MockClock, content: bytes, reason: str
) -> None:
    disk = SimulatedDisk(now_ms=lambda: START_MS, loses_power=False)
    async with with_users(disk) as cluster:
        path = cluster.store_path / "config" / "users.json"
    for one in (path, path.with_name("users.json.bak")):
        disk.write(one, content)
    with pytest.raises(StoreDamaged, match=reason.replace("'", ".")):
        async with with_users(disk, store=cluster.store_path):
            pass


async def test_only_super_users_touch_super_users(autojump_clock: MockClock) -> None:
    """An operator with all permissions of the cluster administers the others."""
    operator = Credentials("operator", "secret-of-operator")
    root = {"username": "root"}
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask, entry("Cluster:*", "All"), user=operator)
        other = {"username": "other"}
        only = "The super user can only be update by super user"
        created = "The super user can only be create by super user"
        super_body = user_body("secret", userType="super")
        assert await ask(R.AUTH_CREATE_USER, other, super_body, account=operator) == (1, created)
        assert await ask(R.AUTH_CREATE_USER, other, user_body("secret"), account=operator) == DONE
        assert await ask(R.AUTH_UPDATE_USER, other, super_body, account=operator) == (1, only)
        assert await ask(R.AUTH_UPDATE_USER, root, user_body("mine"), account=operator) == (16, only)
        assert await ask(R.AUTH_DELETE_USER, root, account=operator) == (16, only)
        policies = acl_body(entry("*", "All", decision="Deny"), subject="User:root")
        assert await ask(R.AUTH_CREATE_ACL, {}, policies, account=operator) == (16, only)
        assert await ask(R.AUTH_DELETE_ACL, {"subject": "User:root"}, account=operator) == (16, only)
        async with Admin(**cluster.client(), credentials=operator) as admin:
            seats = {"b": cluster.broker_address}
            shown = {user.username: user.password for user in (await admin.access.users(seats, ""))["b"]}
            assert shown == {"operator": "secret-of-operator", "other": "secret", "root": None}
            found = (await admin.access.user(seats, "root"))["b"]
            assert found is not None and found.password is None
        async with Admin(**cluster.client(), credentials=ROOT) as admin:
            found = (await admin.access.user(seats, "root"))["b"]
            assert found is not None and found.password == ROOT.secret_key
        assert (await ask(R.AUTH_LIST_USER, {}, account=Credentials("other", "secret")))[0] == 16


async def test_without_authorization_a_user_may_do_everything_but_administer_users(
    autojump_clock: MockClock,
) -> None:
    async with with_users(authorization_enabled=False) as cluster, asking(cluster) as ask:
        await create(ask)
        assert (await _send(ask, "orders"))[0] == 0
        assert (await _send(ask, "orders", None)) == (16, "username cannot be null.")
        assert (await _send(ask, "orders", Credentials("billing", "wrong"))) == (
            16,
            "check signature failed.",
        )
        for code in range(R.AUTH_CREATE_USER, R.AUTH_LIST_ACL + 1):
            body = user_body("x") if code < R.AUTH_DELETE_USER else acl_body(ORDERS)
            assert await ask(code, {**NAME, **SUBJECT}, body, account=BILLING) == (
                16,
                "The users can only be administered by super user",
            ), R(code).name


async def test_users_are_kept_while_nobody_is_authenticated(autojump_clock: MockClock) -> None:
    settings: dict[str, Any] = {"authentication_enabled": False, "authorization_enabled": False}
    async with with_users(**settings) as cluster, asking(cluster) as ask:
        assert await ask(R.AUTH_CREATE_USER, NAME, user_body()) == DONE
        assert (await _send(ask, "orders", None))[0] == 0
        assert (await _send(ask, "orders", Credentials("nobody", "x")))[0] == 0


async def test_accounts_of_4_9_and_users_go_together(autojump_clock: MockClock) -> None:
    disk = disk_with({PLAIN: ACCOUNTS})
    settings: dict[str, Any] = {"acl_enable": True, "rocketmq_home": str(HOME)}
    async with with_users(disk, **settings) as cluster, asking(cluster) as ask:
        assert await ask(R.AUTH_CREATE_USER, NAME, user_body(), account=OPERATOR) == DONE
        assert await ask(R.AUTH_CREATE_ACL, SUBJECT, acl_body(ORDERS), account=OPERATOR) == DONE
        ordinary = Credentials("ordinary", "secret-of-ordinary")
        assert (await _send(ask, "orders"))[0] == (await _send(ask, "letters", ordinary))[0] == 0
        assert (await _send(ask, "letters"))[1].startswith("User:billing has no permission")
        assert (await _send(ask, "closed", ordinary))[1].endswith("No default permission for topic:closed")
        assert (await _send(ask, "orders", None)) == (16, "username cannot be null.")
        assert (await _send(ask, "orders", Credentials("x", "x"))) == (16, "User:x is not found.")
        code, remark = await ask(R.AUTH_LIST_USER, {}, account=ordinary)
        assert (code, "Need admin permission" in remark) == (1, True)


async def test_an_account_of_4_9_alone_sees_no_users(autojump_clock: MockClock) -> None:
    disk = disk_with({PLAIN: ACCOUNTS})
    settings: dict[str, Any] = {
        "acl_enable": True,
        "rocketmq_home": str(HOME),
        "authentication_enabled": False,
    }
    async with with_users(disk, authorization_enabled=False, **settings) as cluster, asking(cluster) as ask:
        for code in (R.AUTH_LIST_USER, R.AUTH_GET_USER, R.AUTH_LIST_ACL, R.AUTH_GET_ACL):
            found, remark = await ask(
                code, {**NAME, **SUBJECT}, account=Credentials("ordinary", "secret-of-ordinary")
            )
            assert (found, "Need admin permission" in remark) == (1, True), code
        assert (await ask(R.AUTH_LIST_USER, {}, account=ROOT))[1].endswith("No acl config for root")


async def test_white_lists(autojump_clock: MockClock) -> None:
    both: dict[str, Any] = {
        "authentication_whitelist": "28, 310",
        "authorization_whitelist": "310,apache.rocketmq.v2.X",
    }
    async with with_users(**both) as cluster, asking(cluster) as ask:
        await create(ask)
        assert (await _send(ask, "orders", None))[0] == 0
        assert (await _send(ask, "orders"))[0] == 0
        assert await ask(28) == (16, "username cannot be null.")  # it is authorized, which takes a user
        refused = "User:billing has no permission to access Cluster:"
        assert (await ask(28, account=BILLING))[1].startswith(refused)
    one: dict[str, Any] = {"authentication_whitelist": "28,3001", "authorization_enabled": False}
    async with with_users(**one) as cluster, asking(cluster) as ask:
        assert (await ask(28))[0] == 0
        # Nobody knows that it is root who asks.
        unknown = (16, "The users can only be administered by super user")
        assert await ask(R.AUTH_CREATE_USER, {**NAME, "AccessKey": "root"}, user_body()) == unknown


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"authentication_enabled": False}, "authorizationEnabled=true needs authenticationEnabled=true"),
        ({"init_authentication_user": "root"}, "initAuthenticationUser: {"),
        ({"init_authentication_user": '{"username":"root"}'}, "initAuthenticationUser: {"),
        ({"init_authentication_user": '{"username":"a\\u0000","password":"hidden"}'}, "cannot be created"),
        ({"authentication_whitelist": "28;29"}, "'28;29' in a whitelist is neither"),
        ({"inner_client_authentication_credentials": "hidden"}, "innerClientAuthenticationCredentials: {"),
    ],
)
async def test_what_the_configuration_cannot_be(
    autojump_clock: MockClock, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with with_users(**settings):
            pass
    assert reason in str(caught.value) and "hidden" not in str(caught.value)


async def test_the_account_of_the_broker_is_a_super_user(autojump_clock: MockClock) -> None:
    account = '{"accessKey": "inner", "secretKey": "secret-of-inner"}'
    async with with_users(inner_client_authentication_credentials=account) as cluster, asking(cluster) as ask:
        assert (await ask(R.GET_ALL_TOPIC_CONFIG, account=Credentials("inner", "secret-of-inner")))[0] == 0
        code, remark = await ask(R.GET_BROKER_CONFIG, account=ROOT)
        assert (code, "secret" in remark) == (0, False)


@pytest.mark.parametrize(
    "name",
    ["authenticationEnabled", "authenticationWhitelist", "initAuthenticationUser", "authorizationEnabled", "authorizationWhitelist"],
)  # fmt: skip
def test_no_request_switches_access_control_off(name: str) -> None:
    with pytest.raises(Refusal):
        update_config(BrokerConfig(), {name: "false"})


SENT = [
    (R.AUTH_CREATE_USER, {}, user_body(), (29, "The username is blank")),
    (R.AUTH_CREATE_USER, {"username": "  "}, user_body(), (16, "username can not be blank")),
    (R.AUTH_CREATE_USER, {"username": "x"}, user_body(" "), (16, "password can not be blank")),
    (R.AUTH_CREATE_USER, NAME, user_body(), (16, "The user is existed")),
    (
        R.AUTH_CREATE_USER,
        {"username": "a\0b"},
        user_body(),
        (29, "a username has only characters that can be printed"),
    ),
    (R.AUTH_CREATE_USER, {"username": "a" * 256}, user_body(), (29, "at most 255 bytes")),
    (R.AUTH_CREATE_USER, {"username": "x"}, user_body("a\nb"), (29, "a password has only characters")),
    (R.AUTH_CREATE_USER, {"username": "x"}, user_body("a" * 1025), (29, "at most 1024 bytes")),
    (
        R.AUTH_CREATE_USER,
        {"username": "x"},
        user_body(userType="King"),
        (29, "the user type is Super or Normal"),
    ),
    (R.AUTH_CREATE_USER, {"username": "x"}, b"", (1, "")),
    (R.AUTH_UPDATE_USER, {"username": "x"}, user_body(), (16, "The user is not exist")),
    (R.AUTH_UPDATE_USER, NAME, user_body(userStatus="gone"), (29, "the user status is enable or disable")),
    (R.AUTH_DELETE_USER, {}, b"", (16, "username can not be blank")),
    (R.AUTH_DELETE_USER, {"username": "x"}, b"", DONE),
    (R.AUTH_GET_USER, {}, b"", (29, "The username is blank")),
    (R.AUTH_GET_USER, {"username": "x"}, b"", DONE),
    (R.AUTH_CREATE_ACL, SUBJECT, b'{"policies":[]}', (1, "The body of acl is null")),
    (R.AUTH_CREATE_ACL, SUBJECT, acl_body(), (16, "The policies is empty.")),
    (R.AUTH_CREATE_ACL, {"subject": "User:x"}, acl_body(ORDERS), (16, "The subject of User:x is not exist.")),
    (R.AUTH_CREATE_ACL, {"subject": "Role:x"}, acl_body(ORDERS), (16, "The subject type is null.")),
    (R.AUTH_CREATE_ACL, SUBJECT, acl_body(entry("Topic:a", "Any")), (29, "The actions can not be Any.")),
    (R.AUTH_CREATE_ACL, SUBJECT, acl_body(ORDERS, kind="Other"), (29, "neither Custom nor Default")),
    (R.AUTH_UPDATE_ACL, {}, acl_body(ORDERS), (16, "The subject type is null.")),
    (R.AUTH_DELETE_ACL, SUBJECT, b"", (16, "The acl is not exist.")),
    (R.AUTH_DELETE_ACL, {"subject": "User:x"}, b"", (16, "The subject is not exist.")),
    (R.AUTH_GET_ACL, {"subject": "User:x"}, b"", (16, "The subject is not exist.")),
    (R.AUTH_GET_ACL, SUBJECT, b"", DONE),
    (R.AUTH_LIST_ACL, {}, b"", DONE),
]


async def test_refused_administration(autojump_clock: MockClock) -> None:
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask)
        for code, header, body, (expected, part) in SENT:
            found, remark = await ask(code, header, body, account=ROOT)
            assert (found, part in remark) == (expected, True), (R(code).name, header, body, found, remark)


async def test_policies_are_merged_and_deleted_by_resource(autojump_clock: MockClock) -> None:
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask, ORDERS, entry("Group:g", "Sub"))

        async def policies() -> list[Any]:
            async with Admin(**cluster.client(), credentials=ROOT) as admin:
                found = (await admin.access.policies_of({"b": cluster.broker_address}, "billing"))["b"]
                return [] if found is None else found.policies or []

        again = acl_body(entry("topic:orders", "GET", decision="deny"), kind="custom")
        assert await ask(R.AUTH_UPDATE_ACL, SUBJECT, again, account=ROOT) == DONE
        more = acl_body(entry("*", "All"), kind="Default", subject="User:billing")
        assert await ask(R.AUTH_UPDATE_ACL, {}, more, account=ROOT) == DONE
        assert await policies() == [
            custom(entry("Topic:orders", "Get", decision="Deny"), entry("Group:g", "Sub")),
            PolicyInfo(policy_type="Default", entries=[entry("*", "All")]),
        ]
        for header, left in (
            ({"resource": "Topic:other"}, 3),
            ({"resource": "Topic:orders"}, 2),
            ({"resource": "*"}, 2),
            ({"resource": "*", "policyType": "Default"}, 1),
            ({"resource": "Group:g"}, 0),
        ):
            assert await ask(R.AUTH_DELETE_ACL, SUBJECT | header, account=ROOT) == DONE
            assert sum(len(one.entries or ()) for one in await policies()) == left
        wrong = await ask(R.AUTH_DELETE_ACL, SUBJECT | {"resource": "orders"}, account=ROOT)
        assert wrong[0] == 16  # the last entry is gone, and the policies with it


async def test_lists_are_filtered_and_sorted(autojump_clock: MockClock) -> None:
    async with with_users() as cluster, asking(cluster) as ask:
        for name, resource in (("zoe", "Topic:a"), ("Bob", "Group:ab"), ("bill", "Topic:b")):
            await create(ask, entry(resource, "Sub"), user=Credentials(name, "secret"))
        async with Admin(**cluster.client(), credentials=ROOT) as admin:
            seats = {"b": cluster.broker_address}
            assert [user.username for user in (await admin.access.users(seats, ""))["b"]] == [
                "Bob",
                "bill",
                "root",
                "zoe",
            ]
            assert [user.username for user in (await admin.access.users(seats, "b"))["b"]] == ["Bob", "bill"]
            listed = (await admin.access.policies(seats, "", "Topic:"))["b"]
            assert [acl.subject for acl in listed] == ["User:bill", "User:zoe"]
            assert [acl.subject for acl in (await admin.access.policies(seats, "o", ""))["b"]] == [
                "User:Bob",
                "User:zoe",
            ]
            assert (await admin.access.policies(seats, "nobody", ""))["b"] == []


async def test_numbers_of_users_and_policies_are_limited(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_USERS", 2)
    monkeypatch.setattr(limits, "MOST_ENTRIES", 3)
    monkeypatch.setattr("rmqcli.broker.auth.users.MOST_BYTES", 1500)
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask)
        code, remark = await ask(R.AUTH_CREATE_USER, {"username": "x"}, user_body(), account=ROOT)
        assert (code, remark) == (29, "the broker has 2 users, which is the limit")
        most = acl_body(*(entry(f"Topic:{number}", "Pub") for number in range(4)))
        code, remark = await ask(R.AUTH_CREATE_ACL, SUBJECT, most, account=ROOT)
        assert (code, "4 entries, 3 is the limit" in remark) == (29, True)
        long = acl_body(
            *(entry(f"Topic:{'x' * 280}{number}", "Pub", sources=("10.0.0.1",) * 90) for number in range(2))
        )
        code, remark = await ask(R.AUTH_CREATE_ACL, SUBJECT, long, account=ROOT)
        assert (code, "1500 is the limit" in remark) == (29, True)
        assert await ask(R.AUTH_DELETE_USER, NAME, account=ROOT) == DONE


async def test_a_megabyte_of_policies_is_refused_in_turns(autojump_clock: MockClock) -> None:
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask)
        most = acl_body(*(entry(f"Topic:{number}", "Pub") for number in range(9_000)))
        assert len(most) < 1024 * 1024
        code, remark = await ask(R.AUTH_CREATE_ACL, SUBJECT, most, account=ROOT)
        assert (code, "9000 entries, 1000 is the limit" in remark) == (29, True)
        code, remark = await ask(R.AUTH_CREATE_ACL, SUBJECT, most * 2, account=ROOT)
        assert code == 1


async def test_refusals_are_logged_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rmqcli.broker.auth")
    async with with_users() as cluster, asking(cluster) as ask:
        await create(ask)
        for _ in range(3):
            await _send(ask, "orders")
        await trio.sleep(61)
        await _send(ask, "orders")
    told = [record.getMessage() for record in caplog.records if "no permission" in record.getMessage()]
    assert len(told) == 2 and told[0].partition(": ")[2].startswith(
        "request 310: User:billing has no permission to"
    )


def test_the_first_user_is_not_shown() -> None:
    assert "secret-of-root" in FIRST
    assert "secret-of-root" not in config_text(BrokerConfig(init_authentication_user=FIRST))


async def opened(**settings: Any) -> tuple[AccessControl, Users]:
    disk = disk_with({PLAIN: ACCOUNTS})
    config = BrokerConfig(
        authentication_enabled=True, authorization_enabled=True, init_authentication_user=FIRST, **settings
    )
    users = Users(HOME / "store", config.broker_cluster_name, disk, in_place, Turns())
    access = await open_access(config, users, disk, in_place, lambda: START_MS)
    assert access is not None
    return access, users


def refused(
    access: AccessControl, host: str, account: Credentials | None, *needs: Need
) -> tuple[int, str] | None:
    """The refusal of a gRPC request."""
    request = "apache.rocketmq.v2.SendMessageRequest"

    def is_signed(secret: str) -> bool:
        return account is not None and secret == account.secret_key

    try:
        key, signed = (None, None) if account is None else (account.access_key, is_signed)
        access.authorize(access.authenticate(host, key, signed, request), needs, request)
    except Refusal as found:
        return found.code, found.remark
    return None


async def test_one_decision_for_grpc_and_for_both_kinds_of_accounts() -> None:
    ordinary = Credentials("ordinary", "secret-of-ordinary")
    orders, closed = on_topic("orders", Permission.PUB), on_topic("closed", Permission.PUB)
    access, users = await opened(acl_enable=True, rocketmq_home=str(HOME))
    await users.ensure(UserInfo(username="billing", password=BILLING.secret_key))
    policies = [custom(entry("Topic:orders", "Pub", sources=("10.0.0.0/8",)))]
    await users.change("billing", lambda table: limits.with_policies(table, "billing", policies))
    for account in (BILLING, ordinary, ROOT, OPERATOR):
        assert refused(access, "10.1.1.1", account, orders) is None
        assert refused(access, "10.1.1.1", Credentials(account.access_key, "x"), orders) is not None
    assert refused(access, "10.1.1.1", None, orders) == (16, "username cannot be null.")
    assert refused(access, "9.1.1.1", BILLING, orders) == (
        16,
        "User:billing has no permission to access Topic:orders from 9.1.1.1, no matched policies.",
    )
    of_closed = refused(access, "10.1.1.1", ordinary, orders, closed)
    assert of_closed == (1, f"{FROM}No default permission for topic:closed")
    # From its white address, an account needs no signature.
    assert refused(access, "10.9.9.9", Credentials("elsewhere", "x"), closed) is None
    with pytest.raises(Refusal, match="check signature failed"):
        access.authenticate("10.1.1.1", "billing", None, "apache.rocketmq.v2.AckMessageRequest")


async def test_a_white_list_may_name_a_grpc_message() -> None:
    name = "apache.rocketmq.v2.SendMessageRequest"
    access, _ = await opened(authentication_whitelist=name, authorization_whitelist=name)
    assert refused(access, "10.1.1.1", None, on_topic("orders", Permission.PUB)) is None
    assert access.authenticate("10.1.1.1", None, None, name) is None
    with pytest.raises(Refusal, match="username cannot be null"):
        access.authenticate("10.1.1.1", None, None, "apache.rocketmq.v2.AckMessageRequest")
