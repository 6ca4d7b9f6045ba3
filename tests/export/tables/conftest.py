"""The formats of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.export.tables.support import Lake


@pytest.fixture(params=["delta"])
def lake(request: Any, tmp_path: Path) -> Lake:
    folder = tmp_path / "lake"
    folder.mkdir()
    return Lake(request.param, folder)
