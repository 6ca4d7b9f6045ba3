"""Versions of Python that are not installed here: what their dependencies declare, and what they no longer have."""

from __future__ import annotations

import ast
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LATER = ["3.14", "3.15"]
FILES = [path for folder in ("rmqcli", "codec", "broker") for path in sorted((ROOT / folder).rglob("*.py"))]
GONE = re.compile(
    # Removed by 3.13 (PEP 594 and others), 3.14 and 3.15.
    r"\b(?:import (?:aifc|audioop|cgi|cgitb|chunk|crypt|imghdr|imp|mailcap|nntplib|pipes|sndhdr|spwd|telnetlib|uu)\b"
    r"|ast\.(?:Bytes|Ellipsis|NameConstant|Num|Str)\b|pkgutil\.(?:find|get)_loader|pty\.(?:master|slave)_open"
    r"|sre_(?:compile|constants|parse)\b|itertools\.\w+\(.*\)\.__(?:reduce|copy|deepcopy)|asyncio\.\w*ChildWatcher"
    r"|importlib\.abc\.(?:ResourceReader|Traversable)|urllib\.parse\.Quoter|sysconfig\.is_python_build\("
    r"|typing\.(?:no_type_check_decorator|ByteString)|collections\.abc\.ByteString|ctypes\.SetPointerType"
    r"|platform\.java_ver|locale\.getdefaultlocale|threading\.RLock\([^)]|glob\.glob[01]\b|wave\.\w+\.getmark)"
)


def needed(version: str) -> Iterator[str]:
    """The packages that the base install has with a version, with those that they require."""
    waiting = list(PROJECT["dependencies"])
    seen: set[str] = set()
    while waiting:
        one = Requirement(waiting.pop())
        name = canonicalize_name(one.name)
        there = {"python_version": version, "python_full_version": f"{version}.0", "extra": ""}
        if name in seen or (one.marker is not None and not one.marker.evaluate(there)):
            continue
        seen.add(name)
        yield name
        waiting += requires(name) or []


@pytest.mark.parametrize("version", LATER)
def test_every_dependency_admits_the_version(version: str) -> None:
    names = list(needed(version))
    assert len(names) > 15
    bounds = {name: (distribution(name).metadata.get_all("Requires-Python") or [""])[0] for name in names}
    assert {name: bound for name, bound in bounds.items() if f"{version}.0" not in SpecifierSet(bound)} == {}


def test_zstd_comes_with_python_or_as_a_package() -> None:
    """Python has it from 3.14 on."""
    assert {one: "backports-zstd" in needed(one) for one in ("3.13", *LATER)} == {
        "3.13": True,
        "3.14": False,
        "3.15": False,
    }


def test_no_file_has_what_warns_or_is_gone() -> None:
    """Neither in the oldest version nor in later ones: 3.14 warns of what leaves a `finally` block (PEP 765)."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in FILES:
            text = path.read_text()
            compile(text, str(path), "exec", dont_inherit=True)
            tree = ast.parse(text, feature_version=(3, 11))
            ends = [one.finalbody for one in ast.walk(tree) if isinstance(one, ast.Try)]
            found += [f"{path}:{node.lineno} leaves a finally block" for end in ends for node in left(end)]
            found += [f"{path}: {name}" for name in GONE.findall(text)]
    assert len(FILES) > 600 and found == []


def left(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """The statements that leave a block; those in inner functions and loops do not."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
            yield node
        in_loop = isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        inner = left(ast.iter_child_nodes(node))
        yield from (one for one in inner if isinstance(one, ast.Return) or not in_loop)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("return 1", [1]),
        ("while x:\n break", []),
        ("while x:\n return", [2]),
        ("if x:\n continue", [2]),
        ("def f():\n return", []),
        ("try: pass\nexcept E: return", [2]),
        ("with x:\n try: pass\n finally: pass", []),
    ],
)
def test_what_leaves_a_block_is_found(text: str, lines: list[int]) -> None:
    assert [node.lineno for node in left(ast.parse(text).body)] == lines


@pytest.mark.parametrize("text", ["ast.Num(1)", "import cgi", "typing.ByteString", "threading.RLock(1)"])
def test_what_is_gone_is_found(text: str) -> None:
    assert GONE.search(text) and not GONE.search("import cgitools; ast.Name; threading.RLock()")
