"""Administration by area: former names of the calls, and areas imported one by one."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any, cast

import pytest

from rmqcli.client import Admin
from rmqcli.client.admin.moved import MOVED


@pytest.mark.parametrize("name", [name for name, place in MOVED.items() if not place.startswith(f"{name}.")])
def test_a_former_name_is_the_new_method_and_warns(name: str) -> None:
    admin = Admin()
    area, _, method = MOVED[name].partition(".")
    with pytest.warns(
        DeprecationWarning, match=rf"Admin\.{name}\(\) is now Admin\.{area}\.{method}\(\)"
    ) as seen:
        old = getattr(admin, name)
    assert old == getattr(getattr(admin, area), method)
    assert seen[0].filename == __file__


@pytest.mark.parametrize("name", ["topics", "groups", "offsets"])
def test_an_area_can_be_called_as_the_method_of_its_name(name: str) -> None:
    area = cast(Any, getattr(Admin(), name))
    with pytest.warns(DeprecationWarning, match=rf"Admin\.{name}\(\) is now Admin\.{MOVED[name]}\(\)"):
        area(*["x"] * (name == "offsets")).close()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with (
        warnings.catch_warnings(),
        pytest.raises(AttributeError, match="'Admin' object has no attribute 'nothing'"),
    ):
        warnings.simplefilter("error")
        _ = cast(Any, Admin()).nothing


def test_an_area_imports_no_other_area() -> None:
    program = (
        "import sys; from rmqcli.client import Admin; Admin().topics;"
        "print(*(name.rpartition('.')[2] for name in sys.modules if name.startswith('rmqcli.client.admin.')))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == {"admin", "area", "moved", "topics", "values"}
