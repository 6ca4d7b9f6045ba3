"""Long batches and messages with thousands of keys reach index and listeners in steps, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec import structs

from rmqcli.broker.disk import REAL
from rmqcli.broker.errors import NotReady
from rmqcli.broker.store import MessageStore, PutStatus, StoreMessage
from rmqcli.broker.store.arrivals import ITEMS_PER_LOOK, TURN_SECONDS
from rmqcli.broker.store.batches import PART_MESSAGES
from rmqcli.broker.store.store import open_store
from rmqcli.broker.store.values import AppendResult
from rmqcli.codec.core.derived import IndexItem
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.properties import encode_properties
from tests.broker.store.support import (
    HOST,
    SLOTS,
    Clock,
    Heard,
    Rebuild,
    inline,
    loaded,
    message,
    queue_bytes,
    small_config,
)

LOG = 1 << 20
PUT_OK = PutStatus.PUT_OK


def with_keys(number: int, keys: int) -> StoreMessage:
    plain = message(number)
    properties = {**plain.properties, "KEYS": " ".join(f"{number}-{key}" for key in range(keys))}
    return structs.replace(plain, properties=properties, properties_text=encode_properties(properties))


def append_batch(store: MessageStore, items: int, name: str, keys: int = 0) -> AppendResult:
    """`keys` are those of each message beside its unique one, or of each second message if negative."""
    messages = []
    for n in range(items):
        properties = {"UNIQ_KEY": f"{name}{n:04}"}
        if keys > 0 or (keys and n % 2):
            properties["KEYS"] = " ".join(f"{key:03}" for key in range(abs(keys)))
        messages.append(Message(topic="TopicA", body=b"x", properties=properties))
    steps = store.writer.prepare_batch(
        structs.replace(message(), body=encode_batch(messages), properties_text=b"")
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            results = [store.writer.append_batch(part) for part in end.value]
            return results[-1]


def test_queues_and_index_equal_a_rebuild(tmp_path: Path) -> None:
    """Whatever came late is in the order of the log, and so is what came behind it."""
    config = small_config(tmp_path, mapped_file_size_commit_log=LOG, max_index_num=300_000)
    with loaded(config) as store:
        for number in range(0, 60, 6):
            store.writer.begin_batch()
            store.writer.append(message(number))
            store.writer.append(with_keys(number + 1, 900))
            store.writer.append(message(number + 2))
            store.writer.end_batch()
            for keys in (0, 2, 70, 600, 2500, -70, -2500) if number % 30 == 0 else ():
                assert append_batch(store, PART_MESSAGES // 2, f"c{number}-{keys}", keys).status is PUT_OK
            assert append_batch(store, 4 * PART_MESSAGES, f"b{number}").status is PUT_OK
            store.writer.append(message(number + 4, sys_flag=4))
            store.writer.append(message(number + 5, sys_flag=8))
        assert not store.query("TopicA", "nowhere", 1, 0, 1).views  # writes what was gathered
    rebuilt = Rebuild(tmp_path)
    assert queue_bytes(tmp_path) == rebuilt.queues()
    index = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    assert index == rebuilt.index_files(SLOTS, 300_000)


async def test_a_turn_of_the_loop_has_so_many_items_and_no_more(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Another message of this kind waits meanwhile, a short one does not; a query waits for all."""
    config = small_config(tmp_path, mapped_file_size_commit_log=LOG, max_index_num=50_000)
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=REAL) as store:
        added, most, heard = 0, 0, Heard()
        index = store._index
        assert index is not None
        add = index.add_in_steps

        def counted(items: Iterable[IndexItem]) -> Iterator[None]:
            nonlocal added
            for step in add(items):
                added += 1
                mock_clock.jump(TURN_SECONDS / ITEMS_PER_LOOK)
                yield step

        index.add_in_steps = counted  # type: ignore[method-assign]
        store.add_arrival_listener(heard)
        await store.when_ready(store.writer.append, message(0))
        for number in range(1, 40):
            await store.when_ready(store.writer.append, with_keys(number, 3000))
            if added:
                break
        with pytest.raises(NotReady):
            while True:
                store.attempt(store.writer.append, with_keys(99, 3000))
        assert store.attempt(store.writer.append, message(100)).status is PutStatus.PUT_OK
        with pytest.raises(NotReady):
            store.attempt(store.query, "TopicA", "1-2999", 1, 0, 1 << 50)
        before = added
        while store.writer.late:
            await trio.lowlevel.checkpoint()
            most, before = max(most, added - before), added
        assert 0 < most <= 2 * 2 * ITEMS_PER_LOOK  # this task may have seen two turns at once
        found = await store.when_ready(store.query, "TopicA", "1-2999", 1, 0, 1 << 50)
        assert found.views
        assert heard.offsets == sorted(heard.offsets)


async def test_a_clean_stop_writes_what_is_late(tmp_path: Path) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=LOG, max_index_num=50_000)
    for _ in range(2):
        async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=REAL) as store:
            await store.when_ready(store.writer.append, with_keys(1, 3000))
    index = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    assert index == Rebuild(tmp_path).index_files(SLOTS, 50_000)
