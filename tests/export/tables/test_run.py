"""A run on a table: one commit with rows and offsets, whatever other writers do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.export import ExportError, OutputExists
from rmqcli.export.errors import TableConflict, TableError
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import Origin
from rmqcli.export.tables import committing, run
from rmqcli.export.tables.committing import COMMITS
from rmqcli.export.tables.progress import Progress
from rmqcli.export.tables.run import RUNS
from tests.export.tables.support import TOPIC, ScriptedTable, add_rows, rows_of
from tests.support import JavaStore

FOREIGN = Progress("theirs", [], {"SeedNormal": {"broker-a": {0: 300, 1: 375, 2: 375, 3: 375}}})
REST = 75
"""The rows that FOREIGN leaves of 1,500."""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedTable:
    monkeypatch.setattr(committing, "FIRST_WAIT", 0)
    return ScriptedTable(tmp_path / "t")


def files_of(table: ScriptedTable) -> int:
    return len(list(table.place.folder.rglob("rmq-*")))


def test_nothing_new_is_no_commit(table: ScriptedTable, store_clean: JavaStore) -> None:
    assert add_rows(table, rows_of(store_clean)).rows == 1500
    again = add_rows(table, rows_of(store_clean), resume=True)
    assert (again.rows, len(table.versions), table.rows) == (0, 1, 1500)


def test_other_writers_do_not_disturb(table: ScriptedTable, store_clean: JavaStore) -> None:
    """An optimizer commits between reading the offsets and the commit, twice."""
    table.add([], None)
    table.script = [lambda: table.add([], None)] * 2
    assert add_rows(table, rows_of(store_clean), resume=True).rows == 1500
    assert (table.tries, table.rows, len(table.versions)) == (3, 1500, 4)


def test_conflicts_are_bounded(table: ScriptedTable, store_clean: JavaStore) -> None:
    table.add([], None)
    table.script = [lambda: table.add([], None)] * COMMITS
    with pytest.raises(TableConflict, match=f"other writers were faster {COMMITS} times in a row"):
        add_rows(table, rows_of(store_clean), resume=True)
    assert (table.rows, files_of(table)) == (0, 0)


def test_another_export_of_the_same(
    table: ScriptedTable, store_clean: JavaStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages that it has added meanwhile are not added twice."""
    table.add([], None)
    table.script = [lambda: table.add([], FOREIGN)]
    assert add_rows(table, rows_of(store_clean), resume=True).rows == REST
    assert (table.rows, files_of(table)) == (REST, 1)
    assert "scripted:t: another export has added to it meanwhile" in capsys.readouterr().err


def test_another_export_again_and_again(table: ScriptedTable, store_clean: JavaStore) -> None:
    def overtake() -> None:
        end = 300 + len(table.versions)
        table.add([], Progress("theirs", [], {"SeedNormal": {"broker-a": {0: end}}}))

    table.add([], None)
    table.script = [overtake] * RUNS
    with pytest.raises(TableConflict, match=f"another export was faster {RUNS} times in a row"):
        add_rows(table, rows_of(store_clean), resume=True)
    assert (table.rows, files_of(table)) == (0, 0)


def test_a_table_that_is_created_meanwhile(table: ScriptedTable, store_clean: JavaStore) -> None:
    table.script = [lambda: table.add([], None)]
    with pytest.raises(OutputExists, match="was created meanwhile; add to it with --resume"):
        add_rows(table, rows_of(store_clean))
    assert files_of(table) == 0


@pytest.mark.parametrize("answer", [TableError, KeyboardInterrupt])
def test_files_of_a_commit_in_doubt_are_kept(
    table: ScriptedTable, store_clean: JavaStore, answer: type[BaseException]
) -> None:
    """They may be in the table."""

    def fail() -> None:
        raise answer("no answer")

    table.script = [fail]
    with pytest.raises(answer, match="no answer"):
        add_rows(table, rows_of(store_clean))
    assert files_of(table) == 1


@pytest.mark.parametrize("conflict", [False, True])
def test_a_commit_whose_answer_was_lost(table: ScriptedTable, store_clean: JavaStore, conflict: bool) -> None:
    """A storage that repeats a request by itself says that the commit is there already."""
    commit = table.commit

    def lose(*arguments: object) -> None:
        commit(*arguments)  # type: ignore[arg-type]
        if not conflict:
            raise TableError("connection lost")
        commit(*arguments)  # type: ignore[arg-type]

    table.commit = lose  # type: ignore[method-assign, assignment]
    assert add_rows(table, rows_of(store_clean)).rows == 1500
    assert (table.rows, files_of(table)) == (1500, 1)


def test_a_run_that_fails_leaves_no_files(table: ScriptedTable, store_clean: JavaStore) -> None:
    table.script = [lambda: None]
    wanted = rows_of(store_clean, queue_id=2)
    with pytest.raises(ExportError, match="disk"):
        for one in run.attempts(table, Origin((), "T"), Layout(), resume=False):
            with one:
                one.place.create(f"{one.prefix}x.parquet").close()
                raise ExportError("disk")
    assert (files_of(table), table.tries) == (0, 0)
    assert add_rows(table, wanted).rows == 375


def test_progress_of_a_live_cluster_and_of_a_store_is_one(
    table: ScriptedTable, store_clean: JavaStore
) -> None:
    """Queue ends that a live export has reached are not read again from the store."""
    assert add_rows(table, rows_of(store_clean, end=100)).rows == 400
    state = table.versions[-1][0]
    assert state.progress is not None
    further = {TOPIC: {"broker-a": dict.fromkeys(range(4), 110)}}
    table.add([], Progress("live", [], further, state.progress.commit_logs))
    assert add_rows(table, rows_of(store_clean), resume=True).rows == 1500 - 440
