"""`rmq inspect rocksdb`, on folders that the library writes as 5.3.3 does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqcli.store.read.tables import FOLDERS
from tests.cli.conftest import Run

TOPIC = b'{"topicName":"T","readQueueNums":3}'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rocksdict = pytest.importorskip("rocksdict")
    values = {
        "topics": (b"T", TOPIC),
        "groups": (b"G", b"{}"),
        "offsets": (b"T@G", b'{"offsetTable":{"0":5}}'),
    }
    for word, (name, value) in values.items():
        folder = tmp_path / "config" / FOLDERS[word]
        folder.parent.mkdir(exist_ok=True)
        database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
        database.create_column_family("kvDataVersion", rocksdict.Options(raw_mode=True))[b"v"] = b"{}"
        database[name] = value
        database.close()
        (folder / "rocksdict-config.json").unlink()
    return tmp_path


def test_tables(cli: Run, store: Path) -> None:
    before = sorted(path for path in store.rglob("*"))
    assert cli("inspect", "rocksdb", str(store)).lines == [
        ["topics", "T", TOPIC.decode()],
        ["groups", "G", "{}"],
        ["offsets", "T@G", '{"offsetTable":{"0":5}}'],
    ]
    one = cli("inspect", "rocksdb", str(store / "config"), "topics", "--json")
    assert one.json == [{"table": "topics", "name": "T", "value": json.loads(TOPIC)}]
    assert cli("inspect", "rocksdb", str(store / "config" / FOLDERS["groups"])).lines[0][0] == "groups"
    assert sorted(path for path in store.rglob("*")) == before


def test_what_cannot_be_read(cli: Run, store: Path) -> None:
    (store / "config" / FOLDERS["topics"] / "CURRENT").write_bytes(b"MANIFEST-999999\n")
    damaged = cli("inspect", "rocksdb", str(store), "topics")
    assert (damaged.code, "no RocksDB that can be read" in damaged.err) == (8, True)


def test_folders_without_tables(cli: Run, tmp_path: Path) -> None:
    assert cli("inspect", "rocksdb", str(tmp_path)).code == 4
    assert cli("inspect", "rocksdb", str(tmp_path / "none")).code == 4
    assert cli("inspect", "rocksdb", str(tmp_path), "queues").code == 2
