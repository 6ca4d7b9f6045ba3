"""Small files of an export folder become large ones: the same rows, the same offsets, at any kill."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export import ExportError, Layout, OutputExists, RowFilter, StoreRows, export_store, export_stores
from rmqcli.export.output import compaction, folder
from rmqcli.export.output.compaction import compact_folder
from rmqcli.export.output.folder import Commit
from rmqcli.export.output.layout import EVERYTHING
from rmqcli.export.output.order import ORDER
from rmqcli.export.output.storage import Storage
from rmqcli.export.output.storage_folder import StorageFolder, listed
from tests.cli.conftest import Run
from tests.export.output.stored import CHANGES, Killed, killed_at, manifest, offsets, place, places
from tests.export.row_groups import groups, row_groups_read
from tests.export.support import by_place, manifest_of, rows_of, write_log
from tests.s3 import Bucket, bucket, s3_address
from tests.seeds import seeds
from tests.support import JavaStore

__all__ = ["bucket", "place", "s3_address"]

SIZE = 8 << 20


def fill(
    store: Path, out: Any, layout: Layout = EVERYTHING, ends: tuple[int | None, ...] = (3, 6, None)
) -> None:
    for end in ends:
        export_store(store, out, RowFilter(end=end), layout=layout, resume=True)


def files(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out)) for path in out.rglob("*.parquet"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A store of 12 records."""
    store = tmp_path / "store"
    write_log(store / "commitlog", [b"x%d" % number for number in range(12)])
    return store


