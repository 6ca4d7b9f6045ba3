"""Packages with lazy names: imports for type checkers, `__all__` and importable names are the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import rmqcli.codec.lazy
from rmqcli.codec.lazy import lazy_names

ROOT = Path(__file__).parents[2]
PACKAGES = ["rmqcli.broker", "rmqcli.codec.selector", "rmqcli.client", "rmqcli.export.spark_source"]


def type_checking_imports(package: str) -> set[str]:
    source = (ROOT / package.replace(".", "/") / "__init__.py").read_text()
    guarded = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    return {alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) == type_checking_imports(package)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wrong_name_is_refused_as_by_any_module(package: str) -> None:
    with pytest.raises(AttributeError, match=rf"module '{package}' has no attribute 'Nothing'"):
        import_module(package).Nothing  # noqa: B018


def test_only_what_is_asked_for_is_imported() -> None:
    code = "import sys, rmqcli.codec.selector; rmqcli.codec.selector.BloomFilter; print('rmqcli.codec.selector.tags' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


def test_a_name_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import rmqcli.codec.selector.tags

    monkeypatch.delitem(vars(rmqcli.codec.selector), "ALL", raising=False)
    names, find = lazy_names("rmqcli.codec.selector")
    assert names == import_module("rmqcli.codec.selector").__all__
    assert find("ALL") is rmqcli.codec.selector.tags.ALL
    assert vars(rmqcli.codec.selector)["ALL"] is rmqcli.codec.selector.tags.ALL


def test_a_package_without_its_source_cannot_be_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loader:
        def get_source(self, name: str) -> None:
            return None

    monkeypatch.setattr(rmqcli.codec.selector, "__loader__", Loader())
    # Python 3.13 looks here.
    monkeypatch.setattr(rmqcli.codec.selector.__spec__, "loader", Loader())
    monkeypatch.setattr(rmqcli.codec.selector, "__file__", "/nowhere/__init__.py")
    with pytest.raises(ImportError, match=r"the source of rmqcli\.codec\.selector is missing"):
        lazy_names("rmqcli.codec.selector")
