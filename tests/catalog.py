"""A catalog of Iceberg for tests: a file of SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest


def use_catalog(patch: pytest.MonkeyPatch, name: str, folder: Path, warehouse: str) -> None:
    """Make `iceberg:NAME.…` mean tables of a catalog in `folder`, whose files are in `warehouse`."""
    from pyiceberg import catalog  # takes 0.8 s, which every worker would spend to collect the tests
    from pyiceberg.utils.config import Config

    for key, value in {
        "TYPE": "sql",
        "URI": f"sqlite:///{folder}/catalog.db",
        "WAREHOUSE": warehouse,
    }.items():
        patch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{key}", value)
    # The library reads the environment when it is imported.
    patch.setattr(catalog, "_ENV_CONFIG", Config())
