"""What power cuts of the simulated disk leave, by the kind of file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.broker.disk import PAGE
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.power_cut import Journal

FOLDERS = Path("/a"), Path("/b")
NAMES = [folder / name for name in "1234" for folder in FOLDERS]
SEEDS = range(200)


def _disk(seed: int) -> SimulatedDisk:
    disk = SimulatedDisk(seed)
    for folder in FOLDERS:
        disk.make_folder(folder)
    return disk


def _created(journal: Journal) -> set[tuple[str, ...]]:
    """The names that are left of files created one after the other, of which the third was synced."""
    left = set()
    for seed in SEEDS:
        disk = _disk(seed)
        for number, path in enumerate(NAMES):
            disk.write(path, b"x")
            if number == 2:
                disk.sync_folder(path.parent)
        left.add(tuple(_names(disk.power_cut(journal))))
    return left


def _names(disk: SimulatedDisk) -> list[str]:
    return [str(path) for path in NAMES if disk.state(path) is not None]


@pytest.mark.parametrize("journal", [Journal.METADATA, Journal.ORDERED])
def test_a_journal_keeps_the_order_of_operations(journal: Journal) -> None:
    in_order = {tuple(map(str, NAMES[:count])) for count in range(3, len(NAMES) + 1)}
    assert _created(journal) == in_order


def test_without_a_journal_there_is_no_order() -> None:
    left = _created(Journal.NONE)
    assert all({"/a/1", "/a/2"} <= set(names) for names in left)
    assert ("/a/1", "/a/2", "/b/4") in left
    assert len(left) > 20


@pytest.mark.parametrize(
    ("journal", "mixed"), [(Journal.NONE, True), (Journal.METADATA, True), (Journal.ORDERED, False)]
)
def test_ordered_data_is_there_with_its_length(journal: Journal, mixed: bool) -> None:
    content = b"x" * PAGE * 3
    found = set()
    for seed in SEEDS:
        disk = _disk(seed)
        disk.write(NAMES[0], content)
        disk.sync_folder(FOLDERS[0])
        found.add(disk.power_cut(journal).read(NAMES[0]))
    assert {b"", content} <= found
    assert (len(found) > 2) == mixed


def test_what_is_synced_survives_every_cut() -> None:
    disk = _disk(0)
    disk.write(NAMES[0], b"synced")
    disk.sync_file(NAMES[0])
    disk.sync_folder(FOLDERS[0])
    disk.write(NAMES[1], b"nameless")
    disk.sync_file(NAMES[1])
    disk.write(NAMES[2], b"not synced")
    assert disk.synced() == {NAMES[0]: b"synced"}
    for seed in SEEDS:
        assert disk.power_cut(list(Journal)[seed % 3]).read(NAMES[0]) == b"synced"
