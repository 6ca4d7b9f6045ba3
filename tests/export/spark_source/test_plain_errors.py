"""Errors of the data source are told in one line; older Sparks are named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import datasource
from pyspark.sql.streaming import datasource as streaming

from rmqcli.export.errors import ExportError
from rmqcli.export.spark_source import outages
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.spark_source.outages import plainly
from rmqcli.export.spark_source.rows import spark_schema
from rmqcli.export.spark_source.source import RocketMQ

HIDE = "SPARK_HIDE_TRACEBACK"


@plainly
def failing(error: Exception) -> None:
    raise error


@plainly
def generating(error: Exception) -> Iterator[int]:
    yield 1
    raise error


@pytest.mark.parametrize("in_worker", [False, True])
@pytest.mark.parametrize(("error", "ours"), [(ExportError("no"), True), (ZeroDivisionError("bug"), False)])
def test_only_workers_hide_the_traceback_of_our_errors(
    monkeypatch: pytest.MonkeyPatch, error: Exception, ours: bool, in_worker: bool
) -> None:
    for name in (HIDE, *outages._WORKER):
        monkeypatch.delenv(name, raising=False)
    if in_worker:
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    for call in (lambda: failing(error), lambda: list(generating(error))):
        os.environ.pop(HIDE, None)
        with pytest.raises(type(error)):
            call()
        assert (os.environ.get(HIDE) == "1") is (ours and in_worker)
        os.environ.pop(HIDE, None)


def test_who_wants_tracebacks_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    monkeypatch.setenv(HIDE, "")
    with pytest.raises(ExportError):
        failing(ExportError("no"))
    assert os.environ[HIDE] == ""


@pytest.mark.parametrize(
    ("module", "name", "ours", "method", "reason"),
    [
        (
            streaming,
            "SupportsTriggerAvailableNow",
            "stream",
            "streamReader",
            "streams need Spark 4.2 or later; this is ",
        ),
        (
            datasource,
            "DataSourceStreamArrowWriter",
            "stream_writer",
            "streamWriter",
            "streaming writes need Spark 4.1",
        ),
    ],
)
def test_an_older_spark_is_named(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, ours: str, method: str, reason: str
) -> None:
    monkeypatch.delattr(module, name)
    monkeypatch.delitem(sys.modules, f"rmqcli.export.spark_source.{ours}", raising=False)
    source = RocketMQ({"namesrv": "127.0.0.1:1", "subscribe": "T", "topic": "T"})
    arguments = (spark_schema(), False) if method == "streamWriter" else (spark_schema(),)
    with pytest.raises(OptionError, match=reason):
        getattr(source, method)(*arguments)
