"""Offsets by time, times by offset."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.errors import NotReady
from rmqcli.broker.store import MessageStore, open_store
from rmqcli.broker.store.segment import Segment
from rmqcli.codec.records.reading import decode_record
from tests.broker.store.support import HOST, START_MS, Clock, inline, loaded, message, small_config

UNITS = 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """40 messages, one each 100 ms, in three queue files with the times of their last messages."""
    clock = Clock()
    with loaded(small_config(tmp_path), clock) as store:
        for number in range(40):
            clock.now = START_MS + number * 100
            store.writer.append(message(number))
        for number, path in enumerate(sorted((tmp_path / "consumequeue" / "TopicA" / "0").iterdir())):
            last = min((number + 1) * UNITS, 40) - 1
            os.utime(path, ns=(0, (START_MS + last * 100) * 1_000_000))
        yield store


@pytest.mark.parametrize(
    ("after", "offset"),
    [
        (-500, 0),
        (0, 0),
        (1, 0),
        (49, 0),
        (50, 0),
        (51, 1),
        (100, 1),
        (1500, 15),
        (1501, 16),
        (1549, 16),
        (2345, 23),
        (3900, 39),
        (9000, 39),
    ],
)
def test_nearest_in_time(store: MessageStore, after: int, offset: int) -> None:
    assert store.search.offset_by_time("TopicA", 0, START_MS + after) == offset


def test_the_file_is_chosen_by_its_modification_time(tmp_path: Path, store: MessageStore) -> None:
    """As Java does: a file that looks younger than it is hides the files behind it."""
    first = sorted((tmp_path / "consumequeue" / "TopicA" / "0").iterdir())[0]
    os.utime(first, ns=(0, (START_MS + 9_999) * 1_000_000))
    assert store.search.offset_by_time("TopicA", 0, START_MS + 3000) == UNITS - 1


def test_units_below_the_minimum_do_not_count(store: MessageStore) -> None:
    store._queues.ensure("TopicA", 0).min_offset = 20
    assert store.search.offset_by_time("TopicA", 0, START_MS + 2000) == 20
    assert store.search.offset_by_time("TopicA", 0, START_MS + 1700) == 20
    assert store.search.earliest_store_time("TopicA", 0) == START_MS + 2000
    assert store.search.store_time("TopicA", 0, 19) == -1


def test_times_of_messages(store: MessageStore) -> None:
    assert store.search.store_time("TopicA", 0, 7) == START_MS + 700
    assert store.search.store_time("TopicA", 0, 40) == -1
    assert store.search.store_time("TopicA", 3, 0) == -1
    assert store.search.earliest_store_time() == START_MS


def test_what_does_not_exist(tmp_path: Path, store: MessageStore) -> None:
    assert store.search.offset_by_time("TopicB", 0, START_MS) == 0
    assert store.search.earliest_store_time("TopicB", 0) == -1
    with loaded(small_config(tmp_path / "empty")) as empty:
        assert empty.search.earliest_store_time() == -1


def test_a_query_returns_no_more_than_a_reply_holds(tmp_path: Path) -> None:
    """The newest of 40 messages of 1 MB that share a key."""
    with loaded(small_config(tmp_path, mapped_file_size_commit_log=4 << 20)) as store:
        for number in range(40):
            store.writer.append(message(number, size=1_000_000))
        views = store.query("TopicA", "all", 64, 0, 1 << 50).views
        assert sum(map(len, views)) < 15 << 20
        assert [int(bytes(view[88:]).split(b":")[0]) for view in views] == list(range(25, 40))


def test_a_search_of_a_long_chain_takes_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many messages share the key with the oldest, which is wanted; a file may be removed meanwhile."""
    monkeypatch.setattr("rmqcli.broker.store.search.ITEMS_PER_STEP", 4)
    clock = Clock()
    with loaded(
        small_config(tmp_path, max_index_num=400, mapped_file_size_commit_log=1 << 20), clock
    ) as store:
        for number in range(100):
            clock.now = START_MS + number * 1000
            store.writer.append(message(number))
        store.query("TopicA", "all", 1, 0, 1)  # writes what was gathered
        search = store.key_search("TopicA", "all", 64, START_MS, START_MS + 1000)
        steps = 1
        while not search.advance():
            steps += 1
        assert steps >= 100 / 4
        assert [decode_record(view).queue_offset for view in store.found(search).views] == [0, 1]
        again = store.key_search("TopicA", "all", 64, START_MS, START_MS + 1000)
        again.advance()
        for file in store._index.files:  # type: ignore[union-attr]
            file.destroy()
        while not again.advance():
            pass
        assert again.hits.offsets == search.hits.offsets


@pytest.mark.parametrize("removal", ["expired", "cut"])
def test_files_are_removed_before_a_search_reaches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removal: str
) -> None:
    monkeypatch.setattr("rmqcli.broker.store.search.ITEMS_PER_STEP", 1)
    with loaded(small_config(tmp_path, max_index_num=64, mapped_file_size_commit_log=1 << 20)) as store:
        for number in range(100):
            store.writer.append(message(number))
        index = store._index
        assert index is not None
        store.query("TopicA", "all", 1, 0, 1)  # writes what was gathered
        files = index.files
        assert len(files) > 3
        search = store.key_search("TopicA", "all", 64, 0, 1 << 50)
        search.advance()
        if removal == "expired":
            for segment in index.take_expired(files[-1].begin_offset):
                segment.destroy()
        else:
            assert index.truncate(files[1].begin_offset + 1)
        left = {file.path for file in index.files}
        while not search.advance():
            pass
        assert search.hits.offsets
        assert {path for path in (tmp_path / "index").iterdir() if path.stat().st_size} == left


async def test_a_search_ends_when_its_file_is_removed_from_a_running_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """What is no longer in memory cannot be loaded again: the search must not wait for that."""
    monkeypatch.setattr("rmqcli.broker.store.search.ITEMS_PER_STEP", 1)
    async with open_store(
        small_config(tmp_path, mapped_file_size_commit_log=1 << 20),
        now_ms=Clock(),
        store_host=HOST,
        in_thread=inline,
    ) as store:
        for number in range(20):
            await store.when_ready(store.writer.append, message(number))
        await trio.sleep(5)
        search = await store.when_ready(store.key_search, "TopicA", "all", 64, 0, 1 << 50)
        await store.when_ready(search.advance)
        assert store._index is not None
        (file,) = store._index.files
        store._index.files = []
        file.destroy()
        store._readiness._resident.clear()
        is_over = False
        for _ in range(100):
            try:
                is_over = is_over or store._readiness.attempt(search.advance)
            except NotReady as missing:
                await missing.ready()
        assert is_over and len(search.hits.offsets) == 20


def test_a_search_goes_on_where_it_waited_for_the_disk(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number in range(10):
            store.writer.append(message(number))
        search = store.key_search("TopicA", "all", 64, 0, 1 << 50)
        is_cold, asked = itertools.cycle([True, False]), []

        def require(_segment: Segment, position: int, _length: int) -> None:
            asked.append(position)
            if next(is_cold):
                raise NotReady(trio.lowlevel.checkpoint)

        search._require = require
        for _ in range(100):
            with suppress(NotReady):
                if search.advance():
                    break
        assert len(search.hits.offsets) == 10
        assert asked[::2] == asked[1::2]
        assert len(set(asked)) == len(asked) // 2
