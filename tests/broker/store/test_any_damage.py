"""Whatever became of queues, index and checkpoint: a start that checks everything leaves what a rebuild writes."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import trio

from rmqcli.broker.store import StoreSizeMismatch
from rmqcli.codec.store.index_file import index_file_size
from rmqcli.store import CommitLogFiles
from rmqcli.store.repair.rebuild import Shape, build
from tests.broker.store.support import (
    COUNT,
    ITEMS,
    QUEUE_SIZE,
    SLOTS,
    START_MS,
    Clock,
    killed,
    loaded,
    queue_bytes,
    small_config,
    use,
)
from tests.seeds import times
from tests.store.repair.damager import DERIVED, Damager

SEEDS = times(20)
_BLOCK = 10
_HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A folder after a clean stop, after a kill and after a power loss that lost nothing: read only."""
    used = tmp_path_factory.mktemp("used")
    trio.run(use, used / "stopped", used / "killed")
    return [used / "stopped", used / "killed", killed(used / "killed", used / "power lost", power_lost=True)]


def assert_no_file_tells_the_size(refusal: str) -> None:
    """Where all files of a folder are cut off, the settings may be wrong as well."""
    folder = Path(refusal.split(" is ", maxsplit=1)[0]).parent
    right = index_file_size(SLOTS, ITEMS) if folder.name == "index" else QUEUE_SIZE
    assert right not in {path.stat().st_size for path in folder.iterdir()}, refusal


@pytest.mark.parametrize("block", range(SEEDS // _BLOCK))
def test_a_start_equals_a_rebuild(folders: list[Path], tmp_path: Path, block: int) -> None:
    for seed in range(block * _BLOCK, (block + 1) * _BLOCK):
        root, built = tmp_path / "damaged", tmp_path / "built"
        shutil.copytree(folders[seed % len(folders)], root)
        chance = random.Random(seed)
        damager = Damager(root, chance)
        for _ in range(chance.randint(1, 4)):
            damager.damage(DERIVED)
        config = small_config(root, check_store_on_start=True)
        try:
            with loaded(config, Clock(START_MS + _HOUR_MS)) as store:
                found = [
                    len(store.query("AB"[n % 5 == 0], f"k{n}", 9, 0, 1 << 50).views) for n in range(COUNT)
                ]
        except StoreSizeMismatch as refusal:
            assert_no_file_tells_the_size(str(refusal))
            shutil.rmtree(root)
            continue
        build(CommitLogFiles(root), built, Shape(QUEUE_SIZE, SLOTS, ITEMS))
        assert found == [1] * COUNT, (seed, damager.done)
        assert queue_bytes(root) == queue_bytes(built), (seed, damager.done)
        for path in (root, built):
            shutil.rmtree(path)
