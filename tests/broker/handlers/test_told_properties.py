"""What servers say of their configuration: what became of defaults, ports and paths, and what is always so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rmqcli import broker
from rmqcli.broker.config import BrokerConfig, NamesrvConfig, config_from_properties, ignored, property_names
from rmqcli.broker.config.servers import FIXED, FIXED_OF_BROKERS, FIXED_OF_NAME_SERVERS
from rmqcli.client import Admin
from rmqcli.codec.bodies.config import parse_properties
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.codes import ResponseCode
from tests.broker.support import fake_broker


async def told(admin: Admin, address: str, code: R) -> dict[str, str]:
    return parse_properties(bytes((await admin.invoke(address, code)).body).decode())


async def changed(admin: Admin, address: str, code: R, entry: str) -> tuple[int, str | None]:
    reply = await admin.invoke(address, code, None, entry.encode())
    return reply.code, reply.remark


async def test_addresses_and_paths_are_those_of_now(
    tmp_path: Path, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    async with (
        broker.embedded_in_memory(store=Path("here"), ha_slave_fallbehind_max=7) as cluster,
        Admin(**cluster.client()) as admin,
    ):
        host, _, port = cluster.broker_address.rpartition(":")
        found = await told(admin, cluster.broker_address, R.GET_BROKER_CONFIG)
        wanted = {
            "brokerIP1": host,
            "brokerIP2": host,
            "listenPort": port,
            "rocketmqHome": str(tmp_path),
            "storePathRootDir": str(tmp_path / "here"),
            "storePathCommitLog": str(tmp_path / "here" / "commitlog"),
            "haMaxGapNotInSync": "7",
            "bitMapLengthConsumeQueueExt": "112",
            **FIXED_OF_BROKERS,
        }
        assert found.items() >= wanted.items()
        for name, value in wanted.items():
            entry = f"{name}={value}"
            reply = await changed(admin, cluster.broker_address, R.UPDATE_BROKER_CONFIG, entry)
            assert reply[0] == (16 if name == "rocketmqHome" else 0), (entry, reply)
        host, _, port = cluster.namesrv.rpartition(":")
        found = await told(admin, cluster.namesrv, R.GET_NAMESRV_CONFIG)
        wanted = {
            "bindAddress": host,
            "listenPort": port,
            "rocketmqHome": str(tmp_path),
            **FIXED_OF_NAME_SERVERS,
        }
        assert found.items() >= wanted.items()
        assert await changed(admin, cluster.namesrv, R.UPDATE_NAMESRV_CONFIG, f"listenPort={port}") == (
            0,
            None,
        )
        assert (await changed(admin, cluster.namesrv, R.UPDATE_NAMESRV_CONFIG, "enableTopicList=false"))[
            1
        ] == ("enableTopicList cannot change: it is always true")


async def test_the_size_of_files_is_that_of_the_store(tmp_path: Path) -> None:
    """A start without a size adopts that of the files."""
    for settings in ({"mapped_file_size_commit_log": 1 << 20}, {"mapped_file_size_commit_log": 1 << 30}):
        async with fake_broker(tmp_path, **settings) as fake:
            client = fake.client()
            await client.send("T")
            assert b"mappedFileSizeCommitLog=1048576\n" in (await client.ask(R.GET_BROKER_CONFIG)).body


async def test_a_missing_feature_cannot_be_turned_on(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as fake:
        client = fake.client()
        before = (await client.ask(R.GET_BROKER_CONFIG)).body
        refused = await client.ask(25, None, b"autoCreateTopicEnable=false\nenableCompaction=true\n")
        assert (refused.code, refused.remark) == (
            ResponseCode.NO_PERMISSION,
            "enableCompaction cannot change: it is always false",
        )
        assert (await client.ask(R.GET_BROKER_CONFIG)).body == before


@pytest.mark.parametrize(
    ("kind", "fixed"), [(BrokerConfig, FIXED_OF_BROKERS), (NamesrvConfig, FIXED_OF_NAME_SERVERS)]
)
def test_a_file_may_say_what_is_always_so(
    kind: type[BrokerConfig] | type[NamesrvConfig], fixed: Mapping[str, str]
) -> None:
    assert config_from_properties(kind, fixed) == (kind(), [])
    assert FIXED.keys() & property_names(kind).keys() == set(), "no property is fixed and not"
    _, unknown = config_from_properties(kind, dict.fromkeys(fixed, "other"))
    assert unknown == list(fixed)
    assert ignored("storeType") == "storeType is ignored: it is always default"
