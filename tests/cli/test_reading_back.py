"""A copy that is read back as it goes, while its master changes under it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.mirror import Mirror, open_mirror
from rmqcli.broker.testing.in_memory import HOST, MemoryCluster
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.commands.mirror.reading_back import ReadingBack
from tests.broker.ha.support import HA_PORT, send
from tests.broker.store.support import inline, killed

FILE = 16 * 1024


def cluster_of(root: Path) -> Any:
    return broker.embedded_in_memory(store=root, mapped_file_size_commit_log=FILE)


def mirror(cluster: MemoryCluster, root: Path) -> Any:
    network = cluster.surroundings.network
    address = f"{HOST}:{HA_PORT - 1}"
    return open_mirror(address, root, now_ms=cluster.now_ms, network=network, in_thread=inline)


async def verified(running: Mirror, back: ReadingBack) -> None:
    """Returns once all that the master has is copied and read back."""
    end = (await running.log_range()).end
    await running.caught_up(end)
    while back.verified < end:  # noqa: ASYNC110  nothing says it
        await trio.sleep(0.1)


async def test_a_copy_that_grows(autojump_clock: Any, tmp_path: Path) -> None:
    async with cluster_of(tmp_path / "a") as cluster:
        for count in (0, 30, 200):
            async with mirror(cluster, tmp_path / "b") as running, trio.open_nursery() as nursery:
                back = ReadingBack(running.store, tmp_path / "b", inline)
                assert back.verified == running.store.commit_log_max_offset
                nursery.start_soon(back.run)
                await send(cluster, count + 1, 400)
                await verified(running, back)
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize("grows", [False, True])
async def test_a_copy_that_is_cut(autojump_clock: Any, tmp_path: Path, grows: bool) -> None:
    """Its master lost the end of its log: what was read back there counts no more."""
    async with cluster_of(tmp_path / "a") as cluster:
        await send(cluster, 40, 500)
        older = killed(tmp_path / "a", tmp_path / "a2")
        await send(cluster, 40, 500)
        async with mirror(cluster, tmp_path / "b") as running:
            await running.caught_up((await running.log_range()).end)
    async with cluster_of(older) as cluster:
        await trio.sleep(1)
        if grows:
            await send(cluster, 60, 500, OTHER="1")
        async with mirror(cluster, tmp_path / "b") as running, trio.open_nursery() as nursery:
            back = ReadingBack(running.store, tmp_path / "b", inline)
            nursery.start_soon(back.run)
            await verified(running, back)
            assert running.store.cuts == 2
            await send(cluster, 3, 500)
            await verified(running, back)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/T/0", "index"])
async def test_damage_behind_the_write(autojump_clock: Any, tmp_path: Path, folder: str) -> None:
    copy = tmp_path / "b"
    async with cluster_of(tmp_path / "a") as cluster, mirror(cluster, copy) as running:
        back = ReadingBack(running.store, copy, inline)
        await send(cluster, 20, 400)
        await running.caught_up((await running.log_range()).end)
        await trio.sleep(20)
        path = min((copy / folder).iterdir())
        data = path.read_bytes().rstrip(b"\0")
        # The last item of an index may be half written, and counts when another follows.
        at = data.index(b"bbbb") if folder == "commitlog" else len(data) - 21
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes([data[at] ^ 1]))
        with pytest.raises(CommandError, match=f"is damaged: {path}: byte ") as raised:
            await back.run()
        assert raised.value.code is ExitCode.CORRUPT
