"""Compile rmqcli.codec.core with mypyc: in a checkout (python .ci/compile.py), and into wheels, as a build hook of hatchling.

Without a C compiler, or with RMQ_PURE=1, nothing is compiled and a wheel is pure: the modules run as they are.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # in a checkout without the build tools
    BuildHookInterface = object

ROOT = Path(__file__).parents[1]
LINKED = ("codec", "broker")
"""Packages of rmqcli whose folders are beside it: rmqcli contains links to them."""
CORE = "rmqcli/codec/core"
REQUIRES = ["mypy[mypyc]>=2.4,<3", "setuptools>=75"]
GROUP = "rmq_core"
"""The compiled modules share a library of this name, which Python finds beside the packages."""


def can_compile() -> bool:
    """Return True if there are a C compiler and Python's headers, and RMQ_PURE is not 1."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    header = Path(sysconfig.get_path("include"), "Python.h")
    return os.environ.get("RMQ_PURE") != "1" and shutil.which(compiler) is not None and header.exists()


def build(root: Path, into: Path) -> bool:
    """Build the compiled modules into a folder, in a separate process; return False if the compiler fails."""
    link(root)
    command = [sys.executable, __file__, "--build", str(into)]
    done = subprocess.run(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        print("rmqcli.codec.core was not compiled: it runs interpreted, which is slower", file=sys.stderr)
    return done.returncode == 0


def run_setuptools(into: str) -> None:
    """Translate the modules to C and compile them in the current folder of the process."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    modules = sorted(str(path) for path in Path(CORE).glob("*.py") if path.name != "__init__.py")
    # Types are checked by `make types`. An isolated build of a wheel has few libraries, so types of libraries are
    # ignored everywhere: a checkout then compiles in the same way.
    options = ["--no-site-packages", "--follow-imports=silent", "--ignore-missing-imports"]
    options += ["--no-warn-return-any", "--cache-dir", f"{into}/mypy"]
    level = os.environ.get("MYPYC_OPT_LEVEL", "3")
    extensions = mypycify(
        [*options, *modules], opt_level=level, debug_level="0", group_name=GROUP, target_dir=into
    )
    for extension in extensions:
        # Sums and products in the core may overflow. setuptools drops this option of Python's if CFLAGS is set.
        extension.extra_compile_args.append("-fwrapv")
    # setup() would also read pyproject.toml, whose dynamic fields setuptools does not understand.
    distribution = Distribution({"name": GROUP, "packages": [], "py_modules": [], "ext_modules": extensions})
    distribution.script_args = [
        "-q",
        "build_ext",
        "--build-lib",
        f"{into}/lib",
        "--build-temp",
        f"{into}/temp",
    ]
    distribution.parse_command_line()
    distribution.run_commands()


def link(root: Path) -> None:
    """Create the links, which a source distribution does not contain."""
    for name in LINKED:
        if not (root / "rmqcli" / name).exists():
            (root / "rmqcli" / name).symlink_to(f"../{name}", target_is_directory=True)


def linked_sources(root: Path) -> dict[str, str]:
    """Return the files of the linked packages, and their paths in a wheel."""
    paths = (path for name in LINKED for path in (root / name).rglob("*"))
    return {
        str(path): f"rmqcli/{path.relative_to(root)}"
        for path in paths
        if path.is_file() and path.suffix not in {".pyc", ".so", ".pyd"}
    }


class CoreHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    """Adds the packages beside rmqcli, and the compiled modules, to a wheel."""

    def dependencies(self) -> list[str]:
        """Return the dependencies of the build."""
        return REQUIRES if self.target_name == "wheel" and can_compile() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile for a wheel; an editable installation runs what `make` compiled in the checkout."""
        if self.target_name != "wheel" or version != "standard":
            return
        # hatchling follows a link only if it has not seen the folder under another name before.
        build_data["force_include"].update(linked_sources(Path(self.root)))
        if not can_compile():
            return
        self.folder = tempfile.mkdtemp()
        if build(Path(self.root), Path(self.folder)):
            library = Path(self.folder, "lib")
            built = {
                str(path): str(path.relative_to(library)) for path in library.rglob("*") if path.is_file()
            }
            build_data["force_include"].update(built)
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the built files."""
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)


def in_place() -> None:
    """Compile into the checkout, or remove modules that were compiled there before."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for old in (*ROOT.glob(f"{GROUP}*{suffix}"), *ROOT.glob(f"{CORE}/*{suffix}")):
        old.unlink()
    if can_compile():
        with tempfile.TemporaryDirectory() as folder:
            if build(ROOT, Path(folder)):
                shutil.copytree(Path(folder, "lib"), ROOT, dirs_exist_ok=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--build"]:
        run_setuptools(sys.argv[2])
    else:
        in_place()
