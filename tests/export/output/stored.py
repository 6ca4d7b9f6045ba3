"""Exports in S3, or in a local folder that is used as one of HDFS, and their end at any request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from rmqcli.export.output import storage
from rmqcli.export.output.manifest import Manifest, decode_json
from rmqcli.export.output.storage import Storage
from tests.s3 import Bucket


@pytest.fixture(params=["hdfs", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket, or a local folder that is used as one of HDFS: files are renamed, and folders created."""
    if request.param == "s3":
        found: Bucket = request.getfixturevalue("bucket")
        return found
    monkeypatch.setattr(storage, "_file_system", lambda *_: (LocalFileSystem(), ""))
    return Bucket(str(tmp_path), LocalFileSystem(), "hdfs://name:8020")


def places(bucket: Bucket) -> list[int]:
    return sorted(bucket.table()["commit_log_offset"].to_pylist())


def manifest(bucket: Bucket) -> Manifest:
    content = Storage(bucket.folder("_out.rmq")).read("manifest.json")
    assert content is not None
    found: Manifest = decode_json(content, Manifest, bucket.uri)
    return found


def offsets(bucket: Bucket, folder: str) -> list[int]:
    if not any(name.endswith(".parquet") for name in bucket.names(f"lake/{folder}")):
        return []
    return sorted(bucket.table(f"lake/{folder}")["commit_log_offset"].to_pylist())


class Killed(BaseException):
    """What stands for kill -9: whatever the process would do after it fails as well."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, number: int, names: tuple[str, ...]) -> Iterator[list[str]]:
    """Ends the work at this call of Storage that changes something, before or after it takes effect.

    Yields the list of the calls.
    """
    calls: list[str] = []
    is_over = False

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any) -> Any:
            nonlocal is_over
            if is_over:
                raise Killed
            if name not in names:
                return call(*arguments)
            calls.append(name)
            is_over = len(calls) * 2 - 1 >= number
            if len(calls) * 2 - 1 == number:
                raise Killed
            found = call(*arguments)
            if len(calls) * 2 == number:
                is_over = True
                raise Killed
            return found

        return instead

    with monkeypatch.context() as patched:
        for name in ("create", "open", "size", "read", "write", "copy", "names", "delete"):
            patched.setattr(Storage, name, counted(name, getattr(Storage, name)))
        yield calls


CHANGES = ("create", "write", "copy", "delete")
