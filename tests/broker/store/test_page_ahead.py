"""Pages that are allocated before a busy writer needs them; none for a slow one, or with SYNC_FLUSH."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.disk import REAL
from rmqcli.broker.store import MessageStore, open_store
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.segment import Segment
from tests.broker.store.support import HOST, LOG_SIZE, Clock, message, numbers, small_config

Span = tuple[int, int, int]
"""Start of the file, first and last position of pages had ahead."""


def is_of_log(segment: Segment) -> bool:
    """False for a file of a queue, whose first page comes with the file."""
    return segment.path.parent.name == "commitlog"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """The pages that were allocated ahead, with limits of a few messages."""
    had: list[Span] = []
    real = Segment.populate_pages

    def populate(segment: Segment, position: int, length: int) -> bool:
        if is_of_log(segment):
            had.append((segment.start, position, position + length))
        return real(segment, position, length)

    monkeypatch.setattr(Segment, "populate_pages", populate)
    monkeypatch.setattr("rmqcli.broker.store.commit_log.AHEAD_AFTER", 2000)
    monkeypatch.setattr("rmqcli.broker.store.commit_log.AHEAD_BYTES", 4000)
    return had


async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return function(*arguments)


async def fill(store: MessageStore, count: int) -> list[int]:
    """Appends messages of about 600 bytes and lets the services work; where the log ended each time."""
    ends = []
    for number in range(count):
        store.writer.append(message(number, size=500))
        ends.append(store.commit_log_max_offset)
        await trio.testing.wait_all_tasks_blocked()
    return ends


async def test_pages_come_before_the_writer(
    tmp_path: Path, spans: list[Span], autojump_clock: trio.testing.MockClock
) -> None:
    async with open_store(small_config(tmp_path), now_ms=Clock(), store_host=HOST, in_thread=inline) as store:
        ends = await fill(store, 40)
        assert ends[-1] > LOG_SIZE, "more than one file"
        for start in (0, LOG_SIZE):
            own = [span for span in spans if span[0] == start]
            late = min(end for end in ends if end - start >= 2000) - start
            assert own[0][1] == late, "not before there is much to write"
            assert all(before[2] == after[1] for before, after in pairwise(own))
        assert all(0 <= first <= last <= LOG_SIZE for _, first, last in spans)
        covered = [end for end in ends if any(s + a < end <= s + b for s, a, b in spans)]
        assert len(covered) > len(ends) - 12, "all but the first of each file"
        assert numbers(store, "TopicA", 0) == list(range(40))


async def test_nothing_is_requested_at_the_end_of_a_file(
    tmp_path: Path,
    spans: list[Span],
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths = []
    real = CommitLog.pages_ahead

    def pages_ahead(log: CommitLog) -> tuple[Segment, int, int]:
        pages = real(log)
        lengths.append(pages[2])
        return pages

    monkeypatch.setattr(CommitLog, "pages_ahead", pages_ahead)
    async with open_store(small_config(tmp_path), now_ms=Clock(), store_host=HOST, in_thread=inline) as store:
        assert (await fill(store, 40))[-1] > LOG_SIZE
    assert lengths and all(lengths)


async def test_not_with_synchronous_flush(
    tmp_path: Path, spans: list[Span], autojump_clock: trio.testing.MockClock
) -> None:
    config = small_config(tmp_path, flush_disk_type="SYNC_FLUSH")
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline) as store:
        await fill(store, 20)
    assert spans == []


async def test_a_kernel_that_cannot_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spans: list[Span], autojump_clock: trio.testing.MockClock
) -> None:
    asked: list[int] = []

    def unable(segment: Segment, position: int, _length: int) -> bool:
        if is_of_log(segment):
            asked.append(position)
        return False

    monkeypatch.setattr(Segment, "populate_pages", unable)
    async with open_store(small_config(tmp_path), now_ms=Clock(), store_host=HOST, in_thread=inline) as store:
        await fill(store, 40)
        assert numbers(store, "TopicA", 0) == list(range(40))
    assert len(asked) == 1


def test_content_stays(tmp_path: Path) -> None:
    segment = Segment(REAL, tmp_path / "s", 0, 1 << 20)
    segment.view[5000:5010] = b"0123456789"
    segment.populate_pages(4097, 100_000)
    assert bytes(segment.view[4990:5020]) == bytes(10) + b"0123456789" + bytes(10)
    assert not any(segment.view[5010:110_000])
    segment.close()
    with pytest.raises(ValueError, match="closed"):
        segment.populate_pages(0, 4096)
