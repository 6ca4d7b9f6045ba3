"""Sound stores verify as sound; every damage is found, named and skipped."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqcli.codec.records.encoding import encode_filler, encode_record
from rmqcli.codec.store.consume_queue import ENTRY, is_address
from rmqcli.codec.store.record_layout import PREFIXES
from rmqcli.store import CommitLogFiles, queue_folders, verify_commit_log, verify_consume_queues
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.verify.commit_log import parts_of
from rmqcli.store.verify.findings import MAX_FINDINGS, Finding, Report
from rmqcli.store.verify.store import verify_store
from rmqcli.store.workers import Workers
from tests.broker.store.support import loaded, message, small_config
from tests.seeds import seeds
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


def record(body: bytes, offset: int = 0) -> bytes:
    return encode_record(
        topic=b"T",
        queue_id=0,
        flag=0,
        queue_offset=0,
        physical_offset=offset,
        sys_flag=0,
        born_timestamp=1,
        born_host=bytes(8),
        store_timestamp=1,
        store_host=bytes(8),
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=b"",
    )


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_what_java_wrote_is_sound(java_store: JavaStore) -> None:
    log = CommitLogFiles(java_store.root)
    report = verify_commit_log(log)
    assert (report.findings, report.items) == ([], len(java_store.of_kind("msg")))
    assert report.size == sum(file.size for file in log.files)
    queues = verify_consume_queues(queue_folders(java_store.root))
    assert queues.findings == []
    assert queues.items == sum(len(line["data"]) for line in java_store.of_kind("consumequeue-file"))


def test_progress_adds_up(store_clean: JavaStore) -> None:
    told: list[int] = []
    report = verify_commit_log(CommitLogFiles(store_clean.root), told.append)
    assert sum(told) == report.used <= report.size
    assert report.used == sum(path.stat().st_blocks * 512 for path in store_clean.commit_logs)


@pytest.mark.parametrize("seed", seeds(5))
def test_a_flipped_bit_is_found_and_the_rest_is_read(copy_java_store: Copy, seed: int) -> None:
    """One bit anywhere in the checked bytes: exactly one record is lost."""
    store = copy_java_store("store-clean")
    chance = random.Random(seed)
    messages = store.of_kind("msg")
    line = chance.choice(messages[:-1])
    path = store.root / "commitlog" / f"{line['phy'] // 524288 * 524288:020d}"
    body = line["phy"] % 524288 + 88
    covered = [*range(8), *range(28, 36), *range(84, 88 + line["bodyLen"] + 1)]
    position = line["phy"] % 524288 + chance.choice(covered)
    overwrite(path, position, bytes([path.read_bytes()[position] ^ 1 << chance.randrange(8)]))
    report = verify_commit_log(CommitLogFiles(store.root))
    assert [finding.path for finding in report.findings] == [path]
    assert report.findings[0].position == body - 88
    assert report.items == len(messages) - 1


def test_a_lost_stretch_is_stepped_over(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    offsets = [line["phy"] for line in store.of_kind("msg")]
    overwrite(store.commit_logs[0], offsets[10], bytes(random.Random(1).randbytes(offsets[20] - offsets[10])))
    report = verify_commit_log(CommitLogFiles(store.root))
    assert [(finding.position, finding.length) for finding in report.findings] == [
        (offsets[10], offsets[20] - offsets[10])
    ]
    assert report.items == len(offsets) - 10


def test_zeros_before_the_end_are_damage(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    offsets = [line["phy"] for line in store.of_kind("msg")]
    overwrite(store.commit_logs[0], offsets[10], bytes(offsets[20] - offsets[10]))
    report = verify_commit_log(CommitLogFiles(store.root))
    assert [finding.length for finding in report.findings] == [offsets[20] - offsets[10]]


def test_a_file_without_its_filler_record(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    end = next(int(line["end"].split("@")[1].split()[0]) for line in store.of_kind("commitlog-file"))
    overwrite(store.commit_logs[0], end, bytes(524288 - end))
    report = verify_commit_log(CommitLogFiles(store.root))
    assert [(finding.position, "no filler record" in finding.problem) for finding in report.findings] == [
        (end, True)
    ]
    overwrite(store.commit_logs[0], end, encode_filler(524288 - end))
    assert verify_commit_log(CommitLogFiles(store.root)).sound


def test_a_missing_file_is_a_gap(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    store.commit_logs[1].unlink()
    report = verify_commit_log(CommitLogFiles(store.root))
    assert [finding.path.name for finding in report.findings] == ["00000000000001048576"]
    assert "a gap" in report.findings[0].problem


@pytest.mark.parametrize("byte", [0xFF, 0x02])
def test_properties_that_do_not_parse(copy_java_store: Copy, byte: int) -> None:
    """No CRC covers them: the record is kept, only its properties are reported."""
    store = copy_java_store("store-clean")
    line = store.of_kind("msg")[5]
    end = line["phy"] + line["size"]
    position = end - 3 if byte == 0xFF else store.commit_log.rindex(b"\x01", line["phy"], end) - 1
    overwrite(store.commit_logs[0], position, bytes([byte]))
    report = verify_commit_log(CommitLogFiles(store.root))
    assert [(finding.position, finding.length) for finding in report.findings] == [(line["phy"], None)]
    assert "its properties do not parse" in report.findings[0].problem
    assert report.items == len(store.of_kind("msg")) - 1


def test_a_queue_with_a_hole_of_zeros(copy_java_store: Copy) -> None:
    """Readers end there: what follows is out of their reach."""
    store = copy_java_store("store-clean")
    path = store.root / "consumequeue/SeedNormal/1/00000000000000000000"
    overwrite(path, 100, bytes(20))
    finding = queue_finding(store)
    assert (finding.path, finding.position) == (path, 100)
    assert finding.problem == "an entry is missing here, but others follow"


def great_log(tmp_path: Path) -> CommitLogFiles:
    """Makes two files of 6 MB with whole records."""
    with loaded(small_config(tmp_path, mapped_file_size_commit_log=6 << 20)) as store:
        for number in range(100):
            store.writer.append(message(number, size=100_000))
    return CommitLogFiles(tmp_path)


@pytest.mark.parametrize("seed", seeds(4))
def test_parts_are_one_whole(tmp_path: Path, seed: int) -> None:
    """Cut into parts or not, with damage across the cuts or not, the result is the same."""
    log = great_log(tmp_path)
    chance = random.Random(seed)
    for _ in range(seed // 3):
        file = chance.choice(log.files)
        begin = chance.randrange(5 << 20)
        overwrite(file.path, begin, chance.choice((chance.randbytes, bytes))(chance.randrange(1, 1 << 20)))
    whole = verify_commit_log(log)
    assert len(parts_of(log.files[0], 1 << 20)) > 3
    parts = verify_commit_log(log, part_bytes=1 << 20)
    assert (parts.items, parts.findings, parts.size) == (whole.items, whole.findings, whole.size)
    assert whole.sound == (seed < 3)


def test_a_record_inside_of_a_body_is_no_record(tmp_path: Path) -> None:
    """It is whole, with a right CRC and place, just where a cut is searched: the record around it decides."""
    before = bytes(70_000)
    inner = record(b"decoy", offset=PREFIXES[0].size + len(before))
    outer = record(before + inner + bytes(130_000))
    path = tmp_path / f"{0:020d}"
    path.write_bytes(outer + bytes(300_000 - len(outer)))
    log = CommitLogFiles(tmp_path)
    assert [part.begin for part in parts_of(log.files[0], 1 << 16)][1] == PREFIXES[0].size + len(before)
    report = verify_commit_log(log, part_bytes=1 << 16)
    assert (report.items, report.findings) == (1, [])


@pytest.mark.parametrize(
    ("place", "said"), [(15, "queue id"), (27, "queue offset"), (-1, "topic")], ids=["id", "offset", "topic"]
)
def test_a_record_that_disagrees_with_its_entry(copy_java_store: Copy, place: int, said: str) -> None:
    """No CRC covers these, and no length: only the queue shows it."""
    store = copy_java_store("store-clean")
    line = next(one for one in store.of_kind("msg") if one["topic"] == "SeedNormal")
    if place < 0:
        place = store.commit_log.index(b"SeedNormal", line["phy"]) - line["phy"] + 3
    byte = store.commit_log[line["phy"] + place]
    overwrite(store.commit_logs[0], line["phy"] + place, bytes([byte ^ 1]))
    assert verify_commit_log(CommitLogFiles(store.root)).sound
    finding = queue_finding(store)
    assert finding.position == line["queueOffset"] * ENTRY.size
    assert f"its {said} is " in finding.problem


def test_other_processes_find_the_same(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    overwrite(store.commit_logs[0], store.of_kind("msg")[7]["phy"] + 90, b"?")
    path = store.root / "consumequeue/SeedNormal/1/00000000000000000000"
    overwrite(path, 107, b"?")
    alone = verify_store(StoreFolder(store.root))
    told: dict[str, list[int]] = {}
    whole: dict[str, int] = {}

    @contextmanager
    def step(name: str, size: int) -> Iterator[Callable[[int], None]]:
        told[name], whole[name] = [], size
        yield told[name].append

    with Workers(2) as workers:
        together = verify_store(StoreFolder(store.root), step, workers)
    assert {name: part.findings for name, part in together.parts.items()} == {
        name: part.findings for name, part in alone.parts.items()
    }
    assert alone.damaged == 3
    assert list(whole) == ["commitlog", "consumequeue", "index"]
    assert {name: sum(counts) for name, counts in told.items()} == whole
    assert min(whole.values()) > 0


def queue_finding(store: JavaStore) -> Finding:
    report = verify_consume_queues(queue_folders(store.root))
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("size", 5, "size is 5"),
        ("tags_code", 77, "tags code is 77"),
        ("commit_log_offset", 1, "commit-log offset"),
    ],
)
def test_an_entry_that_disagrees_with_its_record(
    copy_java_store: Copy, field: str, value: int, said: str
) -> None:
    store = copy_java_store("store-clean")
    path = store.root / "consumequeue/SeedNormal/1/00000000000000000000"
    entry = dict(zip(ENTRY.names, ENTRY.unpack_from(path.read_bytes(), 100), strict=True))
    overwrite(path, 100, ENTRY.pack(*{**entry, field: value}.values()))
    finding = queue_finding(store)
    assert (finding.path, finding.position) == (path, 100)
    assert said in finding.problem


def test_a_gap_between_the_files_of_a_queue(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    path = store.root / "consumequeue/SeedNormal/1/00000000000000000000"
    path.write_bytes(path.read_bytes()[:1000])
    finding = queue_finding(store)
    assert (finding.path.name, finding.position) == ("00000000000000006000", 0)
    assert finding.problem == "a gap: the file before it ends at byte 1000"


def test_a_swapped_entry_is_out_of_order(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    path = store.root / "consumequeue/SeedNormal/1/00000000000000000000"
    data = path.read_bytes()
    overwrite(path, 100, data[120:140] + data[100:120])
    report = verify_consume_queues(queue_folders(store.root))
    assert {finding.position for finding in report.findings} == {100, 120}


def test_the_order_of_entries_needs_no_commit_log(store_clean: JavaStore, tmp_path: Path) -> None:
    """Without records it still shows whether commit-log offsets grow."""
    data = (store_clean.root / "consumequeue/SeedNormal/1/00000000000000000000").read_bytes()
    queue = tmp_path / "1"
    queue.mkdir()
    path = queue / "00000000000000000000"
    path.write_bytes(data[:100] + data[120:140] + data[100:120] + data[140:])
    report = verify_consume_queues(queue_folders(queue))
    assert [finding.position for finding in report.findings] == [120]
    assert "not above that of the entry before it" in report.findings[0].problem


def test_an_entry_behind_the_commit_log(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    store.commit_logs[-1].unlink()
    report = verify_consume_queues(queue_folders(store.root))
    assert report.findings and all(
        "no commit log file holds" in finding.problem for finding in report.findings
    )


def test_entries_whose_records_retention_took_are_no_damage(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    store.commit_logs[0].unlink()
    assert verify_consume_queues(queue_folders(store.root)).sound


def test_findings_are_bounded() -> None:
    report = Report()
    for position in range(MAX_FINDINGS + 5):
        report.add(Finding(Path("x"), position, "bad"))
    assert (len(report.findings), report.damaged) == (MAX_FINDINGS, MAX_FINDINGS + 5)


def test_queues_with_an_extension_are_sound(tmp_path: Path) -> None:
    """Their entries hold addresses in place of tags codes."""
    with loaded(small_config(tmp_path, enable_consume_queue_ext=True)) as store:
        for number in range(20):
            store.writer.append(message(number))
    assert is_address(
        ENTRY.unpack_from((tmp_path / "consumequeue/TopicA/0" / f"{0:020d}").read_bytes(), 0)[2]
    )
    report = verify_consume_queues(queue_folders(tmp_path))
    assert (report.findings, report.items) == ([], 20)
