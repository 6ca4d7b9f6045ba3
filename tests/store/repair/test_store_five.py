"""The store of a 5.3.3 broker: batch queues are rebuilt as what they are, and nothing of 5.x is lost."""

from __future__ import annotations

import filecmp
import random
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from rmqcli.codec.bodies.config import load_properties_text
from rmqcli.codec.store import consume_queue
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.consume_queue import batch_queues, batch_topics
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.sequences import Run, Sequences
from rmqcli.store.read.tables import topics
from rmqcli.store.repair.rebuild import build, compare, shape_of
from rmqcli.store.repair.salvage import salvage
from rmqcli.store.verify.store import verify_store
from tests.seeds import seeds
from tests.store.one_by_one import one_by_one
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]
BATCHES = "FiveBatchCQ"


@pytest.mark.parametrize("vectorised", [True, False])
def test_byte_for_byte_what_java_wrote(store_five: JavaStore, tmp_path: Path, vectorised: bool) -> None:
    with one_by_one(not vectorised):
        built = build(CommitLogFiles(store_five.root), tmp_path, shape_of(store_five.root))
    assert compare(store_five.root, tmp_path) == []
    assert (built.entries, built.missing) == (2977, 0)


def test_batch_queues_from_the_log_and_the_settings_alone(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-five")
    kept = tmp_path / "kept"
    (store.root / consume_queue.FOLDER).rename(kept)
    shutil.rmtree(store.root / "consumequeue")
    sizes = load_properties_text((store.folder / "broker.conf").read_bytes())
    assert shape_of(store.root, sizes).unknown == ("mapperFileSizeBatchConsumeQueue",)
    sizes["mapperFileSizeBatchConsumeQueue"] = "13800000"
    build(CommitLogFiles(store.root), tmp_path / "new", shape_of(store.root, sizes))
    for path in kept.rglob("0*0"):
        assert filecmp.cmp(
            path, tmp_path / "new" / consume_queue.FOLDER / path.relative_to(kept), shallow=False
        )


def test_units_are_read(store_five: JavaStore) -> None:
    assert batch_topics(store_five.root) == {BATCHES}
    counts = {}
    for queue in batch_queues(store_five.root):
        units = list(queue.units())
        counts[queue.queue_id] = [unit.batch_size for unit in units]
        assert [unit.base_offset for unit in units[1:]] == [unit.end for unit in units[:-1]]
    assert counts == {0: [8, 8, 8, 1, 1, 1, 1, 1], 1: [8, 8, 1, 1, 1, 1, 1]}


def test_inner_batches_leave_no_gap(store_five: JavaStore) -> None:
    found = Sequences()
    for path in store_five.commit_logs:
        data = memoryview(path.read_bytes())
        for line in store_five.of_kind("msg"):
            begin = line["phy"] - int(path.name)
            if line["topic"] == BATCHES and 0 <= begin < len(data):
                found.read(data, begin, begin + line["size"])
    assert found.queues[BATCHES, 0] == [Run(0, 28, 1822543, 1830105)]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_sound_store_is_salvaged_as_it_is(store_five: JavaStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = salvage(store_five.root, out)
    assert (result.lost, result.gone) == ([], [])
    assert result.notes == ["copied unchecked, as 5.x brokers keep them: compaction, timerlog, timerwheel"]
    before, after = contents(store_five.root), contents(out)
    assert before.keys() - after.keys() == {"lock", "abort.bak"}
    assert {name for name in after if before[name] != after[name]} <= {"checkpoint"}
    used = [sum(path.stat().st_blocks for path in folder.rglob("*")) for folder in (store_five.root, out)]
    assert used[1] < used[0] + 4096, "preallocated files stay sparse"


@pytest.mark.parametrize("seed", seeds(2))
def test_a_damaged_store_is_salvaged(copy_java_store: Copy, tmp_path: Path, seed: int) -> None:
    store = copy_java_store("store-five")
    chance = random.Random(seed)
    begin = 1_822_543 - 1_572_864 + chance.randrange(6000)
    with store.commit_logs[3].open("r+b") as file:
        file.seek(begin)
        file.write(chance.randbytes(chance.randrange(1, 2000)))
    if seed % 2:
        shutil.rmtree(store.root / consume_queue.FOLDER)
    out = tmp_path / "out"
    result = salvage(store.root, out)
    assert result.lost and verify_store(StoreFolder(out)).sound
    for queue in batch_queues(out):
        units = list(queue.units())
        assert all(unit.base_offset >= before.end for before, unit in pairwise(units))
    assert not (out / "consumequeue" / BATCHES).exists()


def test_topics_that_are_lost_keep_their_kind_of_queue(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-five")
    for path in (store.root / "config").glob("topics.json*"):
        path.unlink()
    salvage(store.root, tmp_path / "out")
    found = topics(tmp_path / "out")[BATCHES]
    assert (found.read_queue_nums, found.attributes) == (2, {"queue.type": "BatchCQ"})
