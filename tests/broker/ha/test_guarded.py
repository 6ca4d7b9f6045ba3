"""Slaves of masters with access control, TLS, or a list of addresses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.config.inner_account import own_signer
from rmqcli.broker.errors import ConfigError, PeerUnreachable
from rmqcli.broker.mirror import open_mirror
from rmqcli.broker.net.peers import open_peer
from rmqcli.broker.testing.in_memory import HOST, MemoryCluster
from rmqcli.client import Admin, Credentials, Tls
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.remoting.signature import Signer
from tests.broker.auth.support import ACCOUNTS, HOME, PLAIN, disk_with
from tests.broker.ha.support import HA_PORT, hand_slave, send
from tests.broker.store.support import inline
from tests.certificates import Certificates, make_certificates

NAME, TOPIC = "broker-m", "Guarded"
SETTLED = 45
SECRET = "secret-of-ordinary"
RIGHT = json.dumps({"accessKey": "ordinary", "secretKey": SECRET})
WRONG = json.dumps({"accessKey": "ordinary", "secretKey": "another-secret"})
OPERATOR = Credentials("operator", "secret-of-operator")


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "tls")


def master_of(cluster: MemoryCluster, **settings: Any) -> Any:
    guard: dict[str, Any] = {"acl_enable": True, "rocketmq_home": str(HOME)}
    return cluster.broker(
        broker_name=NAME, listen_port=10951, disk=disk_with({PLAIN: ACCOUNTS}), **guard, **settings
    )


def slave_of(cluster: MemoryCluster, **settings: Any) -> Any:
    return cluster.broker(broker_name=NAME, broker_role="SLAVE", broker_id=1, listen_port=10971, **settings)


async def has_topic(admin: Admin, address: str) -> bool:
    reply = await admin.invoke(address, RequestCode.GET_ALL_TOPIC_CONFIG)
    return f'"{TOPIC}"'.encode() in bytes(reply.body)


@pytest.mark.parametrize(
    ("account", "trouble"),
    [
        (RIGHT, ""),
        (None, "No accessKey is configured"),
        (WRONG, "Check signature failed for accessKey=ordinary"),
    ],
)
async def test_a_slave_signs_its_requests(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture, account: str | None, trouble: str
) -> None:
    async with (
        broker.embedded_in_memory() as cluster,
        master_of(cluster),
        slave_of(cluster, inner_client_authentication_credentials=account) as slave,
        Admin(credentials=OPERATOR, **cluster.client()) as admin,
    ):
        await admin.topics.create(TOPIC, read_queues=1, write_queues=1, brokers=[NAME])
        await trio.sleep(SETTLED)
        assert await has_topic(admin, slave.broker_address) is not bool(trouble)
        reply = await admin.invoke(slave.broker_address, RequestCode.GET_BROKER_CONFIG)
        assert b"brokerRole=SLAVE" in bytes(reply.body)
        assert b"secret" not in bytes(reply.body)
    assert trouble in caplog.text
    assert ("topics, groups and offsets are not copied" in caplog.text) is bool(trouble)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "text", ["hidden", '{"accessKey": "hidden"}', '{"accessKey": " ", "secretKey": "hidden"}', '["hidden"]']
)
def test_an_account_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="is expected") as found:
        own_signer(BrokerConfig(inner_client_authentication_credentials=text))
    assert "hidden" not in str(found.value)
    assert own_signer(BrokerConfig(inner_client_authentication_credentials=" ")) is None


def test_a_configuration_shows_no_secret() -> None:
    config = BrokerConfig(inner_client_authentication_credentials=RIGHT)
    assert SECRET not in repr(config)
    signer = own_signer(config)
    assert signer is not None
    assert signer.access_key == "ordinary"


@asynccontextmanager
async def tls_pair(certificates: Certificates, **slave: Any) -> AsyncIterator[tuple[Admin, str]]:
    """A master that accepts only TLS, on the port of replication, too, and a slave."""
    entries = certificates.server() | {"tls.client.trustCertPath": str(certificates.ca)}
    async with (
        broker.embedded_in_memory(tls=entries) as cluster,
        cluster.broker(broker_name=NAME, listen_port=10951, ha_tls_required=True),
        slave_of(cluster, **slave) as other,
        Admin(tls=Tls(ca=certificates.ca), **cluster.client()) as admin,
    ):
        await admin.topics.create(TOPIC, read_queues=1, write_queues=1, brokers=[NAME])
        yield admin, other.broker_address


async def test_all_of_a_slave_by_tls(autojump_clock: Any, certificates: Certificates) -> None:
    async with tls_pair(certificates, ha_tls_enable=True) as (admin, slave):
        await trio.sleep(SETTLED)
        assert await has_topic(admin, slave)
        seats = await admin.brokers.seats(brokers=[NAME])
        states = await admin.replication.states(seats)
        assert states[NAME].in_sync_slave_nums == 1
        client = states[f"{NAME}:1"].ha_client_runtime_info
        assert client is not None
        assert client.activated


async def test_a_plain_slave_is_refused(
    autojump_clock: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with tls_pair(certificates) as (admin, slave):
        await trio.sleep(SETTLED)
        assert await has_topic(admin, slave)  # its requests use TLS: tls.server.mode=enforcing
        seats = await admin.brokers.seats(brokers=[NAME])
        assert (await admin.replication.states(seats))[NAME].in_sync_slave_nums == 0
    assert "it does not speak TLS, which is required (haTlsRequired)" in caplog.text


async def test_silent_connections_keep_no_slave_out_that_speaks_tls(
    autojump_clock: Any, certificates: Certificates
) -> None:
    entries = certificates.server() | {"tls.client.trustCertPath": str(certificates.ca)}
    async with (
        broker.embedded_in_memory(tls=entries) as cluster,
        cluster.broker(broker_name=NAME, listen_port=10951, ha_tls_required=True, ha_listen_port=10952),
        AsyncExitStack() as open_ones,
        Admin(tls=Tls(ca=certificates.ca), **cluster.client()) as admin,
    ):
        for _ in range(80):
            await open_ones.enter_async_context(hand_slave(cluster, 10952))
        async with slave_of(cluster, ha_tls_enable=True):
            await trio.sleep(SETTLED)
            seats = await admin.brokers.seats(brokers=[NAME])
            assert (await admin.replication.states(seats))[NAME].in_sync_slave_nums == 1


async def test_tls_without_a_certificate_is_refused(autojump_clock: Any, certificates: Certificates) -> None:
    async with broker.embedded_in_memory() as cluster:
        with pytest.raises(PeerUnreachable, match="by TLS"):
            await open_peer(
                cluster.surroundings.network, f"{HOST}:{HA_PORT}", Tls(ca=certificates.ca).context()
            )


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ha_tls_required": True}, "haTlsRequired=true needs tls.server.certPath"),
        ({"ha_tls_enable": True}, "set tls.enable=true"),
        ({"ha_white_remote_addresses": "10.0.0.x"}, "haWhiteRemoteAddresses=10.0.0.x: addresses as in"),
    ],
)
async def test_settings_that_do_not_fit(autojump_clock: Any, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        async with broker.embedded_in_memory(**settings):
            pass


@pytest.mark.parametrize(
    ("addresses", "served"),
    [(None, True), ("10.0.0.1; 127.0.0.*", True), ("10.0.0.1;10.1.*.*", False)],
)
async def test_who_may_connect(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture, addresses: str | None, served: bool
) -> None:
    async with broker.embedded_in_memory(ha_white_remote_addresses=addresses) as cluster:
        await send(cluster)
        async with hand_slave(cluster) as slave:
            try:
                await slave.report(0)
            except trio.BrokenResourceError:
                assert not served
            assert await slave.receive() is served
            assert bool(slave.log) is served
    assert ("haWhiteRemoteAddresses does not have its address" in caplog.text) is not served


async def test_a_mirror_by_tls_with_an_account(
    autojump_clock: Any, certificates: Certificates, tmp_path: Path
) -> None:
    context = Tls(ca=certificates.ca).context()
    async with (
        broker.embedded_in_memory(tls=certificates.server()) as cluster,
        master_of(cluster, ha_tls_required=True),
        open_mirror(
            f"{HOST}:10951",
            tmp_path / "copy",
            signer=Signer("ordinary", SECRET),
            tls=context,
            ha_tls=context,
            now_ms=cluster.now_ms,
            network=cluster.surroundings.network,
            in_thread=inline,
        ) as running,
    ):
        await running.caught_up((await running.log_range()).end)
        assert running.slave.progress.trouble == running.tables.trouble == ""
