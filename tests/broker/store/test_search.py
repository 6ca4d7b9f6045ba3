"""Offsets by time, times by offset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.store import MessageStore
from tests.broker.store.support import START_MS, Clock, loaded, message, small_config

UNITS = 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """40 messages, one each 100 ms, in three queue files with the times of their last messages."""
    clock = Clock()
    with loaded(small_config(tmp_path), clock) as store:
        for number in range(40):
            clock.now = START_MS + number * 100
            store.append(message(number))
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
    assert store.offset_by_time("TopicA", 0, START_MS + after) == offset


def test_the_file_is_chosen_by_its_modification_time(tmp_path: Path, store: MessageStore) -> None:
    """As Java does: a file that looks younger than it is hides the files behind it."""
    first = sorted((tmp_path / "consumequeue" / "TopicA" / "0").iterdir())[0]
    os.utime(first, ns=(0, (START_MS + 9_999) * 1_000_000))
    assert store.offset_by_time("TopicA", 0, START_MS + 3000) == UNITS - 1


def test_units_below_the_minimum_do_not_count(store: MessageStore) -> None:
    store._queues.ensure("TopicA", 0).min_offset = 20
    assert store.offset_by_time("TopicA", 0, START_MS + 2000) == 20
    assert store.offset_by_time("TopicA", 0, START_MS + 1700) == 20
    assert store.earliest_store_time("TopicA", 0) == START_MS + 2000
    assert store.store_time("TopicA", 0, 19) == -1


def test_times_of_messages(store: MessageStore) -> None:
    assert store.store_time("TopicA", 0, 7) == START_MS + 700
    assert store.store_time("TopicA", 0, 40) == -1
    assert store.store_time("TopicA", 3, 0) == -1
    assert store.earliest_store_time() == START_MS


def test_what_does_not_exist(tmp_path: Path, store: MessageStore) -> None:
    assert store.offset_by_time("TopicB", 0, START_MS) == 0
    assert store.earliest_store_time("TopicB", 0) == -1
    with loaded(small_config(tmp_path / "empty")) as empty:
        assert empty.earliest_store_time() == -1


def test_a_query_returns_no_more_than_a_reply_holds(tmp_path: Path) -> None:
    """The newest of 40 messages of 1 MB that share a key."""
    with loaded(small_config(tmp_path, mapped_file_size_commit_log=4 << 20)) as store:
        for number in range(40):
            store.append(message(number, size=1_000_000))
        views = store.query("TopicA", "all", 64, 0, 1 << 50).views
        assert sum(map(len, views)) < 15 << 20
        assert [int(bytes(view[88:]).split(b":")[0]) for view in views] == list(range(25, 40))
