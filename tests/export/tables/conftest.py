"""The formats of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.export.tables.support import LAKES, Lake


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Of Iceberg, a table in the catalog `test` of this environment, a file of SQLite."""
    folder = tmp_path / "lake"
    folder.mkdir()
    if request.param == "iceberg":
        from pyiceberg import catalog
        from pyiceberg.utils.config import Config

        for name, value in {
            "TYPE": "sql",
            "URI": f"sqlite:///{folder}/catalog.db",
            "WAREHOUSE": f"file://{folder}/warehouse",
        }.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__TEST__{name}", value)
        # The library reads the environment when it is imported.
        monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())
    return LAKES[request.param](folder)
