"""`rmq import` from S3, as implemented by moto, and from tables."""

from __future__ import annotations

import io
import os
import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export.output import storage
from rmqcli.export.output.storage import Storage
from rmqcli.import_.sources import read_rows, source_of
from tests.catalog import use_catalog
from tests.cli.conftest import Run
from tests.s3 import Bucket, bucket, s3_address

__all__ = ["bucket", "s3_address"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def copy(rmq: Run, topic: str) -> str:
    """A topic for the imported messages."""
    name = f"copy_{topic}"
    assert rmq("topic", "create", name, "--queues", "4").code == 0
    return name


def send(rmq: Run, topic: str, numbers: range) -> None:
    lines = "".join(f"{number}\n" for number in numbers)
    assert rmq("send", topic, "--queue", "1", stdin=lines.encode()).code == 0


def bodies(rmq: Run, topic: str) -> list[int]:
    found = rmq("pull", topic, "--json").json_lines
    found.sort(key=lambda line: (line["queueId"], line["queueOffset"]))
    return [int(line["body"]) for line in found]


def counts(done: Any) -> list[int]:
    """Returns the messages sent, failed and skipped."""
    assert done.code == 0, done.err
    return [int(one) for one in done.lines[0][1:4]]


def test_an_export(rmq: Run, topic: str, copy: str, bucket: Bucket, tmp_path: Path) -> None:
    for number in range(2):
        send(rmq, topic, range(number * 20, number * 20 + 20))
        assert rmq("export", "--topic", topic, "--out", bucket.uri, "--resume").code == 0
    words = ("import", bucket.uri, "--topic", copy)
    assert rmq(*words, "--dry-run", "--json").json["messages"] == 40
    assert list(tmp_path.iterdir()) == []
    assert counts(rmq(*words, "--where", "queue_id = 1")) == [40, 0, 0]
    assert bodies(rmq, copy) == list(range(40))
    assert [file.name for file in tmp_path.iterdir()] == [f"out.{copy}.import"]
    again = rmq(*words)
    assert (again.code, "belongs to an earlier import" in again.err) == (ExitCode.USAGE, True)
    send(rmq, topic, range(40, 45))
    assert rmq("export", "--topic", topic, "--out", bucket.uri, "--resume").code == 0
    assert counts(rmq(*words, "--resume", "--rate", "1000")) == [5, 0, 40]
    assert bodies(rmq, copy) == list(range(45))
    source = source_of(bucket.uri)
    assert [file.rows for file in source.files] == [20, 20, 5]
    (first, *_) = source.files
    assert counts(rmq("import", f"{bucket.uri}/{first.name}", "--topic", copy)) == [20, 0, 0]


def test_json_lines(rmq: Run, topic: str, copy: str, bucket: Bucket) -> None:
    lines = b"".join(b'{"body": "%d", "queueId": 1}\n' % number for number in range(30))
    Storage(bucket.folder()).write("a.jsonl", lines)
    assert counts(rmq("import", f"{bucket.uri}/a.jsonl", "--topic", copy)) == [30, 0, 0]
    assert bodies(rmq, copy) == list(range(30))


@pytest.fixture(params=["delta", "iceberg"])
def table(request: Any, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a table in S3; of Iceberg, one whose catalog is a file of SQLite."""
    (tmp_path / "catalog").mkdir()
    use_catalog(monkeypatch, "s3", tmp_path / "catalog", f"s3://{bucket.name}/t")
    return {"delta": f"delta:s3://{bucket.name}/t", "iceberg": "iceberg:s3.lake.t"}[request.param]


def test_a_table(rmq: Run, topic: str, copy: str, table: str, bucket: Bucket) -> None:
    """Old versions, whose files are still there, do not count: not those before a compaction."""
    words = ("import", table, "--topic", copy)
    missing = rmq(*words)
    assert (missing.code, missing.err) == (ExitCode.NOT_FOUND, f"rmq: {table}: no such table\n")
    for number in range(3):
        send(rmq, topic, range(number * 10, number * 10 + 10))
        assert rmq("export", "--topic", topic, "--table", table, "--resume").code == 0
    assert counts(rmq(*words)) == [30, 0, 0]
    assert bodies(rmq, copy) == list(range(30))
    assert counts(rmq(*words, "--resume")) == [0, 0, 30]
    if table.startswith("delta"):  # the same source by another name
        assert counts(rmq("import", f"s3://{bucket.name}/t", "--topic", copy, "--resume")) == [0, 0, 30]
    assert rmq("compact", table).code == 0
    assert rmq(*words, "--dry-run", "--json").json["messages"] == 30
    gone = rmq(*words, "--resume")
    assert (gone.code, "since a compaction" in gone.err) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("table", ["iceberg"], indirect=True)
def test_tables_of_iceberg_that_are_refused(rmq: Run, topic: str, table: str, bucket: Bucket) -> None:
    from pyiceberg.catalog import load_catalog

    send(rmq, topic, range(3))
    assert rmq("export", "--topic", topic, "--table", table).code == 0
    (folder,) = {name.partition("/metadata/")[0] for name in bucket.names("t") if "/metadata/" in name}
    done = rmq("import", f"s3://{bucket.name}/t/{folder}", "--topic", "x")
    assert (done.code, "is an Iceberg table, with files of old versions" in done.err) == (
        ExitCode.USAGE,
        True,
    )
    catalog = load_catalog("s3", **{"s3.endpoint": os.environ["AWS_ENDPOINT_URL"]})
    with catalog.load_table("lake.t").update_schema() as update:
        update.rename_column("flag", "colour")
    done = rmq("import", table, "--topic", "x")
    assert (done.code, done.err.count("\n")) == (ExitCode.USAGE, 1)
    assert "renamed columns, which data files do not show" in done.err


def test_what_is_not_there(rmq: Run, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(path: str) -> tuple[int, str]:
        storage._file_system.cache_clear()
        done = rmq("import", path, "--topic", "x")
        assert (done.out, done.err.count("\n")) == (b"", 1), done.err
        return done.code, done.err

    lake = Storage(bucket.uri)
    lake.write("note.txt", b"x")
    lake.parent.write("_out.rmq/commit.json", b"{}")
    for path, code, text in (
        (f"{bucket.uri}/none", ExitCode.NOT_FOUND, f"{bucket.uri}/none: no such file or folder"),
        (bucket.uri, ExitCode.NOT_FOUND, f"{bucket.uri}: no .parquet or .jsonl file is in this folder"),
        (f"{bucket.uri}/note.txt", ExitCode.USAGE, f"{bucket.uri}/note.txt: expected a .parquet or .jsonl"),
        ("s3://no-such-bucket/x", ExitCode.NOT_FOUND, "s3://no-such-bucket/x"),
        ("delta:s3://no-such-bucket/x", ExitCode.NOT_FOUND, "delta:s3://no-such-bucket/x: "),
        (f"delta:{bucket.uri}", ExitCode.NOT_FOUND, f"delta:{bucket.uri}: no such table"),
        (f"s3://{bucket.name}", ExitCode.USAGE, f"PATH s3://{bucket.name}: expected s3://BUCKET/FOLDER"),
        ("iceberg:a.b", ExitCode.USAGE, "iceberg:a.b: expected iceberg:CATALOG.NAMESPACE.NAME"),
        ("delta:", ExitCode.USAGE, "PATH delta:: expected delta:URI or iceberg:"),
    ):
        assert said(path)[0] == code, said(path)
        assert said(path)[1].startswith(f"rmq: {text}"), said(path)
    lake.write("a.parquet", b"")
    assert said(bucket.uri)[0] == ExitCode.USAGE and "a commit is not complete" in said(bucket.uri)[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert said(bucket.uri)[0] == ExitCode.NO_CONNECTION
    assert "check the network" in said(bucket.uri)[1]


class Reads:
    """What is read of an object. After `most` bytes the storage does not respond any more."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.bytes, self.most = 0, len(content) * 2


class Read(io.BytesIO):
    def __init__(self, reads: Reads) -> None:
        super().__init__(reads.content)
        self._reads = reads

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self._reads.bytes += len(found)
        if self._reads.bytes > self._reads.most:
            raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28, Timeout")
        return found


@pytest.fixture
def reads(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Those of a.parquet, a file of 20 row groups of 50 rows."""
    sink = pa.BufferOutputStream()
    noise = [b"%d" % number + secrets.token_bytes(1000) for number in range(1000)]
    table = pa.table({"body": noise, "queue_id": pa.array([1] * 1000, pa.int32())})
    parquet.write_table(table, sink, row_group_size=50, use_dictionary=False, write_statistics=False)
    found = Reads(sink.getvalue().to_pybytes())
    Storage(bucket.uri).write("a.parquet", found.content)
    monkeypatch.setattr(Storage, "open", lambda place, name: pa.PythonFile(Read(found), "r"))
    return found


def test_row_groups_are_read_one_at_a_time(bucket: Bucket, reads: Reads) -> None:
    (file,) = source_of(f"{bucket.uri}/a.parquet").files
    next(read_rows(file, "x"))
    assert 50_000 < reads.bytes < len(reads.content) // 5


def test_a_storage_that_goes_away(rmq: Run, copy: str, bucket: Bucket, reads: Reads) -> None:
    """The import ends with the code of the outage, and the next one continues."""
    words = ("import", f"{bucket.uri}/a.parquet", "--topic", copy)
    reads.most = len(reads.content) * 3 // 4
    done = rmq(*words)
    assert done.code == ExitCode.NO_CONNECTION
    interrupted, outage = done.err.splitlines()
    assert interrupted.endswith("0 failed; continue with --resume")
    assert outage.startswith(f"rmq: {bucket.uri}/a.parquet: curlCode: 28, Timeout (NETWORK_CONNECTION of")
    reads.most *= 100
    sent, failed, skipped = counts(rmq(*words, "--resume"))
    assert (sent + skipped, failed) == (1000, 0) and sent and skipped
    assert len(rmq("pull", copy, "--json").json_lines) == 1000
