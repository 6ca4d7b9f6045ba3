"""What is said of packages that are not installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from rmqcli.extras import MissingPackage, install_command, require


@pytest.mark.parametrize(
    ("modules", "missing", "named"),
    [
        (("pyarrow",), "pyarrow", "pyarrow"),
        (("numpy", "pyarrow"), "pyarrow", "pyarrow"),
        (("hdrh",), "hdrh", "hdrhistogram"),
        (("google.protobuf",), "google", "protobuf"),
        (("google.protobuf",), "google.protobuf", "protobuf"),
    ],
)
def test_the_message_names_what_pip_installs(
    monkeypatch: pytest.MonkeyPatch, modules: tuple[str, ...], missing: str, named: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == missing else find(name, *rest)
    )
    with pytest.raises(MissingPackage) as caught:
        require("extra", *modules)
    assert str(caught.value) == f"package {named} is not installed: pip install 'rmqcli[extra]'"


def test_what_is_installed_is_not_imported() -> None:
    sys.modules.pop("this", None)
    require("extra", "this", "json.decoder")
    assert "this" not in sys.modules


def test_a_parent_that_is_missing() -> None:
    with pytest.raises(MissingPackage, match="no_such_package"):
        require("extra", "no_such_package.inner")


@pytest.mark.parametrize(
    ("marker", "command"),
    [
        (None, "pip install 'rmqcli[sql]'"),
        ("pipx_metadata.json", "pipx inject rmqcli 'rmqcli[sql]'"),
        ("uv-receipt.toml", "uv pip install --python '{}' 'rmqcli[sql]'"),
    ],
)
def test_the_command_fits_what_installed_rmq(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, marker: str | None, command: str
) -> None:
    if marker:
        (tmp_path / marker).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_command("sql") == command.format(tmp_path)
