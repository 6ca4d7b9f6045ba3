"""Exports in S3: moto's server is the store, and a process may be killed at any request."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.cli.errors import exit_code_of
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export import Layout, RowFilter, StoreRows, export_store
from rmqcli.export.errors import OutputExists, StorageUnreachable
from rmqcli.export.local import write_stores
from rmqcli.export.output import storage
from rmqcli.export.output.folder import Commit
from rmqcli.export.output.manifest import Manifest, decode_json
from rmqcli.export.output.storage import Storage, location
from rmqcli.export.output.storage_folder import StorageFolder
from rmqcli.export.run import stores_origin
from rmqcli.export.tables.table import table_error
from rmqcli.grammar.values import GrammarError
from tests.catalog import use_catalog
from tests.cli.conftest import Run
from tests.export.output.stored import CHANGES, Killed, killed_at, manifest, offsets, place, places
from tests.export.support import write_log
from tests.s3 import Bucket, bucket, s3_address
from tests.seeds import seeds
from tests.support import JavaStore

__all__ = ["bucket", "place", "s3_address"]


def test_a_topic_that_grows(rmq: Run, topic: str, bucket: Bucket) -> None:
    export = ("export", "--topic", topic, "--out", bucket.uri, "--json")
    for number, count in enumerate((5, 3, 0)):
        rmq("send", topic, stdin=b"x\n" * count)
        said = rmq(*export, *(["--resume"] if number else [])).json
        assert (said["out"], said["rows"]) == (bucket.uri, count)
    assert (bucket.table().num_rows, manifest(bucket).rows) == (8, 8)
    listed = [f"lake/out/{file.path}" for file in manifest(bucket).files]
    assert bucket.names() == sorted(["lake/_out.rmq/manifest.json", "lake/out/_SUCCESS", *listed])
    again = rmq(*export[:-1])
    assert (again.code, again.err) == (
        ExitCode.USAGE,
        f"rmq: {bucket.uri}: exists and is not empty; name a new folder with --out\n",
    )


def test_partitions_and_processes(cli: Run, bucket: Bucket, store_clean: JavaStore) -> None:
    words = ("--store", str(store_clean.root), "--partition-by", "topic,day", "--jobs", "2")
    assert cli("export", *words, "--out", bucket.uri).code == 0
    names = bucket.names("lake/out")
    assert any(name.startswith("topic=SeedNormal/day=2") for name in names)
    assert bucket.table().num_rows == manifest(bucket).rows == 3090


@pytest.mark.parametrize("seed", seeds(1))
def test_killed_at_any_request(
    place: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The first or the second export is killed at each of its requests; the next one completes it."""
    store = tmp_path / "store"
    write_log(store / "commitlog", [b"x"] * 12)
    wanted = sorted(export(place, store, RowFilter(), "whole"))
    number, step = 1, 1 if place.root.startswith("hdfs") else 5
    while True:
        folder = f"k{number}"
        before = export(place, store, RowFilter(end=5), folder) if (number // step + seed) % 2 else []
        try:
            with killed_at(monkeypatch, number, CHANGES):
                export(place, store, RowFilter(), folder)
        except Killed:
            assert listed_rows(place, folder) in (len(before), len(wanted))
            seen = offsets(place, folder)  # every file is whole, and none is there twice
            assert len(seen) == len(set(seen)) and set(before) <= set(seen)
        else:
            break
        assert export(place, store, RowFilter(), folder) == wanted
        assert not [name for name in place.names(f"lake/_{folder}.rmq") if name != "manifest.json"]
        number += step
    assert number > 30


def export(bucket: Bucket, store: Path, rows: RowFilter, folder: str) -> list[int]:
    """Returns the commit-log offsets of what readers find then."""
    out = Storage(bucket.folder(folder))
    export_store(store, out, rows, resume=True)
    return offsets(bucket, folder)


def listed_rows(bucket: Bucket, folder: str) -> int:
    content = Storage(bucket.folder(f"_{folder}.rmq")).read("manifest.json")
    return 0 if content is None else int(decode_json(content, Manifest, folder).rows)


@pytest.mark.parametrize("first_commits", [False, True])
def test_two_exports_at_the_same_time(place: Bucket, store_clean: JavaStore, first_commits: bool) -> None:
    """The one that was started last wins; no row is there twice."""
    wanted = [StoreRows(store_clean.root, RowFilter())]

    def folder() -> StorageFolder:
        return StorageFolder(Storage(place.uri), stores_origin(wanted), Layout(), resume=True)

    with folder() as second:
        with (
            pytest.raises(OutputExists, match="another export was started there meanwhile"),
            folder() as first,
        ):
            if first_commits:  # it finds the other's id only after its files are written
                write_stores(
                    wanted, Taking(first, lambda: second._books.write("writer.json", b'{"run": "x"}'))
                )
            else:
                second.__enter__()
                write_stores(wanted, first)
        second.__enter__()
        write_stores(wanted, second)
    assert (len(places(place)), len(set(places(place)))) == (3090, 3090)
    assert place.names("lake/_out.rmq") == ["manifest.json"]


class Taking:
    """A destination, before whose commit something happens."""

    def __init__(self, folder: StorageFolder, before: Callable[[], None]) -> None:
        self._folder, self._before = folder, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._folder, name)

    def commit(self, *arguments: Any, **options: Any) -> Any:
        self._before()
        return self._folder.commit(*arguments, **options)


