"""Administration by area: an area is imported when it is first used."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import pytest

from rmqcli.client import Admin


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Admin' object has no attribute 'nothing'"):
        _ = cast(Any, Admin()).nothing


def test_an_area_imports_no_other_area() -> None:
    program = (
        "import sys; from rmqcli.client import Admin; Admin().topics;"
        "print(*(name.rpartition('.')[2] for name in sys.modules if name.startswith('rmqcli.client.admin.')))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == {"admin", "area", "topics", "values"}
