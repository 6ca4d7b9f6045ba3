"""A range of store times reads about what lies inside it, and leaves out no row."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from rmqcli.export import RowFilter, export_store
from rmqcli.export.from_store.parts import parts_of
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.repair.rebuild import build, shape_of
from tests.export.support import NOW, java_rows, rows_of, scanned, write_timed
from tests.seeds import seeds
from tests.support import JavaStore

MINUTE = 60_000


SMALL_STEPS = RowFilter(sample_bytes=1000)


def read_bytes(store: Path, rows: RowFilter) -> int:
    return sum(part.end - part.begin for part in parts_of(store, rows))


def wanted(moments: dict[int, int], begin: int | None, end: int | None) -> list[int]:
    low, high = begin or 0, end or max(moments.values()) + 1
    return [offset for offset, time in moments.items() if low <= time < high]


@pytest.mark.parametrize("seed", seeds(2))
def test_any_range_of_a_clock_that_is_set_back_a_little(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    steps = [source.choice((0, 1, 1, 500, 5 * MINUTE)) for _ in range(500)]
    rising = list(accumulate(steps, initial=NOW))
    moments = write_timed(
        tmp_path, [time - source.choice((0, 0, 0, SMALL_STEPS.set_back_ms)) for time in rising]
    )
    for _ in range(4):
        begin, end = sorted(source.sample(rising, 2))
        for bounds in ((begin, end), (begin, None), (None, end)):
            rows = replace(SMALL_STEPS, begin_time=bounds[0], end_time=bounds[1])
            assert list(scanned(tmp_path, 3000, rows)) == wanted(moments, *bounds)


def test_what_lies_outside_is_not_read(tmp_path: Path) -> None:
    """Records are a minute apart: of 3,000, those of the hour, the margins, and a step on either side are
    read.
    """
    moments = write_timed(tmp_path, [NOW + n * MINUTE for n in range(3000)])
    begin, end = NOW + 1000 * MINUTE, NOW + 1060 * MINUTE
    size = max(moments) / 2999
    read = read_bytes(tmp_path, replace(SMALL_STEPS, begin_time=begin, end_time=end))
    assert 60 * size <= read <= (60 + 2 * 10 + 2) * size + 2 * 2000 < max(moments) / 20
    assert read_bytes(tmp_path, replace(SMALL_STEPS, begin_time=begin)) == pytest.approx(
        2000 * size, rel=0.02
    )
    assert read_bytes(tmp_path, replace(SMALL_STEPS, end_time=end)) == pytest.approx(1060 * size, rel=0.02)
    assert read_bytes(tmp_path, replace(SMALL_STEPS, begin_time=NOW + 9000 * MINUTE)) < 5000
    assert read_bytes(tmp_path, replace(SMALL_STEPS, end_time=NOW - 9000 * MINUTE)) < 5000


def test_a_clock_that_was_set_back_far_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hours = [NOW + n * MINUTE // 10 for n in range(1500)]
    moments = write_timed(tmp_path, [*hours, *(time - 60 * MINUTE for time in hours)])
    bounds = NOW - 30 * MINUTE, NOW - 20 * MINUTE
    found = list(scanned(tmp_path, 3000, replace(SMALL_STEPS, begin_time=bounds[0], end_time=bounds[1])))
    assert found == wanted(moments, *bounds) != []
    assert "the broker's clock was set back before commit-log offset" in capsys.readouterr().err


@pytest.mark.parametrize("topic", [None, "T1"])
def test_an_export_reads_as_little(tmp_path: Path, read: list[int], topic: str | None) -> None:
    """Reading by the consume queues of a topic is included. The progress adds up to the size of the log."""
    store = tmp_path / "store"
    moments = write_timed(store, [NOW + n * MINUTE for n in range(2000)])
    build(CommitLogFiles(store), store, shape_of(store))
    told: list[int] = []
    begin, end = NOW + 1000 * MINUTE, NOW + 1060 * MINUTE
    topics = frozenset(filter(None, [topic]))
    rows = replace(SMALL_STEPS, topics=topics, begin_time=begin, end_time=end)
    export_store(store, tmp_path / "out", rows, told.append)
    expected = [
        offset
        for offset in wanted(moments, begin, end)
        if topic is None or moments[offset] // MINUTE % 2 != NOW // MINUTE % 2
    ]
    assert [row["commit_log_offset"] for row in rows_of(tmp_path / "out")] == expected
    assert len(expected) == (30 if topic else 60)
    assert sum(read) <= len(expected) * 1.7
    assert sum(told) == sum(file.size for file in CommitLogFiles(store).files)


def test_java_stores(store_clean: JavaStore) -> None:
    """Without a margin: their clocks were never set back."""
    every = java_rows(store_clean)
    moments = {row["commit_log_offset"]: row["store_timestamp"] // 1000 for row in every}
    size = sum(path.stat().st_size for path in store_clean.commit_logs)
    for begin, end in [(1795224778100, 1795224778500), (1795224778500, None), (None, 1795224778100)]:
        rows = replace(SMALL_STEPS, begin_time=begin, end_time=end, set_back_ms=0)
        expected = wanted(moments, begin, end)
        assert 0 < len(expected) < len(every)
        assert list(scanned(store_clean.root, 20_000, rows)) == expected
        assert read_bytes(store_clean.root, rows) < size
