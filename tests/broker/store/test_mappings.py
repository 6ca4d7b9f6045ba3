"""More queues than may be mapped: what was not used lately makes room, and nobody notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.broker.store.segment import Mappings, Segment
from rmqcli.broker.testing.disk import SimulatedDisk
from tests.broker.store.support import loaded, message, numbers, small_config

MOST = 4
QUEUES = 20
ROOT = Path("/store")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mappings, "most", MOST)


def test_more_queues_than_mappings(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number in range(5 * QUEUES):
            assert (
                store.writer.append(message(number, queue_id=number % QUEUES)).queue_offset
                == number // QUEUES
            )
            assert len(store._queues.mappings) <= MOST
    with loaded(small_config(tmp_path)) as store:
        for queue_id in range(QUEUES):
            assert numbers(store, "TopicA", queue_id) == list(range(queue_id, 5 * QUEUES, QUEUES))


def test_a_start_maps_no_queue() -> None:
    disk = SimulatedDisk()
    with loaded(small_config(ROOT), disk=disk) as store:
        for number in range(5 * QUEUES):
            store.writer.append(message(number, queue_id=number % QUEUES))
    for stopped in (False, True):
        if stopped:
            disk.unlink(ROOT / "abort")
        with loaded(small_config(ROOT), disk=disk) as store:
            assert len(store._queues.mappings) == 0


def segment(disk: SimulatedDisk, number: int, mappings: Mappings) -> Segment:
    return Segment(disk, Path(f"/{number}"), 0, 4096, mappings=mappings)


def test_what_is_used_stays() -> None:
    mappings = Mappings()
    mappings.is_running = True
    disk = SimulatedDisk()
    files: list[Segment] = []
    for number in range(10 * MOST):
        files.append(segment(disk, number, mappings))
        files[-1].view[0] = 7
        assert files[0].is_resident(0, 1)
        mappings.trim(1)
    assert len(mappings) == MOST
    assert [file.is_mapped for file in files[:2]] == [True, False]
    assert files[1].part(0, 2) == bytes([7, 0])
    assert not files[1].is_resident(0, 1)
    files[1].load_pages(0, 1)
    assert [file.is_mapped for file in files[:2]] == [True, True]
    assert files[1].view[0] == 7


def test_a_removed_file_does_not_come_back() -> None:
    disk, mappings = SimulatedDisk(), Mappings()
    file = segment(disk, 1, mappings)
    file.unmap()
    file.destroy()
    file.load_pages(0, 1)
    assert disk.state(file.path) is None and not file.is_mapped
    assert len(mappings) == 0
