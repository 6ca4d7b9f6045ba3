"""Salvage after random damages of every kind of file: every record of the log that is whole is kept, the new
store is sound, and no table changes without a word.

2,000 damaged stores take some 20 minutes:

    RMQ_SEEDS=80 python -m pytest tests/store/repair/test_salvage_damages.py
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli import broker
from rmqcli.client import Producer, PullConsumer
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.records.reading import decode_record
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.tables import TABLES
from rmqcli.store.repair.salvage import salvage
from rmqcli.store.repair.salvage_tables import copy_folder
from rmqcli.store.verify.store import verify_store
from tests.seeds import seeds
from tests.store.repair.damager import ALL, Damager
from tests.support import JavaStore

SEEDS = len(seeds(6))
_SOURCES = ("store_clean", "store_killed", "store_five", "stopped", "killed")
_MOST = 6
_SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 32 * 1024,
    "mapped_file_size_consume_queue": 4100,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
}


async def _use(folder: Path, copy: Path) -> None:
    """Sends to a broker of ours and consumes from it; `copy` is its folder as a killed process leaves it."""
    async with broker.embedded_in_memory(store=folder, **_SMALL) as cluster:
        async with Producer(**cluster.client()) as producer:
            for number in range(300):
                message = Message.of(
                    f"Topic{number % 3}",
                    bytes([number % 256]) * (number % 250 + 1),
                    keys=[f"k{number}"],
                    tags="a" if number % 2 else "b",
                    delay_level=18 if number % 40 == 7 else 0,
                )
                await producer.send(message)
        async with PullConsumer("group", **cluster.client()) as consumer:
            for queue in await consumer.message_queues("Topic0"):
                await consumer.commit(queue, 3)
        await trio.sleep(30)
        shutil.copytree(folder, copy)


@pytest.fixture(scope="module")
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of Java's brokers and of ours, by name: read only."""
    ours = tmp_path_factory.mktemp("ours")
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(_use, ours / "stopped", ours / "killed", clock=clock)
    found = {name: ours / name for name in ("stopped", "killed")}
    for name in _SOURCES[:3]:
        java: JavaStore = request.getfixturevalue(name)
        found[name] = java.root
    return found


def messages_of(store: Path) -> Iterator[MessageExt]:
    for place, data in CommitLogFiles(store).records():
        yield decode_record(data, place.position)


def _content(store: Path, name: str) -> bytes | None:
    path = store / "config" / name
    return path.read_bytes() if path.exists() else None


def _silent(before: Path, damaged: Path, after: Path, notes: list[str]) -> list[str]:
    """Returns the tables that neither a note names nor the new store has as they were."""
    return [
        name
        for name in TABLES
        if _content(before, name) != _content(after, name) != _content(damaged, name)
        and not any(f"config/{name}" in note for note in notes)
    ]


def check_salvage(before: Path, folder: Path, seed: int, records: dict[int, MessageExt]) -> None:
    """Damages a copy as a seed says, and salvages it."""
    source, out = folder / "damaged", folder / "salvaged"
    copy_folder(before, source)
    chance = random.Random(seed)
    damager = Damager(source, chance)
    for _ in range(chance.randint(1, _MOST)):
        damager.damage(ALL)
    result = salvage(source, out)
    after = {message.commit_log_offset: message for message in messages_of(out)}
    whole = [message for message in records.values() if not damager.touches(message)]
    lost = [message for message in whole if after.get(message.commit_log_offset) != message]
    silent = _silent(before, source, out, result.notes)
    findings = [
        (str(one.path.relative_to(out)), one.problem) for one in verify_store(StoreFolder(out)).findings
    ]
    assert (len(lost), findings, silent) == (0, [], []), (seed, damager.done)
    for path in (source, out):
        shutil.rmtree(path)


@pytest.mark.parametrize("name", _SOURCES)
def test_no_whole_record_is_lost_and_the_new_store_is_sound(
    stores: dict[str, Path], tmp_path: Path, name: str
) -> None:
    records = {message.commit_log_offset: message for message in messages_of(stores[name])}
    assert len(records) > 200
    for seed in range(_SOURCES.index(name), SEEDS, len(_SOURCES)):
        check_salvage(stores[name], tmp_path, seed, records)
