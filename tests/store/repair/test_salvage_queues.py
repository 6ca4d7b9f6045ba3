"""Lost queue offsets by the runs of a log, against those that each record shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.store.file_names import file_name
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.consume_queue import queues_of
from rmqcli.store.repair import salvage_queues
from rmqcli.store.repair.rebuild import Shape, build
from rmqcli.store.repair.salvage_order import Places, drop_misplaced, entries_into
from rmqcli.store.repair.salvage_queues import Gone, gone_offsets
from rmqcli.store.repair.salvage_scan import scan_log
from tests.codec.samples import make_record
from tests.seeds import times
from tests.store.one_by_one import one_by_one

_STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from((1, 1, 1, 1, 2, 3, 9, -4, -99, -99)), st.integers(0, 9)),
    max_size=40,
)
"""Records by queue, distance from the queue offset before (-99: the topic is created again), and a number, 0 for
a damaged one.
"""


def write_log(store: Path, steps: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Writes a log with its queues; returns the places of the bodies to damage."""
    data, offsets, damaged = bytearray(), [-1, -1], []
    for queue, step, chance in steps:
        offsets[queue] = max(offsets[queue] + step, 0)
        if not chance:
            damaged.append((len(data), 90))
        fields = {"queue_id": queue, "queue_offset": offsets[queue], "physical_offset": len(data)}
        data += make_record(**fields)
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / file_name(0)).write_bytes(bytes(data) + bytes(1000))
    build(CommitLogFiles(store), store, Shape(queue_file_size=100), may_go_back=True)
    return damaged


def gone(store: Path) -> list[Gone]:
    scan = scan_log(CommitLogFiles(store))
    return gone_offsets(scan, store, drop_misplaced(scan, store))


@settings(max_examples=times(15), deadline=None)
@given(steps=_STEPS)
def test_runs_and_records_name_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    store = tmp_path_factory.mktemp("log")
    damaged = write_log(store, steps)
    path = store / "commitlog" / file_name(0)
    with path.open("r+b") as file:
        for place, byte in damaged:
            file.seek(place + byte)
            file.write(b"\xff")
    by_runs = gone(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(salvage_queues, "_is_possible", lambda *_: False)
        assert gone(store) == by_runs


def test_entries_that_lead_into_some_places(tmp_path: Path) -> None:
    write_log(tmp_path, [(0, 1, 1)] * 50)
    size = len(make_record())
    places = Places([(size * 3, size * 5 + 1), (0, 1), (size * 49, 1 << 62)])
    (queue,) = queues_of(tmp_path)
    found = [entry.queue_offset for entry in entries_into(queue, places)]
    assert found == [0, 3, 4, 5, 49]
    with one_by_one():
        assert [entry.queue_offset for entry in entries_into(queue, places)] == found
    assert list(entries_into(queue, Places([]))) == []
