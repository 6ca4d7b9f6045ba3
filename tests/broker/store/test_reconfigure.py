"""Settings that change while the store is open, and others that need a new start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import trio
import trio.testing

from rmqcli.broker.store import GetStatus, PutStatus
from rmqcli.broker.store.config import FIXED
from tests.broker.store.support import START_MS, Clock, loaded, message, small_config
from tests.broker.store.threads import Threads, opened


def test_limits_of_messages_and_replies(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number in range(4):
            assert store.writer.append(message(number, size=200)).status is PutStatus.PUT_OK
        store.reconfigure(
            replace(store.config, max_message_size=100, max_transfer_count_on_message_in_memory=2)
        )
        assert store.writer.append(message(4, size=200)).status is PutStatus.MESSAGE_ILLEGAL
        found = store.reader.get("TopicA", 0, 0, 32)
        assert (found.status, found.count) == (GetStatus.FOUND, 2)


async def test_from_asynchronous_to_synchronous_flush_and_back(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    threads = Threads(seconds=0.1)
    async with opened(tmp_path, threads) as store:
        end = store.writer.append(message(1)).size
        assert await store.wait_flushed(end)
        assert store.flushed_offset == 0
        store.reconfigure(replace(store.config, flush_disk_type="SYNC_FLUSH"))
        assert await store.wait_flushed(end)
        assert store.flushed_offset == end
        store.reconfigure(replace(store.config, flush_disk_type="ASYNC_FLUSH"))
        end += store.writer.append(message(2)).size
        assert await store.wait_flushed(end)
        assert store.flushed_offset < end


async def test_files_that_have_expired(tmp_path: Path) -> None:
    clock = Clock(START_MS)
    with loaded(small_config(tmp_path), clock) as store:
        for number in range(100):
            store.writer.append(message(number, size=300))
        files = len(list((tmp_path / "commitlog").iterdir()))
        store.reconfigure(replace(store.config, file_reserved_time=-1_000_000))
        assert await store.retention.delete_expired_files() == files - 1


def test_what_files_are_made_of_stays(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        before = store.config
        store.reconfigure(
            replace(before, root=tmp_path / "elsewhere", max_index_num=7, message_delay_level="1s")
        )
        assert [getattr(store.config, name) for name in FIXED] == [getattr(before, name) for name in FIXED]
