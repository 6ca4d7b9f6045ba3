"""An export of the stores of several brokers: one folder of files, rows that can be told apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.export import RowFilter, StoreRows, export_stores
from rmqcli.export.run import DamagedStore
from tests.export.support import manifest_of, rows_of
from tests.support import JavaStore

TOPICS = frozenset({"SeedTags", "LoadA"})


def wanted(*stores: JavaStore, **rows: object) -> list[StoreRows]:
    return [
        StoreRows(store.root, RowFilter(broker_name=f"b-{number}", **rows))  # type: ignore[arg-type]
        for number, store in enumerate(stores)
    ]


def counts(out: Path) -> dict[str, int]:
    names = [row["broker_name"] for row in rows_of(out)]
    return {name: names.count(name) for name in sorted(set(names))}


@pytest.mark.parametrize("topics", [frozenset(), TOPICS], ids=["walked", "by queues"])
def test_rows_name_their_broker(
    store_clean: JavaStore, store_killed: JavaStore, tmp_path: Path, topics: frozenset[str]
) -> None:
    out = tmp_path / "out"
    both = wanted(store_clean, store_killed, topics=topics)
    summary = export_stores(both, out)
    apart = [export_stores([one], tmp_path / str(number)).rows for number, one in enumerate(both)]
    assert counts(out) == {"b-0": apart[0], "b-1": apart[1]}
    assert (summary.rows, summary.damaged) == (sum(apart), ())
    keys = [(row["broker_name"], row["topic"], row["queue_id"], row["queue_offset"]) for row in rows_of(out)]
    queued = [key for key, row in zip(keys, rows_of(out), strict=True) if not row["sys_flag"] & 4]
    assert len(set(queued)) == len(queued)


def test_an_export_of_several_stores_is_resumed(
    store_clean: JavaStore, store_killed: JavaStore, tmp_path: Path
) -> None:
    out, both = tmp_path / "out", wanted(store_clean, store_killed)
    partly = [one._replace(rows=RowFilter(broker_name=one.rows.broker_name, end=10)) for one in both]
    some = export_stores(partly, out).rows
    rest = export_stores(both, out, resume=True).rows
    assert (
        0
        < some
        < some + rest
        == sum(export_stores([one], tmp_path / str(number)).rows for number, one in enumerate(both))
    )
    assert export_stores(list(reversed(both)), out, resume=True).rows == 0
    ends = [entry.commit_log_offset for entry in manifest_of(out).stores]
    assert all(end is not None and end > 0 for end in ends) and len(set(ends)) == 2


def test_a_damaged_store_is_left_out_and_added_later(
    store_clean: JavaStore, copy_java_store: Callable[[str], JavaStore], tmp_path: Path
) -> None:
    damaged = copy_java_store("store-killed")
    log = damaged.commit_logs[0]
    sound = log.read_bytes()
    log.write_bytes(sound[:200] + b"\xff" * 50 + sound[250:])
    out, both = tmp_path / "out", wanted(store_clean, damaged)
    summary = export_stores(both, out)
    (left_out,) = summary.damaged
    assert isinstance(left_out, DamagedStore)
    assert left_out.store == damaged.root
    assert str(log) in str(left_out.error)
    assert set(counts(out)) == {"b-0"}
    with pytest.raises(CorruptionError):
        export_stores(both[1:], tmp_path / "alone")
    assert not (tmp_path / "alone").exists()
    log.write_bytes(sound)
    assert export_stores(both, out, resume=True).damaged == ()
    assert set(counts(out)) == {"b-0", "b-1"}
