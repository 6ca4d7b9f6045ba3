"""A broker opens a salvaged store, and a client pulls every message that was not in a damaged stretch."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli import broker
from rmqcli.client import PullConsumer
from rmqcli.client.results import PullStatus
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.records.reading import decode_record
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.tables import topics
from rmqcli.store.repair.salvage import LOST, salvage
from rmqcli.store.verify.store import verify_store
from tests.seeds import seeds
from tests.support import COMMIT_LOG_FILE_SIZE, CONSUME_QUEUE_FILE_SIZE, INDEX_ITEMS, INDEX_SLOTS, JavaStore

Copy = Callable[[str], JavaStore]
Place = tuple[str, int, int]
JAVA_SIZES: dict[str, Any] = {
    "mapped_file_size_consume_queue": CONSUME_QUEUE_FILE_SIZE,
    "max_hash_slot_num": INDEX_SLOTS,
    "max_index_num": INDEX_ITEMS,
}
_READABLE = 4
_OF_THE_BROKER = frozenset({SystemTopic.SCHEDULE, SystemTopic.TRANS_HALF, SystemTopic.TRANS_OP_HALF})


def messages_of(store: Path) -> dict[Place, MessageExt]:
    """Returns messages by topic, queue and queue offset."""
    found = {}
    for place, data in CommitLogFiles(store).records():
        message = decode_record(data, place.position, decompress=True)
        found[message.topic, message.queue_id, message.queue_offset] = message
    return found


def touches(message: MessageExt, damaged: list[tuple[int, int]]) -> bool:
    offset = message.commit_log_offset
    return any(begin < offset + message.store_size and offset < end for begin, end in damaged)


def damage(store: JavaStore, chance: random.Random) -> list[tuple[int, int]]:
    """Writes noise into three files; returns the commit-log offsets."""
    ranges = []
    for number, path in enumerate(store.commit_logs[:3]):
        data = bytearray(path.read_bytes())
        begin, size = chance.randrange(300_000), chance.randrange(1, 20_000)
        data[begin : begin + size] = chance.randbytes(size)
        path.write_bytes(data)
        ranges.append((number * COMMIT_LOG_FILE_SIZE + begin, number * COMMIT_LOG_FILE_SIZE + begin + size))
    return ranges


async def pulled(namesrv: str, names: list[str]) -> dict[Place, MessageExt]:
    found: dict[Place, MessageExt] = {}
    async with PullConsumer(namesrv=namesrv, timeout=60) as consumer:
        for name in names:
            for queue in await consumer.message_queues(name):
                offset = await consumer.min_offset(queue)
                while (result := await consumer.pull(queue, offset)).status is PullStatus.FOUND:
                    found |= {(m.topic, m.queue_id, m.queue_offset): m for m in result.messages}
                    offset = result.next_begin_offset
                assert offset >= await consumer.max_offset(queue)
    return found


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
async def test_every_message_outside_of_a_damage_is_pulled(
    copy_java_store: Copy, tmp_path: Path, name: str, seed: int
) -> None:
    store = copy_java_store(name)
    names = [one for one, config in topics(store.root).items() if config.perm & _READABLE]
    names = sorted(set(names) - _OF_THE_BROKER)
    chance = random.Random(seed)
    before = messages_of(store.root)
    damaged = damage(store, chance)
    out = tmp_path / "salvaged"
    result = salvage(store.root, out)
    expected = {key: one for key, one in before.items() if key[0] in names and not touches(one, damaged)}
    report = verify_store(StoreFolder(out))
    assert (report.sound, report.remarks) == (True, [])
    async with broker.embedded(store=out, **JAVA_SIZES) as cluster:
        found = await pulled(cluster.namesrv, names)
    for key, message in expected.items():
        assert (found[key].body, found[key].properties, found[key].msg_id) == (
            message.body,
            message.properties,
            message.msg_id,
        )
    gone = {
        (topic, queue, n) for topic, queue, a, b in result.gone for n in range(a, b + 1) if topic in names
    }
    assert len(expected) > 2000 and gone
    stand_ins = {key for key in gone if key in found and LOST in found[key].properties}
    assert len(stand_ins) > len(gone) // 2
    assert verify_store(StoreFolder(out)).sound
