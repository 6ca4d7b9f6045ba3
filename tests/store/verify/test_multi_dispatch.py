"""Entries of a broker with enableMultiDispatch: one record in several queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.store import CommitLogFiles
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair.rebuild import Shape, build
from rmqcli.store.verify.store import verify_store
from tests.codec.samples import make_record
from tests.store.one_by_one import one_by_one


def make_store(root: Path, name: str, first: int = 0) -> None:
    """Three records of topic T, queue 1, that are also in the queue `name` from an offset on; with entries."""
    data = b""
    for number in range(3):
        data += make_record(
            topic=b"T",
            queue_id=1,
            queue_offset=number,
            physical_offset=len(data),
            properties=f"INNER_MULTI_DISPATCH\x01{name}\x02INNER_MULTI_QUEUE_OFFSET\x01{first + number}".encode(),
        )
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / "00000000000000000000").write_bytes(data.ljust(4096, b"\0"))
    assert build(CommitLogFiles(root), root, Shape(2000, 50, 200)).entries == 6


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize("name", ["%LMQ%a", "Other"])
def test_each_queue_is_sound(tmp_path: Path, name: str, vectorised: bool) -> None:
    make_store(tmp_path, name)
    with one_by_one(not vectorised):
        report = verify_store(StoreFolder(tmp_path))
    assert report.findings == []
    assert report.parts["consumequeue"].items == 6


def test_an_entry_of_a_queue_that_its_record_does_not_name(tmp_path: Path) -> None:
    make_store(tmp_path, "Else")
    (tmp_path / "consumequeue" / "Else").rename(tmp_path / "consumequeue" / "Other")
    findings = [str(finding) for finding in verify_store(StoreFolder(tmp_path)).findings]
    assert len([one for one in findings if "its topic is Other, the record has T" in one]) == 3
