"""The formats of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.catalog import use_catalog
from tests.export.tables.support import LAKES, Lake


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Of Iceberg, a table in the catalog `test` of this environment, a file of SQLite."""
    folder = tmp_path / "lake"
    folder.mkdir()
    if request.param == "iceberg":
        use_catalog(monkeypatch, "test", folder, f"file://{folder}/warehouse")
    return LAKES[request.param](folder)
