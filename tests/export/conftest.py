"""One Spark session for the whole run: the exports under test use the session that is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rmqcli.export.session import spark_session
from tests.cli.conftest import cli, cluster, own_folders, rmq, topic

__all__ = ["SparkRun", "cli", "cluster", "own_folders", "rmq", "spark", "topic"]


class SparkRun(NamedTuple):
    """`said` is the file that the driver's standard error went to while Spark started."""

    said: Path


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRun]:
    """local[2], and a task that fails gets a second attempt."""
    said = tmp_path_factory.mktemp("spark") / "stderr"
    kept = os.dup(2)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        with spark_session("local[2,2]"):
            os.dup2(kept, 2)
            yield SparkRun(said)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
