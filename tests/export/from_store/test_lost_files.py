"""An export of a range of store times reports a missing commit log file whose records may lie in the
range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.export import RowFilter, export_store
from rmqcli.export.from_store.queue_check import require_files
from rmqcli.store import Queue, queue_folders
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


class Lost:
    """A store without one of its files, and the times before, in and behind it."""

    def __init__(self, store: JavaStore, number: int) -> None:
        lines = store.of_kind("msg")
        self.root = store.root
        self.times = [
            [line["storeTimestamp"] for line in lines if line["phy"] // 524288 == n] for n in range(4)
        ]
        self.number = number
        store.commit_logs[number].unlink()

    def export(self, out: Path, **rows: Any) -> int:
        return export_store(self.root, out, RowFilter(**rows)).rows


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_range_over_a_lost_file(copy_java_store: Copy, tmp_path: Path, number: int) -> None:
    lost = Lost(copy_java_store("store-clean"), number)
    missing = f"commit-log offsets from {number * 524288} on, where there is no file; --no-verify"
    inside = lost.times[number]
    middle = inside[len(inside) // 2]
    ranges = [{"begin_time": 1}, {"begin_time": inside[0]}, {"end_time": inside[-1] + 1}]
    for place, times in enumerate([*ranges, {"begin_time": middle, "end_time": middle + 1}]):
        with pytest.raises(CorruptionError, match=missing):
            lost.export(tmp_path / str(place), **times)
        assert not (tmp_path / str(place)).exists()
    assert lost.export(tmp_path / "all", begin_time=1, check_crc=False) == sum(
        len(times) for n, times in enumerate(lost.times) if n != number
    )


def test_a_range_elsewhere(copy_java_store: Copy, tmp_path: Path) -> None:
    lost = Lost(copy_java_store("store-clean"), 2)
    before, behind = lost.times[1], lost.times[3]
    end = before[len(before) // 2]
    assert lost.export(tmp_path / "before", end_time=end) == sum(
        time < end for times in lost.times[:2] for time in times
    )
    begin = behind[len(behind) // 2]
    assert lost.export(tmp_path / "behind", begin_time=begin) == sum(time >= begin for time in behind)


def test_what_retention_took_is_no_loss(copy_java_store: Copy, tmp_path: Path) -> None:
    lost = Lost(copy_java_store("store-clean"), 0)
    assert lost.export(tmp_path / "out", begin_time=1) == sum(map(len, lost.times[1:]))


@pytest.mark.parametrize("is_made", [True, False])
def test_a_file_that_a_broker_makes_meanwhile(copy_java_store: Copy, tmp_path: Path, is_made: bool) -> None:
    store, rows = copy_java_store("store-clean"), RowFilter(begin_time=1)
    last = store.commit_logs[-1]
    hidden = last.rename(tmp_path / last.name)

    def meanwhile() -> Iterator[Queue]:
        if is_made:
            hidden.rename(last)
        yield from queue_folders(store.root)

    with nullcontext() if is_made else pytest.raises(CorruptionError, match="where there is no file"):
        require_files(store.root, meanwhile(), rows)
        assert export_store(store.root, tmp_path / "out", rows).rows == 3090
