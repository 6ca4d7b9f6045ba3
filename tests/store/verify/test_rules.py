"""What is damage and what is a note: the table in the code is that of docs/inspect.md, and holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair.salvage import salvage
from rmqcli.store.verify.findings import Rule
from rmqcli.store.verify.store import verify_store
from tests.store.one_by_one import one_by_one
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]
DOCS = Path(__file__).parents[3] / "docs" / "inspect.md"


class Harm(NamedTuple):
    """A change of a store that a rule judges, and a word of what is said."""

    apply: Callable[[Path], object]
    said: str
    store: str = "store-clean"


def remove(*patterns: str) -> Callable[[Path], None]:
    def apply(root: Path) -> None:
        for path in [path for pattern in patterns for path in root.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return apply


def remove_index(number: int) -> Callable[[Path], None]:
    return lambda root: sorted((root / "index").iterdir())[number].unlink()


def empty(name: str) -> Callable[[Path], None]:
    def apply(root: Path) -> None:
        for path in [root / name] if "*" not in name else root.glob(name):
            path.write_bytes(b"")

    return apply


def cut(name: str, size: int) -> Callable[[Path], None]:
    def apply(root: Path) -> None:
        with (root / name).open("r+b") as file:
            file.truncate(size)

    return apply


def overwrite(position: int, data: bytes) -> Callable[[Path], None]:
    """Writes bytes into the checkpoint."""

    def apply(root: Path) -> None:
        with (root / "checkpoint").open("r+b") as file:
            file.seek(position)
            file.write(data)

    return apply


def end_queue(root: Path) -> None:
    path = root / "consumequeue/SeedNormal/1/00000000000000006000"
    path.write_bytes(path.read_bytes()[:200].ljust(6000, b"\0"))


def begin_record(root: Path) -> None:
    """Writes what comes before the size of a record, which comes last."""
    with (root / "commitlog" / f"{1572864:020d}").open("r+b") as file:
        file.seek(186_756 + 8)
        file.write(b"begun")


def repeat_offset(root: Path) -> None:
    """Gives record 7 of a queue the offset of record 6."""
    queue = root / "consumequeue/SeedNormal/1/00000000000000000000"
    place, _, _ = ENTRY.unpack_from(queue.read_bytes(), 7 * ENTRY.size)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(place + 20)
        file.write((6).to_bytes(8, "big"))


def leave_queues(root: Path) -> None:
    """Gives a record a queue id that no queue has, and takes its entry away, as `rebuild` would."""
    queue = root / "consumequeue/SeedNormal/1/00000000000000006000"
    place, _, _ = ENTRY.unpack_from(queue.read_bytes(), 64 * ENTRY.size)
    with (root / "commitlog" / f"{place // 524288 * 524288:020d}").open("r+b") as file:
        file.seek(place % 524288 + 12)
        file.write((-5).to_bytes(4, "big", signed=True))
    with queue.open("r+b") as file:
        file.seek(64 * ENTRY.size)
        file.write(bytes(ENTRY.size))


HARMS: Mapping[Rule, Harm] = {
    Rule.LOG_LENGTH: Harm(cut("commitlog/00000000000001572864", 300_000), "bytes long, not"),
    Rule.TORN_END: Harm(begin_record, "bytes after the end of the records that are not zero"),
    Rule.REPEATED: Harm(repeat_offset, "SeedNormal queue 1 has queue offset 6 twice"),
    Rule.NO_PLACE: Harm(leave_queues, "there is no topic 'SeedNormal' with a queue -5 and queue offset 364"),
    Rule.NO_QUEUES: Harm(remove("consumequeue"), "no consume queues"),
    Rule.NO_QUEUE: Harm(remove("consumequeue/SeedNormal/1"), "has no consume queue, but"),
    Rule.ENTRIES_BEFORE: Harm(remove("consumequeue/SeedNormal/1/*0000"), "300 records before"),
    Rule.ENTRIES_AFTER: Harm(end_queue, "65 records after"),
    Rule.BATCH_UNITS: Harm(remove("batchconsumequeue/*/1"), "missing the units", "store-five"),
    Rule.NO_INDEX: Harm(remove("index"), "no index file"),
    Rule.ITEMS_BEFORE: Harm(remove_index(0), "offset 0 on are in no index file"),
    Rule.ITEMS_AFTER: Harm(remove_index(-1), "offset 1290218 on are in no index file"),
    Rule.NO_CHECKPOINT: Harm(remove("checkpoint"), "no checkpoint"),
    Rule.CHECKPOINT: Harm(cut("checkpoint", 10), "cannot be read"),
    Rule.SAFE_POINT: Harm(overwrite(4040, b"x"), "the safe point of a checkpoint is damaged"),
    Rule.CHECKPOINT_TIMES: Harm(overwrite(7, b"x"), "of the checkpoint is the time of no record"),
    Rule.CHECKPOINT_OFFSETS: Harm(overwrite(32, b"x"), "is not in the log, which ends before 2097152"),
    Rule.CHECKPOINT_REST: Harm(overwrite(40, b"x"), "bytes after its numbers, where none belong"),
    Rule.FROM_BACKUP: Harm(remove("config/topics.json"), "topics.json is missing: a broker reads its .bak"),
    Rule.UNREADABLE: Harm(cut("config/consumerFilter.json", 10), "expected a key"),
    Rule.EMPTY_TABLE: Harm(
        empty("config/consumerFilter.json*"), "consumerFilter.json is empty, and so is the table"
    ),
    Rule.NO_TOPICS: Harm(remove("config/topics.json*"), "missing, without a sound .bak"),
    Rule.NO_CONFIG: Harm(remove("config"), "no folder config"),
    Rule.TIMERS: Harm(remove("timerwheel"), "a broker in Java delivers the timers", "store-five"),
}


@pytest.mark.parametrize("rule", HARMS)
def test_every_rule(copy_java_store: Copy, rule: Rule) -> None:
    harm = HARMS[rule]
    root = copy_java_store(harm.store).root
    harm.apply(root)
    for crashed in (False, True):
        if crashed:
            (root / "abort").touch()
        report = verify_store(StoreFolder(root))
        said = {"damage": [one.problem for one in report.findings], "note": report.remarks}
        expected, other = ("damage", "note") if rule.is_damage(crashed=crashed) else ("note", "damage")
        assert any(harm.said in text for text in said[expected]), (crashed, said)
        assert not any(harm.said in text for text in said[other]), (crashed, said)


NO_TIMER_LOG = (
    "timerlog is missing: a broker in Java delivers the timers that it leads to late or never; a start of rmq "
    "builds it again"
)


def test_a_wheel_that_nothing_went_into_needs_no_timer_log(copy_java_store: Copy) -> None:
    """As a broker of 5.3.3 leaves it after its first start."""
    root = copy_java_store("store-clean").root
    wheel = root / "timerwheel"
    for content, problems in (
        (bytes(4096), []),
        (bytes(4095) + b"x", [NO_TIMER_LOG]),
    ):
        wheel.write_bytes(content)
        report = verify_store(StoreFolder(root))
        assert report.sound and [text for text in report.remarks if "timer" in text] == problems


def test_what_has_a_test_of_its_own() -> None:
    assert set(Rule) - HARMS.keys() == {Rule.HOLE}


def test_an_empty_table_is_read_from_its_backup(copy_java_store: Copy) -> None:
    root = copy_java_store("store-clean").root
    empty("config/topics.json")(root)
    report = verify_store(StoreFolder(root))
    assert report.sound and report.remarks == ["config/topics.json is empty: a broker reads its .bak"]
    empty("config/topics.json.bak")(root)
    assert [one.problem for one in verify_store(StoreFolder(root)).findings] == [
        "empty, without a sound .bak"
    ]


@pytest.mark.parametrize("name", ["subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"])
def test_an_empty_backup_alone_is_damage(copy_java_store: Copy, name: str) -> None:
    """A broker refuses to start on it, too."""
    root = copy_java_store("store-clean").root
    (root / "config" / name).unlink(missing_ok=True)
    (root / "config" / f"{name}.bak").write_bytes(b"")
    assert [one.problem for one in verify_store(StoreFolder(root)).findings] == [
        "missing, without a sound .bak"
    ]


def test_empty_tables_that_a_broker_starts_with(copy_java_store: Copy, tmp_path: Path) -> None:
    root = copy_java_store("store-clean").root
    for name in ("consumerFilter.json", "consumerFilter.json.bak"):
        (root / "config" / name).write_bytes(b"")
    report = verify_store(StoreFolder(root))
    assert report.sound and len(report.remarks) == 1
    fresh = tmp_path / "fresh"
    (fresh / "config").mkdir(parents=True)
    (fresh / "config" / "topics.json").touch()
    assert verify_store(StoreFolder(fresh)).sound, "no message is hidden"


@pytest.mark.parametrize("content", [b"{}", b'{"topicConfigTable":{}}'])
def test_a_table_without_entries_is_empty(copy_java_store: Copy, content: bytes) -> None:
    root = copy_java_store("store-clean").root
    (root / "config/topics.json").write_bytes(content)
    report = verify_store(StoreFolder(root))
    assert report.sound and report.remarks == ["config/topics.json is empty: a broker reads its .bak"]


def test_a_store_of_5x_is_sound(store_five: JavaStore) -> None:
    report = verify_store(StoreFolder(store_five.root))
    assert (report.findings, report.remarks) == ([], [])
    assert report.parts["batchconsumequeue"].items == 15
    with one_by_one():
        assert verify_store(StoreFolder(store_five.root)).sound


def test_a_repeated_offset_is_salvaged(copy_java_store: Copy, tmp_path: Path) -> None:
    root = copy_java_store("store-clean").root
    repeat_offset(root)
    assert len(salvage(root, tmp_path / "out").lost) == 1
    assert verify_store(StoreFolder(tmp_path / "out")).sound


def test_the_docs_have_the_table() -> None:
    rows = [
        f"| {', '.join(f'`{name}`' for name in one.file.split(', '))} | {one.fact} | {one.stopped} | {one.killed} |"
        for one in (rule.value for rule in Rule)
    ]
    assert "\n".join(rows) in DOCS.read_text()
