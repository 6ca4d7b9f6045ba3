"""A proxy that admits the users of 5.x, as its brokers know them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import MemoryCluster, embedded_in_memory
from rmqcli.client import Credentials
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.proxy.codes import Code
from rmqcli.proxy.users import READ_SECONDS
from tests.broker.auth.support import asking
from tests.broker.auth.users import BILLING, FIRST, ROOT, acl_body, entry, user_body
from tests.broker.proxy.calls import Stub, connected, message
from tests.broker.proxy.signing import MOMENT, signed
from tests.proxy.proxies import proxy_of

RULES: dict[str, Any] = {"authentication_enabled": True, "authorization_enabled": True}
OF_ROOT = signed(ROOT.access_key, ROOT.secret_key)
OF_BILLING = signed(BILLING.access_key, BILLING.secret_key)


@asynccontextmanager
async def cluster_with_users() -> AsyncIterator[MemoryCluster]:
    """A cluster with root and billing, who may send to orders."""
    async with embedded_in_memory(**RULES, init_authentication_user=FIRST) as cluster:
        async with asking(cluster) as ask:
            await ask(RequestCode.AUTH_CREATE_USER, {"username": "billing"}, user_body(), account=ROOT)
            await grant(ask, "Topic:orders", "Pub")
        yield cluster


async def grant(ask: Any, resource: str, action: str) -> None:
    body = acl_body(entry(resource, action))
    await ask(RequestCode.AUTH_CREATE_ACL, {"subject": "User:billing"}, body, account=ROOT)


async def status(stub: Stub, authorization: str, topic: str) -> Any:
    stub.client.headers["authorization"] = authorization
    return (await stub("SendMessage", messages=[message(topic)])).status


async def test_users_and_policies_are_those_of_the_brokers(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_users() as cluster, proxy_of(cluster, {"credentials": ROOT}, **RULES):
        stub = await connected(nursery, cluster, date_time=MOMENT)
        for authorization, name, code, text in [
            (OF_ROOT, "others", Code.OK, "OK"),
            (OF_BILLING, "orders", Code.OK, "OK"),
            (OF_BILLING, "others", Code.FORBIDDEN, "no matched policies."),
            (signed("billing", "wrong"), "orders", Code.UNAUTHORIZED, "check signature failed."),
            (signed("nobody", ""), "orders", Code.UNAUTHORIZED, "not found"),
            ("", "orders", Code.UNAUTHORIZED, "username cannot be null."),
        ]:
            found = await status(stub, authorization, name)
            assert (found.code, text in found.message) == (code, True), found
        async with asking(cluster) as ask:
            await grant(ask, "Topic:others", "Pub")
            await trio.sleep(READ_SECONDS + 1)
            assert (await status(stub, OF_BILLING, "others")).code == Code.OK
            await ask(RequestCode.AUTH_DELETE_USER, {"username": "billing"}, account=ROOT)
            await trio.sleep(READ_SECONDS + 1)
        assert (await status(stub, OF_BILLING, "others")).code == Code.UNAUTHORIZED


async def test_nobody_signs_for_a_user_whose_password_is_hidden(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The account of the proxy may read the users, but is not that of a super user."""
    async with cluster_with_users() as cluster:
        async with asking(cluster) as ask:
            await grant(ask, "Cluster:DefaultCluster", "Get")
            await grant(ask, "Topic:*", "Pub")
        async with proxy_of(cluster, {"credentials": BILLING}, **RULES):
            stub = await connected(nursery, cluster, date_time=MOMENT)
            assert (await status(stub, OF_BILLING, "orders")).code == Code.OK
            for secret in ("", ROOT.secret_key):
                found = await status(stub, signed("root", secret), "orders")
                assert found.code == Code.UNAUTHORIZED
    assert "user root cannot use this proxy" in caplog.text


async def test_users_stay_known_while_no_broker_responds(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_with_users() as cluster, proxy_of(cluster, {"credentials": ROOT}, **RULES):
        stub = await connected(nursery, cluster, date_time=MOMENT)
        assert (await status(stub, OF_BILLING, "orders")).code == Code.OK
        async with asking(cluster) as ask:
            change = user_body(password="another")
            await ask(RequestCode.AUTH_UPDATE_USER, {"username": "root"}, change, account=ROOT)
        await trio.sleep(3 * READ_SECONDS)
        assert (await status(stub, OF_BILLING, "others")).code == Code.FORBIDDEN
    assert caplog.text.count("the users of the cluster cannot be read") == 1


@pytest.mark.parametrize("account", [Credentials("root", "wrong"), None], ids=["wrong", "none"])
async def test_users_that_were_never_read_are_no_refusal(
    nursery: trio.Nursery, autojump_clock: MockClock, account: Credentials | None
) -> None:
    options = {} if account is None else {"credentials": account}
    async with cluster_with_users() as cluster, proxy_of(cluster, options, **RULES):
        stub = await connected(nursery, cluster, date_time=MOMENT)
        found = await status(stub, OF_ROOT, "orders")
        assert found.code == Code.FORBIDDEN and found.message.startswith(
            "the account of the proxy may not do this"
        )