def test_a_plan_that_is_older_than_the_manifest_is_forgotten(
    place: Bucket, store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one of an export that was stopped while another one took over, and is then killed."""
    wanted = [StoreRows(store_clean.root, RowFilter())]
    books = Storage(place.folder("_out.rmq"))
    plans: list[bytes | None] = []
    with StorageFolder(Storage(place.uri), stores_origin(wanted), Layout()) as folder:
        carry_out = folder._carry_out

        def noted(commit: Commit) -> bool:
            plans.append(books.read("commit.json"))
            return carry_out(commit)

        monkeypatch.setattr(folder, "_carry_out", noted)
        write_stores(wanted, folder)
    assert plans[0] is not None
    books.write("commit.json", plans[0].replace(b"part-00000", b"part-00007"))
    export_store(store_clean.root, Storage(place.uri), RowFilter(), resume=True)
    assert (len(places(place)), manifest(place).rows) == (3090, 3090)
    assert [name[:10] for name in place.names("lake/out")] == ["_SUCCESS", "part-00000"]


def test_sql(rmq: Run, topic: str, bucket: Bucket) -> None:
    rmq("send", topic, stdin=b"x\n" * 3)
    out = f"s3://{bucket.name}/one.parquet"
    words = ("sql", f'select queue_offset, body from "{topic}"', "--out", out)
    assert rmq(*words, "--json").json["rows"] == 3
    assert (bucket.names(), bucket.table("").num_rows) == (["one.parquet"], 3)
    again = rmq(*words)
    assert (again.code, "exists; --replace overwrites it" in again.err) == (ExitCode.USAGE, True)
    failed = rmq("sql", f'select error(body::varchar) from "{topic}"', "--out", out, "--replace")
    assert (failed.code, bucket.names(), bucket.table("").num_rows) != (0, ["one.parquet"], 0)
    assert (bucket.names(), bucket.table("").num_rows) == (["one.parquet"], 3)


def test_mirror(rmq: Run, topic: str, cluster: Any, bucket: Bucket, tmp_path: Path) -> None:
    store = str(tmp_path / "copy")
    for _ in range(2):
        rmq("send", topic, stdin=b"x\n" * 3)
        words = ("mirror", cluster.broker_name, "--store", store, "--once", "--parquet", bucket.uri)
        assert rmq(*words).code == 0
    assert bucket.table()["topic"].to_pylist().count(topic) == 6


@pytest.mark.spark
def test_spark(bucket: Bucket, store_clean: JavaStore) -> None:
    """Workers find the store by themselves, in the environment in which Spark was started."""
    words = ["export", "--spark", "--store", str(store_clean.root), "--out", bucket.uri]
    done = subprocess.run(
        [sys.executable, "-m", "rmqcli", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(set(places(bucket))) == len(places(bucket)) == 3090


def test_storages_that_refuse(
    cli: Run, bucket: Bucket, store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(out: str) -> tuple[int, str]:
        storage._file_system.cache_clear()
        done = cli("export", "--store", str(store_clean.root), "--topic", "SeedNormal", "--out", out)
        assert done.err.count("\n") == 1, done.err
        return done.code, done.err

    code, text = said("s3://no-such-bucket/x")
    assert code == ExitCode.NOT_FOUND
    assert text == (
        "rmq: s3://no-such-bucket/_x.rmq: The specified bucket does not exist (NO_SUCH_BUCKET of CreateMultipartUpload); "
        "check its name, or create the bucket first\n"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    code, text = said(bucket.uri)
    assert (code, "check the network, and the address (AWS_ENDPOINT_URL for S3)" in text) == (
        ExitCode.NO_CONNECTION,
        True,
    )


def test_a_store_that_denies(bucket: Bucket) -> None:
    """What AWS says without credentials; moto asks for none."""
    error = storage.storage_error(
        "s3://b/x",
        OSError(
            "When listing objects under key 'x/' in bucket 'b': AWS Error ACCESS_DENIED during "
            "ListObjectsV2 operation: Access Denied (Request ID: 1)"
        ),
    )
    assert type(error).__name__ == "StorageDenied"
    assert str(error) == (
        "s3://b/x: Access Denied (ACCESS_DENIED of ListObjectsV2); check the credentials in the environment and "
        "their permissions"
    )
    unknown = (
        "AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2 operation: The AWS Access Key Id does not exist"
    )
    error = storage.storage_error("s3://b/x", OSError(f"When listing objects in bucket 'b': {unknown}"))
    assert type(error).__name__ == "StorageDenied"
    assert type(table_error("delta:s3://b/x", unknown)).__name__ == "TableDenied"
    assert exit_code_of(table_error("delta:s3://b/x", unknown)) == ExitCode.NOT_PERMITTED
    none = "an error occurred while loading credentials: failed to load IMDS session token: service error"
    assert exit_code_of(table_error("delta:s3://b/x", none)) == ExitCode.NOT_PERMITTED


def test_a_write_that_fails_names_the_storage(
    bucket: Bucket, store_clean: JavaStore, monkeypatch: Any
) -> None:
    def refuse(*_: Any) -> Any:
        raise OSError("AWS Error NETWORK_CONNECTION during UploadPart operation: curlCode: 7")

    monkeypatch.setattr(Storage, "create", refuse)
    with pytest.raises(
        StorageUnreachable, match=f"^s3://{bucket.name}/lake/_out.rmq/writer.json: curlCode: 7"
    ):
        export_store(store_clean.root, Storage(bucket.uri), RowFilter())
    assert bucket.names() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3://b", "--out s3://b: expected s3://BUCKET/FOLDER"),
        ("s3:///x", "--out s3:///x: expected s3://BUCKET/FOLDER"),
        ("gs://b/", "--out gs://b/: expected gs://BUCKET/FOLDER"),
        ("s3://key:secret@b/x", "--out s3://…: credentials come from the environment, not from a URI"),
        ("s3://b/x?access_key=k", "--out s3://b/x?access_key=k: expected no option after ?, except"),
        ("gs://b/x?region=r", "--out gs://b/x?region=r: expected no option after ?, except"),
        (
            "ftp://b/x",
            "--out ftp://b/x: expected a path of this machine, or a URI of s3, gs, abfss, hdfs or file",
        ),
    ],
)
def test_places_that_are_refused(text: str, said: str) -> None:
    with pytest.raises(GrammarError) as error:
        location("--out", text)
    assert str(error.value).startswith(said)


def test_places() -> None:
    assert location("--out", "file:///a/b%20c") == Path("/a/b c")
    assert location("--out", "copy:1") == Path("copy:1")
    found = location("--out", "S3://b/a/x/?region=eu-west-1")
    assert isinstance(found, Storage)
    assert (str(found), str(found.parent / "y"), found.name) == ("s3://b/a/x", "s3://b/a/y", "x")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables(
    rmq: Run, topic: str, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    use_catalog(monkeypatch, "s3", tmp_path, f"s3://{bucket.name}/t")
    name = {"delta": f"delta:s3://{bucket.name}/t", "iceberg": "iceberg:s3.lake.t"}[kind]
    for number, count in enumerate((5, 3, 0)):
        rmq("send", topic, stdin=b"x\n" * count)
        words = ("export", "--topic", topic, "--table", name, "--json")
        assert rmq(*words, *(["--resume"] if number else [])).json["rows"] == count
    assert bucket.table("t").num_rows == 8
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    done = rmq("export", "--topic", topic, "--table", name, "--resume")
    assert (done.code, done.err.count("\n")) == (ExitCode.NO_CONNECTION, 1)
    assert done.err.startswith(f"rmq: {name}: ")
    assert done.err.endswith("; check the network, and the address (AWS_ENDPOINT_URL for S3)\n")
