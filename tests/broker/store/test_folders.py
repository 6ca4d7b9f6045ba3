"""Folders: durable before anything in them is, and written by one broker at a time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.disk.real import RealDisk
from rmqcli.broker.disk.table_file import DurableFolders, save_table
from rmqcli.broker.store import StoreConfig, StoreLocked, open_store
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.power_cut import ODDS
from rmqcli.codec.store.file_names import file_name
from tests.broker.store.support import HOST, QUEUE_SIZE, Clock, inline, message, small_config

ROOT = Path("/data/broker/store")
LEAST = {"random": lambda: 1.0, "choice": lambda _odds: ODDS[0], "getrandbits": lambda _bits: 0}
"""A power cut with these keeps nothing that was not synced."""


@pytest.fixture
def harsh(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """A disk that keeps nothing but what was synced."""
    disk = SimulatedDisk()
    for name, function in LEAST.items():
        monkeypatch.setattr(disk._rng, name, function)
    return disk


def test_a_folder_that_its_parent_does_not_durably_know_is_lost(harsh: SimulatedDisk) -> None:
    harsh.make_folder(ROOT)
    harsh._create_folder(ROOT / "config")
    harsh.write(ROOT / "config" / "topics.json", b"1")
    harsh.sync_file(ROOT / "config" / "topics.json")
    harsh.sync_folder(ROOT / "config")
    after = harsh.power_cut()
    assert after.state(ROOT) is not None
    assert after.state(ROOT / "config") is None
    assert after.list(ROOT / "config") == []


def test_a_folder_that_a_killed_process_left_is_made_durable(harsh: SimulatedDisk) -> None:
    harsh._create_folder(Path("/data"))  # and no more
    killed = harsh.killed()
    killed.make_folder(ROOT)
    assert killed.power_cut().state(ROOT) is not None


def test_folders_are_synced_into_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: Counter[Path] = Counter()
    real = RealDisk.sync_folder

    def sync(disk: RealDisk, path: Path) -> None:
        synced[path] += 1
        real(disk, path)

    monkeypatch.setattr(RealDisk, "sync_folder", sync)
    disk, folder = RealDisk(), tmp_path / "a" / "b" / "c"
    (tmp_path / "a").mkdir()
    disk.make_folder(folder)
    assert all(synced[parent] == 1 for parent in folder.parents)
    disk.make_folder(folder)
    assert synced[folder.parent] == 1, "once"
    disk.remove_empty_folder(folder)
    disk.make_folder(folder)
    assert folder.is_dir() and synced[folder.parent] == 2


def test_folders_of_others_need_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_disk: RealDisk, path: Path) -> None:
        if path != tmp_path:
            raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(RealDisk, "sync_folder", refuse)
    RealDisk().make_folder(tmp_path / "a")
    with pytest.raises(PermissionError):
        RealDisk().make_folder(tmp_path / "a" / "b")


async def test_what_was_acknowledged_is_in_durable_folders(harsh: SimulatedDisk) -> None:
    config = small_config(ROOT, commit_log_path=Path("/log/of/broker"), flush_disk_type="SYNC_FLUSH")
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=harsh) as store:
        result = store.writer.append(message(1, topic="T"))
        assert await store.wait_flushed(result.physical_offset + result.size)
        folders = {path: harsh.power_cut().state(path) for path in config.folders}
        queue = harsh.power_cut().state(config.consume_queue_folder / "T" / "0")
    assert None not in folders.values() and queue is not None


async def test_a_file_that_a_killed_process_left_is_made_durable(harsh: SimulatedDisk) -> None:
    """It was killed after it had created the file of a queue, and before it synced the folders."""
    config = small_config(ROOT)
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=harsh) as store:
        store.writer.append(message(1, topic="T"))
    queue = config.consume_queue_folder / "T" / "1"
    harsh._create_folder(queue)
    harsh.write(queue / file_name(0), bytes(QUEUE_SIZE))
    disk = harsh.killed()
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=disk) as store:
        store.writer.append(message(2, topic="T", queue_id=1))
    after = disk.power_cut()
    assert after.state(queue / file_name(0)) is not None


async def test_a_table_that_a_killed_process_renamed_stays(harsh: SimulatedDisk) -> None:
    """It was killed before it synced the folder; what the next one has read, a power cut does not take back."""
    config = small_config(ROOT)
    table = config.tables_folder / "topics.json"
    save_table(harsh, table, b"old")
    harsh.write(table.with_name("new"), b"new")
    harsh.sync_file(table.with_name("new"))
    harsh.replace(table.with_name("new"), table)
    disk = harsh.killed()
    assert harsh.power_cut().read(table) == b"old"
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=disk):
        assert disk.power_cut().read(table) == b"new"


# --- locks


def _opened(config: StoreConfig, disk: Disk):  # type: ignore[no-untyped-def]
    return open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=disk)


@pytest.mark.parametrize("simulated", [False, True])
async def test_two_stores_do_not_share_a_commit_log(tmp_path: Path, simulated: bool) -> None:
    disk: Disk = SimulatedDisk() if simulated else REAL
    log = tmp_path / "log"
    first, second = (small_config(tmp_path / name, commit_log_path=log) for name in ("one", "two"))
    async with _opened(first, disk) as store:
        store.writer.append(message(1))
        with pytest.raises(StoreLocked, match=r"/log is held by this process: .*choose another one"):
            async with _opened(second, disk):
                raise AssertionError("two stores write to one log")
        store.writer.append(message(2))
    async with _opened(second, disk) as store:
        assert store.commit_log_max_offset > 0, "the log was free again"


async def test_a_store_without_its_lock_file_is_locked(tmp_path: Path) -> None:
    async with _opened(small_config(tmp_path), REAL):
        (tmp_path / "lock").unlink()
        with pytest.raises(StoreLocked, match="held by this process"):
            async with _opened(small_config(tmp_path), REAL):
                raise AssertionError("two brokers on one store")


async def test_a_link_leads_to_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "index").symlink_to(tmp_path / "one" / "index")
    async with _opened(small_config(tmp_path / "one"), REAL):
        with pytest.raises(StoreLocked, match="two/index"):
            async with _opened(small_config(tmp_path / "two"), REAL):
                raise AssertionError("two stores write to one index")


async def test_one_folder_for_two_purposes(tmp_path: Path) -> None:
    async with _opened(small_config(tmp_path, commit_log_path=tmp_path), REAL) as store:
        assert store.writer.append(message(1)).physical_offset == 0


def test_folders_of_another_process(tmp_path: Path) -> None:
    code = (
        "import sys, contextlib; from pathlib import Path; from rmqcli.broker.disk import REAL; from rmqcli.broker.errors import *\n"
        "root = Path(sys.argv[1])\n"
        "try:\n"
        "    with REAL.lock(root / 'two' / 'lock', [root / 'two', root / 'log']): print('free')\n"
        "except StoreLocked as error: print(error)"
    )

    def other() -> str:
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
        ).stdout.strip()

    with REAL.lock(tmp_path / "one" / "lock", [tmp_path / "one", tmp_path / "log"]):
        assert other().startswith(f"{tmp_path / 'log'} is held by another process")
    assert other() == "free"


def test_both_disks_make_folders_in_one_way() -> None:
    assert RealDisk.make_folder is SimulatedDisk.make_folder is DurableFolders.make_folder
