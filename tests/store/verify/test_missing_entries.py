"""Queues with missing entries, checked with NumPy and record by record; some only seem to be missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import trio

from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.config import TopicConfig, TopicConfigSerializeWrapper
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair.rebuild import build, shape_of
from rmqcli.store.verify.store import StoreReport, verify_store
from tests.broker.store.support import loaded, message, small_config
from tests.store.one_by_one import one_by_one
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


def verified(root: Path) -> StoreReport:
    with one_by_one():
        expected = verify_store(StoreFolder(root))
    found = verify_store(StoreFolder(root))
    assert (found.findings, found.remarks) == (expected.findings, expected.remarks)
    return found


def test_the_first_file_of_a_queue_is_gone(copy_java_store: Copy) -> None:
    """Retention removes it only with its records."""
    store = copy_java_store("store-clean")
    queue = store.root / "consumequeue/SeedNormal/1"
    (queue / f"{0:020d}").unlink()
    for is_crashed in (False, True):
        (finding,) = verified(store.root).findings
        assert (finding.path, finding.position) == (queue, 6000)
        assert finding.problem == "SeedNormal queue 1 is missing the entries of 300 records before its own"
        if not is_crashed:
            (store.root / "abort").touch()


def test_retention_took_files_and_records(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    for path in store.commit_logs[:2]:
        path.unlink()
    for path in (store.root / "consumequeue/SeedNormal").glob(f"*/{0:020d}"):
        path.unlink()
    assert verified(store.root).sound


def test_the_queues_of_a_topic_are_gone(copy_java_store: Copy) -> None:
    """A topic that was deleted and created again looks so, and one that lost its queues."""
    store = copy_java_store("store-clean")
    shutil.rmtree(store.root / "consumequeue/SeedTx")
    findings = verified(store.root).findings
    assert len(findings) == 4
    assert findings[0].problem.startswith("SeedTx queue 0 has no consume queue, but the log has ")
    (store.root / "abort").touch()
    report = verified(store.root)
    assert report.sound and len([one for one in report.remarks if "SeedTx" in one]) == 4
    (store.root / "abort").unlink()
    path = store.root / "config/topics.json"
    table = json.loads(path.read_text())
    del table["topicConfigTable"]["SeedTx"]
    path.write_text(json.dumps(table))
    assert verified(store.root).sound


def test_a_topic_that_was_deleted_and_made_anew(tmp_path: Path) -> None:
    """Only the offsets of its old records are behind the end of its new queue."""
    with loaded(small_config(tmp_path, message_index_enable=False)) as store:
        for number in range(10):
            store.writer.append(message(number))
        trio.run(store.retention.delete_topic, "TopicA")
        for number in range(3):
            store.writer.append(message(number))
    (tmp_path / "abort").unlink(missing_ok=True)
    save_topics(tmp_path, "TopicA")
    report = verified(tmp_path)
    without = ["no checkpoint: after a kill, a start reads the whole commit log"]
    without.append("no index file: messages are not found by key, unless a broker keeps no index")
    assert (report.findings, sorted(report.remarks)) == ([], without)
    assert (report.parts["commitlog"].items, report.parts["consumequeue"].items) == (13, 3)


def test_a_deleted_topic_that_no_message_came_to(tmp_path: Path) -> None:
    """Its records are no longer its own, so it misses no queue, and a rebuild does not bring them back."""
    with loaded(small_config(tmp_path)) as store:
        store.writer.append(message(0, topic="TopicB"))
        for number in range(10):
            store.writer.append(message(number))
        trio.run(store.retention.delete_topic, "TopicA")
    (tmp_path / "abort").unlink(missing_ok=True)
    shutil.rmtree(tmp_path / "index", ignore_errors=True)
    save_topics(tmp_path, "TopicA", "TopicB")
    assert verified(tmp_path).findings == []
    for vectorised in (True, False):
        out = tmp_path / f"out{vectorised}"
        with one_by_one(not vectorised):
            built = build(CommitLogFiles(tmp_path), out, shape_of(tmp_path))
        assert (built.records, built.entries, built.queues) == (11, 1, 1)


def save_topics(root: Path, *names: str) -> None:
    table = TopicConfigSerializeWrapper({name: TopicConfig(name) for name in names})
    (root / "config" / "topics.json").write_bytes(encode_body(table))
