"""A broker that registers at a name server with TLS: what it trusts and shows, and what its log says."""

from __future__ import annotations

import logging

import pytest
import trio
import trustme

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.namesrv import open_name_server
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.services.registration import Registration
from rmqcli.codec.bodies.config import DataVersion, TopicConfigSerializeWrapper
from tests.broker.namesrv.support import NO_FILES
from tests.broker.support import done
from tests.broker.tls.support import in_place
from tests.certificates import Certificates


async def registers(
    nursery: trio.Nursery, certificates: Certificates, server: dict[str, str], peer: dict[str, str]
) -> bool:
    """True if the name server knows the broker."""
    accepting = TlsAcceptor(certificates.server(**server))
    async with open_name_server(NO_FILES, port=0, tls=accepting) as namesrv:
        tls = TlsAcceptor(peer, in_thread=in_place)
        await tls.load()
        config = BrokerConfig(broker_name="broker-a", namesrv_addr=namesrv.address)
        topics = TopicConfigSerializeWrapper({}, DataVersion(1, 1))
        broker = Registration(lambda: config, "127.0.0.1:1", lambda: topics, tls=lambda: tls.peers)
        await nursery.start(broker.peers.run)
        await broker.register()
        return "broker-a" in done(namesrv.state.routes.cluster_info()).broker_addr_table


@pytest.mark.parametrize(
    ("more", "served"),
    [
        ({}, True),
        ({"trustCertPath": "{0}/ca.pem"}, True),
        ({"trustCertPath": "{0}/other.pem"}, False),
        ({"trustCertPath": "{0}/other.pem", "authServer": "false"}, True),
        ({"authServer": "true"}, False),
    ],
)
async def test_the_name_server_is_checked_if_its_ca_is_known(
    nursery: trio.Nursery,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    more: dict[str, str],
    served: bool,
) -> None:
    trustme.CA().cert_pem.write_to_path(str(certificates.folder / "other.pem"))
    peer = {f"tls.client.{name}": value.format(certificates.folder) for name, value in more.items()}
    assert await registers(nursery, certificates, {}, {"tls.enable": "true", **peer}) is served
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == (not served)
    if not served:
        assert "by TLS: unable to get local issuer certificate" in lines[0]


async def test_a_certificate_is_shown(nursery: trio.Nursery, certificates: Certificates) -> None:
    server = {"need_client_auth": "require", "trustCertPath": str(certificates.ca)}
    certificate, key = certificates.pair("client")
    peer = {"tls.client.certPath": str(certificate), "tls.client.keyPath": str(key), "tls.enable": "true"}
    assert await registers(nursery, certificates, server, peer)
    assert not await registers(nursery, certificates, server, {"tls.enable": "true"})


async def test_a_plain_broker_is_told_about_tls(
    nursery: trio.Nursery, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    assert not await registers(nursery, certificates, {}, {})
    assert (
        "disconnected before it answered code 103; if it accepts only TLS, set tls.enable=true" in caplog.text
    )


async def test_a_name_server_without_tls(
    nursery: trio.Nursery, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    assert not await registers(nursery, certificates, {"mode": "disabled"}, {"tls.enable": "true"})
    assert "the peer closed the connection during the handshake: it may not accept TLS" in caplog.text
