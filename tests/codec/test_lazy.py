"""Packages with lazy names: what type checkers see, what `__all__` says and what can be imported are the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from codec.lazy import lazy_names

ROOT = Path(__file__).parents[2]
PACKAGES = ["rmqcli.client.admin", "codec.selector", "rmqcli.client"]


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
    code = (
        "import sys, codec.selector; codec.selector.BloomFilter; print('codec.selector.tags' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


def test_a_name_is_found_once() -> None:
    find = lazy_names("codec.lazy", {"codec.errors": ["CodecError"]})
    import codec.errors
    import codec.lazy

    assert find("CodecError") is codec.errors.CodecError
    assert vars(codec.lazy).pop("CodecError") is codec.errors.CodecError
