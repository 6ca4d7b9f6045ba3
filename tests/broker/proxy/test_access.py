"""Accounts and signatures of gRPC clients, and TLS beside plain text on one port."""

from __future__ import annotations

import hmac
import ssl
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.testing.embedded import embedded
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.proxy.framing import GrpcStatus
from tests.broker.auth.support import asking
from tests.broker.auth.users import FIRST, ROOT, acl_body, entry, user_body
from tests.broker.proxy.calls import Stub, cluster_with_grpc, connected, message, of_producer, topic
from tests.broker.proxy.grpc_client import GrpcClient
from tests.broker.proxy.signing import ACCOUNTS, MOMENT, signed


def test_the_signature_is_that_of_the_official_client() -> None:
    vector = hmac.new(b"sk1", MOMENT.encode(), "sha1").hexdigest()
    assert vector == "23e9f9a30e807b4de8eacdcd7f3685373a18958f"


@pytest.mark.parametrize(
    ("authorization", "name", "code"),
    [
        (signed(), "orders", Code.OK),
        (signed(upper=True), "orders", Code.OK),
        (signed("operator", "secret-of-operator"), "others", Code.OK),
        (signed(), "others", Code.UNAUTHORIZED),
        (signed(secret="wrong"), "orders", Code.UNAUTHORIZED),
        (signed("nobody-1"), "orders", Code.UNAUTHORIZED),
        (signed(signed_headers="x-mq-language"), "orders", Code.UNAUTHORIZED),
        ("MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=", "orders", Code.UNAUTHORIZED),
        ("", "orders", Code.UNAUTHORIZED),
    ],
)
async def test_a_call_needs_an_account_with_permission(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    tmp_path: Path,
    authorization: str,
    name: str,
    code: Code,
) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    settings = {"acl_enable": True, "plain_acl_file": str(path)}
    async with cluster_with_grpc(store=tmp_path / "store", **settings) as cluster:
        stub = await connected(nursery, cluster, date_time=MOMENT)
        stub.client.headers["authorization"] = authorization
        assert (await stub("QueryRoute", topic=topic(name))).status.code == code
        assert (await stub("SendMessage", messages=[message(name)])).status.code == code
        told = await stub.telemetry(of_producer(name))
        assert (await told.next()).status.code == code
        if code != Code.OK:  # a client of Go waits for settings until the stream ends
            assert (await stub.client.end(told.number)).status == GrpcStatus.INVALID_ARGUMENT
        received = await stub("QueryAssignment", topic=topic(name), group=topic("billing"))
        is_operator = "operator" in authorization
        assert received.status.code == (Code.OK if is_operator else Code.UNAUTHORIZED)


async def test_a_stream_without_a_signature_takes_no_client_over(
    nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    settings = {"acl_enable": True, "plain_acl_file": str(path)}
    async with cluster_with_grpc(store=tmp_path / "store", **settings) as cluster:
        streams = []
        for authorization in (signed(), signed(secret="wrong")):
            stub = await connected(nursery, cluster, date_time=MOMENT)
            stub.client.headers["authorization"] = authorization
            streams.append(await stub.telemetry(of_producer("orders")))
            expected = Code.OK if authorization == signed() else Code.UNAUTHORIZED
            assert (await streams[-1].next()).status.code == expected
        await streams[0].send(settings=of_producer("orders"))
        assert (await streams[0].next()).status.code == Code.OK


async def test_tls_and_plain_text_share_a_port(nursery: trio.Nursery) -> None:
    async with embedded(grpc_port=0) as cluster:
        host, _, port = cluster.grpc_endpoint.rpartition(":")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        for is_secure in (True, False, True):
            stream: trio.abc.Stream = await trio.open_tcp_stream(host, int(port))
            if is_secure:
                stream = trio.SSLStream(stream, context, server_hostname=host)
                await stream.do_handshake()
                assert stream.selected_alpn_protocol() == "h2"
            client: GrpcClient = await nursery.start(GrpcClient(stream).run)
            sent = await Stub(client)("SendMessage", messages=[message("orders", bytes(100_000))])
            assert sent.status.code == Code.OK


@pytest.mark.parametrize(
    ("authorization", "name", "code", "text"),
    [
        (signed("root", "secret-of-root"), "others", Code.OK, "OK"),
        ("", "orders", Code.UNAUTHORIZED, "username cannot be null."),
        (signed("root", "wrong"), "orders", Code.UNAUTHORIZED, "check signature failed."),
        (signed("billing", "secret-of-billing"), "others", Code.FORBIDDEN, "no matched policies."),
        (signed("billing", "secret-of-billing"), "orders", Code.OK, "OK"),
    ],
)
async def test_a_call_needs_a_user_whose_policies_allow_it(
    nursery: trio.Nursery, autojump_clock: MockClock, authorization: str, name: str, code: Code, text: str
) -> None:
    settings = {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": FIRST,
    }
    async with cluster_with_grpc(**settings) as cluster:
        async with asking(cluster) as ask:
            await ask(RequestCode.AUTH_CREATE_USER, {"username": "billing"}, user_body(), account=ROOT)
            policies = acl_body(entry("Topic:orders", "Pub"))
            await ask(RequestCode.AUTH_CREATE_ACL, {"subject": "User:billing"}, policies, account=ROOT)
        stub = await connected(nursery, cluster, date_time=MOMENT)
        stub.client.headers["authorization"] = authorization
        status = (await stub("SendMessage", messages=[message(name)])).status
        assert (status.code, status.message.endswith(text)) == (code, True)
