"""An S3 server for tests: moto's, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from rmqcli.export.output import storage

_SERVER = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print("http://%s:%s" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


class Bucket(NamedTuple):
    """An empty bucket, or a folder that stands for one of HDFS, and its file system."""

    name: str
    files: Any
    root: str = "s3://"

    def folder(self, name: str = "out") -> str:
        return f"{self.root}{self.name}/lake/{name}"

    @property
    def uri(self) -> str:
        return self.folder()

    def names(self, folder: str = "") -> list[str]:
        """Returns the keys of all objects, without the empty ones that stand for folders."""
        from pyarrow.fs import FileSelector, FileType

        base = f"{self.name}/{folder}".rstrip("/")
        found = self.files.get_file_info(FileSelector(base, recursive=True, allow_not_found=True))
        return sorted(info.path[len(base) + 1 :] for info in found if info.type == FileType.File)

    def table(self, folder: str = "lake/out") -> Any:
        """Returns the rows of the Parquet files of a folder, as a reader that knows of no manifest sees them."""
        from pyarrow.dataset import dataset

        paths = [
            f"{self.name}/{folder}/{name}".replace("//", "/")
            for name in self.names(folder)
            if name.endswith(".parquet")
        ]
        return dataset(paths, filesystem=self.files).to_table()


@contextmanager
def s3_server() -> Iterator[str]:
    """Yields the address of a server, which ends with this process at the latest."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={key: value for key, value in os.environ.items() if not key.startswith("AWS_")},
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            address = process.stdout.readline().strip()
            assert address, "moto's server does not start: install the extra `dev`"
            yield address
        finally:
            process.stdin.close()


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(s3_address: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket, with the address of its server and credentials in the environment."""
    from pyarrow.fs import S3FileSystem

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": s3_address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    storage._file_system.cache_clear()
    files = S3FileSystem(endpoint_override=s3_address, allow_bucket_creation=True)
    name = f"b{uuid.uuid4().hex[:12]}"
    files.create_dir(name)
    return Bucket(name, files)
