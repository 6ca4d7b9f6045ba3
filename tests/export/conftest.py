"""One Spark session for the whole run, which the exports under test use; and a count of the records that they
read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmqcli.codec.core.columns import Columns
from rmqcli.codec.scan import arrow
from rmqcli.export.spark.session import spark_session
from tests.cli.conftest import cli, cluster, own_folders, rmq, topic
from tests.sql.conftest import bytes_read

__all__ = ["SparkRun", "bytes_read", "cli", "cluster", "own_folders", "read", "rmq", "spark", "topic"]


class SparkRun(NamedTuple):
    """Runs Spark exports; `said` is the file with the driver's standard error while Spark started."""

    said: Path


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRun]:
    """Yields a local[2] session in which a failed task gets a second attempt."""
    said = tmp_path_factory.mktemp("spark") / "stderr"
    kept = os.dup(2)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        with ExitStack() as stack:
            with pytest.MonkeyPatch.context() as patch:
                # Spark gives a worker ten seconds to connect; on a busy machine, coverage alone takes half of them.
                patch.delenv("COVERAGE_PROCESS_START", raising=False)
                stack.enter_context(spark_session("local[2,2]"))
            os.dup2(kept, 2)
            yield SparkRun(said)
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the records of each batch."""
    counts: list[int] = []
    make = arrow._batch

    def counting(columns: Columns, *arguments: Any) -> Any:
        counts.append(columns.count)
        return make(columns, *arguments)

    monkeypatch.setattr(arrow, "_batch", counting)
    return counts
