"""Copies of a broker as a store folder, on an ideal network and on one that delays, splits and cuts."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.errors import BrokerError, StoreLocked
from rmqcli.broker.ha.peer import MasterPeer
from rmqcli.broker.mirror import Mirror, open_mirror
from rmqcli.broker.net.network import Network
from rmqcli.broker.testing.in_memory import HOST, MemoryCluster
from rmqcli.client import Admin, PullConsumer
from rmqcli.codec.ha.frames import encode_block_header
from rmqcli.codec.message_queue import MessageQueue
from tests.broker.ha.support import HA_PORT, TOPIC, Proxied, send
from tests.broker.store.support import inline, killed, queue_bytes

FILE = 16 * 1024
ADDRESS = f"{HOST}:{HA_PORT - 1}"


@asynccontextmanager
async def mirror(
    cluster: MemoryCluster, root: Path, alter: Callable[[bytes], bytes | None] | None = None
) -> AsyncIterator[Mirror]:
    network: Network = cluster.surroundings.network
    if alter is not None:
        network = Proxied(network, HA_PORT, alter)
    async with open_mirror(
        ADDRESS, root, now_ms=cluster.now_ms, network=network, in_thread=inline
    ) as running:
        yield running


def cluster_of(root: Path, **settings: Any) -> Any:
    return broker.embedded_in_memory(store=root, mapped_file_size_commit_log=FILE, **settings)


def same_files(one: Path, other: Path) -> None:
    names = sorted(path.name for path in (one / "commitlog").iterdir())
    for name in [name for name in names if (other / "commitlog" / name).exists()]:
        assert (one / "commitlog" / name).read_bytes() == (other / "commitlog" / name).read_bytes(), name
    assert queue_bytes(one) == queue_bytes(other)


async def test_everything_is_there(autojump_clock: Any, tmp_path: Path) -> None:
    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 100, 500)
        async with PullConsumer("G", **cluster.client()) as consumer:
            await consumer.commit(MessageQueue(TOPIC, "broker-a", 1), 7)
        async with mirror(cluster, tmp_path / "b") as running:
            await running.caught_up((await running.log_range()).end)
            await send(cluster, 30, 500)
            there = await running.log_range()
            await running.caught_up(there.end)
            assert running.store.commit_log_max_offset == there.end
            assert running.slave.progress.trouble == ""
            with pytest.raises(StoreLocked):
                async with mirror(cluster, tmp_path / "b"):
                    pass
        same_files(tmp_path / "a", tmp_path / "b")
    async with broker.embedded_in_memory(store=tmp_path / "b") as copy, Admin(**copy.client()) as admin:
        stats = await admin.topics.stats(TOPIC)
        assert sum(one.max_offset - one.min_offset for one in stats.values()) == 130
        queue = MessageQueue(TOPIC, "broker-a", 1)
        async with PullConsumer("G", **copy.client()) as consumer:
            assert await consumer.committed(queue) == 7


async def test_a_killed_copy_continues(autojump_clock: Any, tmp_path: Path) -> None:
    folder = tmp_path / "b0"
    async with cluster_of(tmp_path / "a") as cluster:
        for number in range(6):
            await send(cluster, 15, 900)
            async with mirror(cluster, folder) as running:
                await running.slave.reached((await running.log_range()).end)
                folder = killed(folder, tmp_path / f"b{number + 1}")
        async with mirror(cluster, folder) as running:
            await running.caught_up((await running.log_range()).end)
        same_files(tmp_path / "a", folder)


async def test_a_network_that_splits_and_cuts(autojump_clock: Any, tmp_path: Path) -> None:
    """A connection ends after any number of bytes, again and again; no byte is lost or doubled."""
    rng = random.Random(7)
    left = 0

    def alter(data: bytes) -> bytes | None:
        nonlocal left
        if left <= 0:
            left = rng.choice([1, 11, 12, 13, 300, 5000, 20000])
            return None
        left -= len(data)
        return data if left > 0 else data[:left] or None

    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 60, 700)
        async with mirror(cluster, tmp_path / "b", alter) as running:
            await running.caught_up((await running.log_range()).end)
            assert running.slave.progress.connections > 5
        same_files(tmp_path / "a", tmp_path / "b")


async def test_cut_at_every_byte(autojump_clock: Any, tmp_path: Path) -> None:
    """Connection number n ends after n bytes: of headers, of the record, of the filler of a file."""
    count = 0
    sizes: list[int] = []

    def alter(data: bytes) -> bytes | None:
        nonlocal count
        if sizes and sizes[-1] == running.slave.progress.connections:
            return None
        sizes.append(running.slave.progress.connections)
        count += 1
        return data[:count]

    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 2, 300)
        async with mirror(cluster, tmp_path / "b", alter) as running:
            await running.caught_up((await running.log_range()).end)
            assert count > 500
        same_files(tmp_path / "a", tmp_path / "b")


async def test_damage_on_the_way(autojump_clock: Any, tmp_path: Path) -> None:
    rng = random.Random(2)
    damaged = 0

    def alter(data: bytes) -> bytes | None:
        nonlocal damaged
        if damaged < 20 and len(data) > 200:
            damaged += 1
            at = rng.randrange(len(data) - 200) + 130  # a body: its CRC says it
            return data[:at] + bytes((data[at] ^ 64,)) + data[at + 1 :]
        return data

    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 1, 30_00)
        async with mirror(cluster, tmp_path / "b", alter) as running:
            await running.caught_up((await running.log_range()).end)
        assert damaged == 20
        same_files(tmp_path / "a", tmp_path / "b")


async def test_a_silent_master_is_given_up(autojump_clock: Any, tmp_path: Path) -> None:
    silent = True

    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster)

        class Mute(Proxied):
            async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
                if port == HA_PORT and silent:
                    return trio.testing.memory_stream_pair()[0]
                return await self._network.open_stream(host, port)

        network = Mute(cluster.surroundings.network, HA_PORT, bytes)
        async with open_mirror(
            ADDRESS, tmp_path / "b", now_ms=cluster.now_ms, network=network, in_thread=inline
        ) as running:
            await trio.sleep(19.9)
            assert "silent" not in running.slave.progress.trouble
            await trio.sleep(0.2)
            assert "silent" in running.slave.progress.trouble
            silent = False
            await running.caught_up((await running.log_range()).end)


@pytest.mark.parametrize("grows", [False, True])
async def test_a_master_that_lost_its_end(
    autojump_clock: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, grows: bool
) -> None:
    """Its log may be shorter, or longer with other records: the copy is cut where they differ."""
    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 40, 500)
        older = killed(tmp_path / "a", tmp_path / "a2")
        async with Admin(**cluster.client()) as admin:
            common = (await admin.replication.states(await admin.brokers.seats()))[
                "broker-a"
            ].master_commit_log_max_offset
        await send(cluster, 40, 500)
        async with mirror(cluster, tmp_path / "b") as running:
            await running.caught_up((await running.log_range()).end)
            far = running.store.commit_log_max_offset
    async with cluster_of(older) as cluster:
        await trio.sleep(1)
        if grows:
            await send(cluster, 60, 500, OTHER="1")
        async with mirror(cluster, tmp_path / "b") as running:
            await running.caught_up((await running.log_range()).end)
            assert running.slave.progress.trouble == ""
        same_files(older, tmp_path / "b")
        assert f"ends at {common} from now on, not at {far}" in caplog.text
    copied = b"".join(
        path.read_bytes() for path in sorted((tmp_path / "b" / "commitlog.removed" / "1").iterdir())
    )
    before = b"".join(path.read_bytes() for path in sorted((tmp_path / "a" / "commitlog").iterdir()))
    assert copied.rstrip(b"\0") == before[common // FILE * FILE :].rstrip(b"\0")


async def test_a_store_of_another_broker_is_not_touched(autojump_clock: Any, tmp_path: Path) -> None:
    async with cluster_of(tmp_path / "b") as cluster:
        await send(cluster, 5, 400)
    before = (tmp_path / "b" / "commitlog" / "00000000000000000000").read_bytes()
    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 50, 300)
        async with mirror(cluster, tmp_path / "b") as running:
            await trio.sleep(20)
            assert "no record in common" in running.slave.progress.trouble
    assert (tmp_path / "b" / "commitlog" / "00000000000000000000").read_bytes() == before


async def test_a_master_that_deleted_what_comes_next(autojump_clock: Any, tmp_path: Path) -> None:
    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 40, 500)
        async with mirror(cluster, tmp_path / "b") as running:
            await running.caught_up((await running.log_range()).end)
        await send(cluster, 200, 900)
    for path in sorted((tmp_path / "a" / "commitlog").iterdir())[:-2]:
        path.unlink()
    async with cluster_of(tmp_path / "a") as cluster:
        async with mirror(cluster, tmp_path / "b") as running:
            await trio.sleep(20)
            assert "is deleted there" in running.slave.progress.trouble
        async with mirror(cluster, tmp_path / "c") as running:
            await running.caught_up((await running.log_range()).end)
            assert running.store.commit_log_min_offset == (await running.log_range()).start > 0


@pytest.mark.parametrize(
    "hostile", [b"\xff" * 40, encode_block_header(0, 500) + bytes(500), encode_block_header(5, 0)]
)
async def test_a_hostile_master(autojump_clock: Any, tmp_path: Path, hostile: bytes) -> None:
    sent = 0

    def alter(data: bytes) -> bytes:
        nonlocal sent
        sent += 1
        return hostile if sent <= 3 else data

    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 20, 500)
        async with mirror(cluster, tmp_path / "b", alter) as running:
            await running.caught_up((await running.log_range()).end)
        same_files(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize(
    "lie",
    [
        {"haListenPort": "9" * 5000},
        {"messageDelayLevel": "x"},
        {"mappedFileSizeCommitLog": "9" * 30},
        {"mappedFileSizeConsumeQueue": "7"},
        {"maxHashSlotNum": "99999999999"},
        {"maxIndexNum": "1"},
        {"brokerName": "../elsewhere"},
    ],
    ids=str,
)
async def test_a_broker_that_says_what_cannot_be(
    autojump_clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: dict[str, str]
) -> None:
    async def properties(_: MasterPeer) -> dict[str, str]:
        return lie

    monkeypatch.setattr(MasterPeer, "properties", properties)
    async with cluster_of(tmp_path / "a") as cluster:
        with pytest.raises(BrokerError, match=f"^{ADDRESS} cannot be copied: .*{next(iter(lie))}"):
            async with mirror(cluster, tmp_path / "b"):
                pass
    assert not (tmp_path / "b").exists()
