"""The `rmq` and the `python` of the sessions that the pages show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.warm import warm_programs


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with `rmq` and `python` that start faster; requests have the time of a busy machine."""
    folder = tmp_path_factory.mktemp("bin")
    with warm_programs(folder):
        yield folder