def test_rows_and_offsets_stay(store_clean: JavaStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    layout = Layout(compression="snappy", bloom_filters=("msg_id", "keys"))
    fill(store_clean.root, out, layout, (100, 200, None))
    before, listed, there = rows_of(out), manifest_of(out), files(out)
    planned = compact_folder(out, SIZE, dry_run=True)
    assert (planned.files, planned.files_after, planned.bytes_after, files(out)) == (3, 1, None, there)
    done = compact_folder(out, SIZE)
    assert (files(out), names(out)) == (
        ["part-00003.parquet"],
        ["_SUCCESS", "part-00003.parquet"],
    )
    assert done[:4] == planned[:4]
    (entry,) = manifest_of(out).files
    assert done.bytes_after == entry.bytes == (out / entry.path).stat().st_size
    assert by_place(rows_of(out)) == by_place(before)
    assert manifest_of(out).queues == listed.queues == entry.queues
    assert (entry.last, entry.commit_log_end) == (
        listed.last,
        max(one.commit_log_end for one in listed.files),
    )
    group = parquet.read_metadata(out / entry.path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    filtered = [one.path_in_schema for one in columns if one.bloom_filter_offset is not None]
    assert (columns[0].compression, filtered) == ("SNAPPY", ["msg_id", "keys.list.element"])
    assert export_store(store_clean.root, out, RowFilter(), layout=layout, resume=True).rows == 0
    assert compact_folder(out, SIZE)[1:4] == (0, 0, 0)
    assert names(tmp_path / "_out.rmq") == ["manifest.json"]


def test_sorted_files(store_clean: JavaStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query for one queue reads few row groups."""
    out = tmp_path / "out"
    fill(store_clean.root, out, ends=(100, 200, None))
    monkeypatch.setattr(compaction, "ROW_GROUP_BYTES", 20_000)
    compact_folder(out, SIZE)
    (file,) = out.glob("*.parquet")
    found = groups(file)
    assert [row for group in found for row in group] == sorted(row for group in found for row in group)
    group = parquet.read_metadata(file).row_group(0)
    assert [group.column(one.column_index).path_in_schema for one in group.sorting_columns] == list(ORDER)
    of_queue = sum(min(row[3] for row in group) <= 1 <= max(row[3] for row in group) for group in found)
    assert 0 < of_queue < len(found)
    assert row_groups_read([file], "queue_id = 1") == (of_queue, len(found))


def test_partitions(store_clean: JavaStore, tmp_path: Path) -> None:
    """Files of one partition are merged, and sorted also where the topic is only in the name of the folder."""
    out = tmp_path / "out"
    layout = Layout(partition_by=("topic", "queue"))
    fill(store_clean.root, out, layout, (100, 200, None))
    folders = {str(path.parent) for path in out.rglob("*.parquet")}
    before = [(file.rpartition("/")[0], row) for file in files(out) for row in _places(out / file)]
    assert compact_folder(out, SIZE).files_after > 1
    after = [(file.rpartition("/")[0], row) for file in files(out) for row in _places(out / file)]
    assert {str(path.parent) for path in out.rglob("*.parquet")} == folders
    assert len(files(out)) == len(folders)
    assert sorted(after) == sorted(before)
    for file in files(out):
        assert parquet.ParquetFile(out / file).read().column("queue_offset").to_pylist() == sorted(
            parquet.ParquetFile(out / file).read().column("queue_offset").to_pylist()
        )
    assert export_store(store_clean.root, out, RowFilter(), layout=layout, resume=True).rows == 0


def _places(file: Path) -> list[int]:
    found: list[int] = parquet.ParquetFile(file).read(["commit_log_offset"])[0].to_pylist()
    return found


def test_large_files_stay_and_the_list_keeps_the_order_of_rows(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    write_log(store / "commitlog", [secrets.token_bytes(9000)] * 12)
    fill(store, out, ends=(1, 2, 9, 10, 11, None))
    sizes = [_raw(out / file.path) for file in manifest_of(out).files]
    done = compact_folder(out, 2 * sizes[2] - 2)
    assert (done.files, done.files_after) == (5, 2)
    assert [file.path[:10] for file in manifest_of(out).files] == ["part-00006", "part-00002", "part-00007"]
    listed = [row for file in manifest_of(out).files for row in _places(out / file.path)]
    assert listed == sorted(listed) and len(listed) == 12


def _raw(file: Path) -> int:
    footer = parquet.read_metadata(file)
    return sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))


def test_numbers_are_never_used_again(small: Path, tmp_path: Path) -> None:
    """A file of the name of another one would replace it, and an import would take its rows for sent ones."""
    out = tmp_path / "out"
    seen: list[str] = []
    for end in range(1, 13):
        fill(small, out, ends=(end,))
        seen.append(manifest_of(out).files[-1].path)
        if end % 3 == 0:
            compact_folder(out, SIZE)
            seen.append(manifest_of(out).files[-1].path)
    assert len(seen) == len(set(seen))
    assert len(rows_of(out)) == 12


def test_the_ends_of_several_logs_stay_apart(tmp_path: Path) -> None:
    """The log of one broker is longer: its end is not that of the other, whose later rows must be exported."""
    stores = [tmp_path / "a", tmp_path / "b"]
    write_log(stores[0] / "commitlog", [b"x"] * 20)
    out = tmp_path / "out"

    def export() -> int:
        wanted = [
            StoreRows(store, RowFilter(broker_name=name)) for store, name in zip(stores, "ab", strict=True)
        ]
        return export_stores(wanted, out, resume=True).rows

    rows = []
    for count in (2, 4, 6, 9):
        log = stores[1] / "commitlog"
        for old in log.glob("*"):
            old.unlink()
        write_log(log, [b"x"] * count)
        rows.append(export())
        compact_folder(out, SIZE)
    assert rows == [22, 2, 2, 3]
    assert {len(file.queues) for file in manifest_of(out).files} == {1}


KILLED = """
import os, sys
from pathlib import Path
from rmqcli.export.output import folder
from rmqcli.export.output.compaction import compact_folder

calls = 0

def dies(function):
    def instead(*arguments, **options):
        global calls
        calls += 1
        if calls == int(sys.argv[2]):
            os.kill(os.getpid(), 9)
        return function(*arguments, **options)
    return instead

folder.write_json = dies(folder.write_json)
for name in ("rename", "replace", "unlink", "touch", "mkdir"):
    setattr(Path, name, dies(getattr(Path, name)))
compact_folder(Path(sys.argv[1]), 8 << 20)
"""


@pytest.mark.parametrize("number", range(1, 22))
def test_killed_at_any_change(small: Path, tmp_path: Path, number: int) -> None:
    """The manifest lists every row once at any time; the next compaction, or export, completes it."""
    out = tmp_path / "out"
    fill(small, out)
    wanted = by_place(rows_of(out))
    killed = subprocess.run([sys.executable, "-c", KILLED, str(out), str(number)], check=False)
    listed = [row for file in manifest_of(out).files for row in _places(out / file.path)]
    assert len(listed) == len(set(listed)) == 12
    assert killed.returncode == (-9 if number <= 20 else 0)
    if number % 2:
        compact_folder(out, SIZE)
        assert by_place(rows_of(out)) == wanted
    assert export_store(small, out, RowFilter(), resume=True).rows == 0
    assert by_place(rows_of(out)) == wanted
    compact_folder(out, SIZE)
    assert (len(files(out)), names(tmp_path / "_out.rmq")) == (1, ["manifest.json"])
    assert (out / "_SUCCESS").exists()


def test_a_new_file_that_a_power_cut_took(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that it was to replace stay."""
    out = tmp_path / "out"
    fill(small, out)

    def cut(self: Any, commit: Commit) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(folder.ExportFolder, "_carry_out", cut)
        with pytest.raises(Killed):
            compact_folder(out, SIZE)
    (temporary,) = (tmp_path / "_out.rmq").rglob("merged-*.tmp")
    temporary.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(ExportError, match=r"part-00003.parquet: is missing or incomplete"):
            compact_folder(out, SIZE)
    (out / "part-00003.parquet").unlink()
    (tmp_path / "_out.rmq/commit.json").unlink()
    assert len(rows_of(out)) == 12
    assert compact_folder(out, SIZE).files == 3


@pytest.mark.parametrize("seed", seeds(1))
def test_killed_at_any_request(
    place: Bucket, small: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    number, step = 1 + seed, 1 if place.root.startswith("hdfs") else 6
    while True:
        name = f"k{number}"
        out = Storage(place.folder(name))
        fill(small, out)
        wanted = offsets(place, name)
        try:
            with killed_at(monkeypatch, number, CHANGES):
                compact_folder(out, SIZE)
        except Killed:
            assert _listed_offsets(place, name) == wanted
            assert set(offsets(place, name)) == set(wanted)  # some may be there twice until the next run
        else:
            break
        if number % 2:
            compact_folder(out, SIZE)
            assert offsets(place, name) == wanted
        export_store(small, out, RowFilter(), resume=True)
        compact_folder(out, SIZE)
        assert offsets(place, name) == wanted
        assert place.names(f"lake/_{name}.rmq") == ["manifest.json"]
        assert [one[:10] for one in place.names(f"lake/{name}")] == ["_SUCCESS", "part-00003"]
        number += step
    assert number > 20


def _listed_offsets(place: Bucket, name: str) -> list[int]:
    out = Storage(place.folder(name))
    found: list[int] = []
    manifest = listed(out)
    assert manifest is not None
    for file in manifest.files:
        with out.open(file.path) as stream:
            found += parquet.ParquetFile(stream).read(["commit_log_offset"])[0].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("is_first", [True, False])
def test_beside_an_export(
    place: Bucket, small: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """Whoever began last wins; the other one changes nothing."""
    out = Storage(place.uri)
    fill(small, out, ends=(3, 6))
    write = compaction._write
    done: list[object] = []

    def export_then_write(*arguments: Any) -> None:
        if not done:
            done.append(export_store(small, out, RowFilter(), resume=True))
        write(*arguments)

    def compact_then(self: Any, commit: Commit) -> None:
        if not done and not commit.removed:
            done.append(compact_folder(out, SIZE))
        begin(self, commit)

    begin = StorageFolder._begin_commit
    # HDFS does not even finish a file of the folder that the other one has removed.
    with monkeypatch.context() as patched, pytest.raises(OutputExists):
        if is_first:
            patched.setattr(compaction, "_write", export_then_write)
            compact_folder(out, SIZE)
        else:
            patched.setattr(StorageFolder, "_begin_commit", compact_then)
            export_store(small, out, RowFilter(), resume=True)
    assert done
    export_store(small, out, RowFilter(), resume=True)
    compact_folder(out, SIZE)
    assert (len(places(place)), len(set(places(place))), manifest(place).rows) == (12, 12, 12)


def test_beside_an_export_of_this_machine(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fill(small, out)
    with (
        folder.ExportFolder(out, None, Layout(), resume=True),
        pytest.raises(OutputExists, match="another export is writing there"),
    ):
        compact_folder(out, SIZE)
    assert compact_folder(out, SIZE).files == 3


def test_a_file_that_was_removed(small: Path, tmp_path: Path) -> None:
    """Rows that the user removed stay removed; their neighbours are merged among themselves."""
    out = tmp_path / "out"
    fill(small, out, ends=(1, 2, 9, 10, None))
    (out / manifest_of(out).files[2].path).unlink()
    before = by_place(rows_of(out))
    assert (compact_folder(out, SIZE)[1:4:2], by_place(rows_of(out))) == ((4, 2), before)
    assert export_store(small, out, RowFilter(), resume=True).rows == 0


def test_command(cli: Run, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fill(small, out)
    plan = cli("compact", str(out), "--dry-run", "--json").json
    assert (plan["table"], plan["files"], plan["filesAfter"], plan["bytesAfter"]) == (str(out), 3, 1, None)
    done = cli("compact", str(out))
    assert done.err.startswith(f"{out}: 3 files (") and " became 1 (" in done.err
    assert cli("compact", str(out)).err == f"{out}: no small files to merge\n"
    none = cli("compact", str(tmp_path / "none"))
    assert (none.code, none.err) == (
        ExitCode.NOT_FOUND,
        f"rmq: {tmp_path / 'none'}: no export is in this folder\n",
    )
    assert not (tmp_path / "none").exists()


def test_import_goes_on_only_without_a_compaction(rmq: Run, topic: str, small: Path, tmp_path: Path) -> None:
    """The rows that were sent are in another file, which would be sent as a whole."""
    out = tmp_path / "out"
    fill(small, out)
    words = ("import", str(out), "--topic", topic, "--queues", "round-robin")
    assert rmq(*words).code == 0
    (out / "part-00000.parquet").unlink()  # the user may remove what was sent
    assert rmq(*words, "--resume").code == 0
    compact_folder(out, SIZE)
    done = rmq(*words, "--resume")
    assert (done.code, done.err.count("\n")) == (ExitCode.USAGE, 1)
    assert "the rows of part-00001.parquet are in other files since a compaction" in done.err
    (tmp_path / "_out.rmq/commit.json").write_text("{}")
    done = rmq(*words, "--progress", str(tmp_path / "p"))
    assert (done.code, "a commit is not complete" in done.err) == (ExitCode.USAGE, True)
