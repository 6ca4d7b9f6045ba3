"""A start of the broker and `rmq inspect verify` have one opinion of a store, and holes and cold pages no influence.

What `verify` calls sound is opened, and nothing of its log is removed; what a start refuses is damaged. Many more
damages:

    RMQ_SEEDS=200 python -m pytest tests/store/verify/test_broker_agrees.py
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from rmqcli.broker.store import StoreConfig, StoreDamaged
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair.salvage_tables import copy_folder
from rmqcli.store.verify.store import verify_store
from tests.broker.store.support import Clock, killed, loaded, use
from tests.seeds import seeds
from tests.store.repair.damager import ALL, Damager
from tests.support import JavaStore, sparse_copy

NOW = 1_795_230_000_000
OURS = ("stopped", "killed", "power lost")
JAVAS = ("store_clean", "store_killed", "store_five")
SEEDS = seeds(1)
TABLES = "tables"
"""What is not of the store itself: whoever reads them judges them."""


class Opinion(NamedTuple):
    """What verify and a start say; `removes` is what verify says of bytes behind the log's end, `removed` the start."""

    damaged: tuple[str, ...]
    removes: bool
    refusal: str
    end: int
    removed: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True if a start does no more with a sound store than verify says, and refuses none that is sound."""
        if self.refusal:
            return "commitlog" in self.damaged
        return bool(self.damaged) or self.removes == bool(self.removed)


def opinion(root: Path, caplog: pytest.LogCaptureFixture) -> Opinion:
    """Asks both; the start changes the folder."""
    report = verify_store(StoreFolder(root))
    damaged = tuple(name for name, part in report.parts.items() if not part.sound and name != TABLES)
    caplog.clear()
    refusal, end = "", -1
    try:
        with loaded(StoreConfig(root=root, ignore_unsupported=True), Clock(NOW)) as store:
            end = store.commit_log_max_offset
    except StoreDamaged as error:
        refusal = str(error).replace(str(root), "")
    removed = (record.getMessage().partition(", a copy")[0] for record in caplog.records)
    removes = any(note.endswith("the next start removes them") for note in report.remarks)
    return Opinion(
        damaged, removes, refusal, end, tuple(text for text in removed if "the commit log ends" in text)
    )


def warm(source: Path, target: Path) -> Path:
    copy_folder(source, target)
    return target


def dense(source: Path, target: Path) -> Path:
    """A copy without holes."""
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes())
    return target


def cold(source: Path, target: Path) -> Path:
    """A sparse copy that is not in the page cache."""
    sparse_copy(source, target)
    for path in (target / "commitlog").iterdir():
        with path.open("rb") as file:
            os.fsync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return target


COPIES = (warm, dense, sparse_copy, cold)


@pytest.fixture(scope="module")
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of Java's brokers and of ours, by name: read only."""
    used = tmp_path_factory.mktemp("used")
    trio.run(use, used / "stopped", used / "killed")
    killed(used / "killed", used / "power lost", power_lost=True)
    javas: dict[str, JavaStore] = {name: request.getfixturevalue(name) for name in JAVAS}
    return {name: used / name for name in OURS} | {name: java.root for name, java in javas.items()}


@pytest.mark.parametrize("name", OURS + JAVAS)
def test_a_sound_store_is_opened(
    stores: dict[str, Path], tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = {copy.__name__: opinion(copy(stores[name], tmp_path / copy.__name__), caplog) for copy in COPIES}
    assert len(set(found.values())) == 1, found
    assert found["warm"] == Opinion((), False, "", found["warm"].end, ())


@pytest.mark.parametrize("name", OURS + JAVAS)
def test_a_damaged_store(
    stores: dict[str, Path], tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for seed in SEEDS if name in OURS else SEEDS[: 1 + len(SEEDS) // 5]:
        damaged = warm(stores[name], tmp_path / "damaged")
        damager = Damager(damaged, random.Random(f"{name} {seed}"))
        damager.damage(ALL)
        sparse = opinion(sparse_copy(damaged, tmp_path / "sparse"), caplog)
        found = opinion(damaged, caplog)
        assert sparse == found, (seed, damager.done)
        assert found.agrees, (seed, damager.done, found)
        for path in (damaged, tmp_path / "sparse"):
            shutil.rmtree(path)
