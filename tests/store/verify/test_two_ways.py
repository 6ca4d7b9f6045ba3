"""Checks of many records at once and one by one must report the same of any damage."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair import salvage
from rmqcli.store.verify.store import verify_store
from tests.seeds import seeds
from tests.store.damage import damage, said
from tests.store.one_by_one import one_by_one
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]
_BLOCK = 5
_KINDS = ("commitlog", "consumequeue", "index")


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
@pytest.mark.parametrize("block", seeds(1))
def test_both_ways_find_the_same(copy_java_store: Copy, name: str, block: int) -> None:
    store = copy_java_store(name).root
    files = {kind: sorted(path for path in (store / kind).rglob("*") if path.is_file()) for kind in _KINDS}
    found = 0
    for seed in range(block * _BLOCK, (block + 1) * _BLOCK):
        chance = random.Random(f"{name} {seed}")
        path = chance.choice(files[chance.choice(_KINDS)])
        before = path.read_bytes()
        damage(path, chance)
        fast = verify_store(StoreFolder(store))
        with one_by_one():
            slow = verify_store(StoreFolder(store))
        assert said(fast) == said(slow), (seed, path)
        found += fast.damaged
        path.write_bytes(before)
    assert found
    assert verify_store(StoreFolder(store)).sound


@pytest.mark.parametrize("seed", seeds(2))
def test_both_ways_salvage_the_same(copy_java_store: Copy, tmp_path: Path, seed: int) -> None:
    store = copy_java_store("store-clean").root
    files = [path for kind in _KINDS[:2] for path in sorted((store / kind).rglob("*")) if path.is_file()]
    logs, chance = [path for path in files if path.parent.name == "commitlog"], random.Random(seed)
    for path in (chance.choice(logs), chance.choice(files), chance.choice(files)):
        damage(path, chance)
    fast = salvage.salvage(store, tmp_path / "fast")
    with one_by_one():
        slow = salvage.salvage(store, tmp_path / "slow")
    assert fast == slow
    assert contents(tmp_path / "fast") == contents(tmp_path / "slow")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
