"""CONTRIBUTING.md and the hooks name what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOOKS = {
    hook["id"]: hook
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
}


def test_targets_of_make_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / "CONTRIBUTING.md").read_text()))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert "test" in named and named <= targets


def test_hooks_are_local_and_run_tools_of_the_environment() -> None:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    lint = ((ROOT / "Makefile").read_text()).replace("$(PY)", ".venv/bin/python")
    for name in ("ruff-format", "ruff-check", "mypy", "lint-imports"):
        assert HOOKS[name]["entry"].removesuffix(" --fix") in lint


@pytest.mark.parametrize(("length", "status"), [(72, 0), (73, 1)])
def test_long_subjects_are_refused(tmp_path: Path, length: int, status: int) -> None:
    message = tmp_path / "message"
    message.write_text("x" * length + "\n\nbody\n")
    command = HOOKS["commit-subject"]["entry"].replace("python3", sys.executable)
    assert subprocess.run(["bash", "-c", f"{command} {message}"], check=False).returncode == status


EXCERPT = re.compile(r"^```python (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXCERPTS = EXCERPT.findall((ROOT / "docs" / "contributing.md").read_text())


def test_there_are_excerpts() -> None:
    assert len(EXCERPTS) > 3


def without_layout(code: str) -> str:
    """Python code without blanks and trailing commas: a table is laid out by columns, a page by ruff."""
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s+", "", code))


@pytest.mark.parametrize(("path", "text"), EXCERPTS, ids=[path for path, _ in EXCERPTS])
def test_excerpts_stand_in_the_files_that_they_name(path: str, text: str) -> None:
    assert without_layout(text) in without_layout((ROOT / path).read_text())
