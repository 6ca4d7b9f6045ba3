"""An archive of everything that executors need: this package and its requirements, as installed here.

Spark unpacks a zip file of `spark.archives` in the working folder of each executor, and `PYTHONPATH` names
that folder. Compiled modules cannot be imported from a zip file, so `--py-files` would not work. PySpark and
Py4J come with Spark, in the version that the executors run.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
import zipfile
from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from rmqcli.export.errors import PackageError
from rmqcli.extras import MissingPackage
from rmqcli.files import refuse_existing, replacing

EXTRAS = ("spark", "decode")
"""The extra that executors need, and the one that they need for typed bodies."""
REQUIRED = ("pyarrow", "numpy", "pandas")
OF_SPARK = frozenset(("pyspark", "py4j"))
ROOT = Path(__file__).parents[3]
"""The folder in which this package is installed."""
FOLDER = "rmq"
"""The folder in which executors find the packages."""
THIS_PYTHON = f"{platform.python_implementation()} {sys.version_info[0]}.{sys.version_info[1]}, " + (
    sysconfig.get_platform()
)
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive, so that equal packages make equal archives."""
_LEFT_OUT = re.compile(r"(^|/)(__pycache__|tests?|include)/|\.(pyc|pyi|pxd|pyx|h|hpp|c|cc|cpp|a)$")
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
_OF_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


class Package(NamedTuple):
    name: str
    version: str


class Written(NamedTuple):
    """An archive of `size` bytes with these packages."""

    path: Path
    size: int
    packages: list[Package]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """The settings with which Spark uses the archive."""
        return [
            ("spark.archives", f"{self.path.resolve()}#{FOLDER}"),
            ("spark.executorEnv.PYTHONPATH", f"./{FOLDER}"),
        ]


def write_package(out: Path, *, without: Collection[str] = (), replace: bool = False) -> Written:
    """Write the archive to a temporary file and rename it.

    Raises MissingPackage, PackageError and OSError.
    """
    if out.suffix != ".zip":
        raise PackageError(f"{out}: expected a name that ends with .zip, by which Spark knows what to unpack")
    refuse_existing(out, replace=replace)
    found = wanted_distributions(without)
    with replacing(out) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in sorted([*_own_files(), *_files(found)]):
            _add(archive, name, path)
    packages = sorted(Package(one.name, one.version) for one in found)
    return Written(out, out.stat().st_size, packages)


def wanted_distributions(without: Collection[str] = ()) -> list[Distribution]:
    """Return the installed requirements of this package with the EXTRAS, including indirect ones.

    Raises MissingPackage without the extra `spark`, PackageError for names that are not required.
    """
    left_out = {_canonical(name) for name in without}
    found: dict[str, Distribution] = {}
    waiting = [("rmqcli", frozenset(EXTRAS))]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen or name in OF_SPARK:
            continue
        seen.add((name, extras))
        if name not in left_out and (one := _installed(name)) is not None:
            found[name] = one
            waiting += _required(one, extras)
    if unknown := left_out - {name for name, _ in seen}:
        raise PackageError(f"--without {min(unknown)}: executors do not need it")
    if missing := [name for name in REQUIRED if name not in {*found, *left_out}]:
        raise MissingPackage(missing[0], "spark")
    return [found[name] for name in sorted(found)]


def _canonical(name: str) -> str:
    """Return the name as PEP 503 normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed(name: str) -> Distribution | None:
    """Return a distribution; None for requirements of other platforms and extras that are not installed."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _required(one: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for text in one.requires or []:
        requirement, _, marker = text.partition(";")
        of = _OF_EXTRA.search(marker)
        if (of is None or of[1] in extras) and (named := _REQUIREMENT.match(requirement.strip())):
            own = frozenset(part.strip() for part in (named[2] or "").split(",") if part.strip())
            yield _canonical(named[1]), own


def _own_files() -> Iterator[tuple[str, Path]]:
    """Yield the modules of this package, regardless of how it is installed."""
    # The broker is only packed, not imported. In a checkout, rmqcli/codec and rmqcli/broker are links to folders
    # beside it, which rglob does not follow.
    for folder, _, names in os.walk(ROOT / "rmqcli", followlinks=True):
        for path in (Path(folder, name) for name in names):
            name = path.relative_to(ROOT).as_posix()
            if not _LEFT_OUT.search(name):
                yield name, path
    # The compiled modules of the codec share a library beside the package.
    yield from ((path.name, path) for path in ROOT.glob("rmq_core__mypyc.*"))


def _files(found: Iterable[Distribution]) -> Iterator[tuple[str, Path]]:
    beginnings = ("../", "/", "rmq_core__mypyc.", "rmqcli/")
    for one in found:
        if one.files is None:
            raise PackageError(f"package {one.name} has no list of its files: install it with pip")
        for file in one.files:
            name = file.as_posix()
            # Scripts are outside; the files that an editable install points to come from `_own_files`.
            if not name.startswith(beginnings) and not name.endswith(".pth") and not _LEFT_OUT.search(name):
                yield name, Path(str(one.locate_file(file)))


def _add(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    with path.open("rb") as source, archive.open(entry, "w") as target:
        while data := source.read(1 << 20):
            target.write(data)
