"""Registering the source warns when the workers of a session run a Python without rmqcli."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from rmqcli.export import spark_source


def python(folder: Path, status: int) -> str:
    """Creates an interpreter in another folder; `status` 1 says that the requested package is missing."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


def told(monkeypatch: pytest.MonkeyPatch, executable: str, master: str = "local[2]") -> list[str]:
    context = SimpleNamespace(master=master, pythonExec=executable)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert spark_source.RocketMQ.name() == "rocketmq"
    return [str(one.message) for one in caught]


def test_a_python_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = python(tmp_path, 1)
    (said,) = told(monkeypatch, other)
    assert said.startswith(f"Spark's workers run {other}, which does not have rmqcli; ")
    assert 'os.environ["PYSPARK_PYTHON"] = sys.executable' in said
    assert told(monkeypatch, other, "spark://host:7077") == []


def test_pythons_that_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, python(tmp_path, 0)) == []
    assert told(monkeypatch, sys.executable) == []
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert spark_source.RocketMQ.name() == "rocketmq"
