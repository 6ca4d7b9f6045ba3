"""docs/testing-languages.md: its programs for Node, Python and Java, and the script of the action."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.docs.python_blocks import blocks
from tests.foreign.install import GRPC_PYTHON, INSTALLED, install_grpc, install_node
from tests.support import PATIENCE, RMQ

PAGE = ROOT / "docs" / "testing-languages.md"
ACTION = ROOT / "docs" / "github-action" / "action.yml"
ON_PATH = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
JAVA_MAIN = """
public final class Main {
    public static void main(String[] args) throws Exception {
        try (Rmq rmq = new Rmq()) {
            rmq.advance("30m");
            System.out.println(rmq.namesrv + " " + rmq.grpc);
        }
        System.out.println("ended");
    }
}
"""


def run(*command: str, folder: Path, **more: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=ON_PATH | more,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(folder: Path, language: str, mark: str) -> dict[str, str]:
    """Write the files of a language, each with its name in the first line; return their texts by name."""
    files = {text.partition("\n")[0].removeprefix(f"{mark} "): text for text in blocks(language, PAGE)}
    for name, text in files.items():
        (folder / name).write_text(text)
    return files


def test_the_test_in_node_passes(tmp_path: Path) -> None:
    install_node()
    (tmp_path / "node_modules").symlink_to(INSTALLED / "node" / "node_modules")
    files = write(tmp_path, "javascript", "//")
    assert files.keys() == {"cluster.mjs", "orders.test.mjs"}
    out = run("node", "--test", "--test-reporter=tap", "orders.test.mjs", folder=tmp_path)
    assert "# pass 1" in out and "# fail 0" in out, out


def test_the_test_in_python_passes(tmp_path: Path) -> None:
    install_grpc()
    files = write(tmp_path, "python", "#")
    assert files.keys() == {"test_orders_grpc.py"}
    (packages,) = GRPC_PYTHON.parents[1].glob("lib/python*/site-packages")
    options = ("-q", "-p", "no:cacheprovider")
    out = run(sys.executable, "-m", "pytest", *options, *files, folder=tmp_path, PYTHONPATH=str(packages))
    assert "1 passed" in out, out


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_the_class_in_java_starts_and_ends_a_broker(tmp_path: Path) -> None:
    write(tmp_path, "java", "//")
    (tmp_path / "Main.java").write_text(JAVA_MAIN)
    run("javac", "Rmq.java", "Main.java", folder=tmp_path)
    out = run("java", "Main", folder=tmp_path)
    assert re.fullmatch(r"127\.0\.0\.1:\d+ 127\.0\.0\.1:\d+\nended\n", out), out


def test_the_action_starts_a_broker_for_the_steps_that_follow(tmp_path: Path) -> None:
    action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    install, start = action["runs"]["steps"]
    assert action["inputs"]["options"]["default"] == "--grpc"
    assert start["env"] == {"OPTIONS": "${{ inputs.options }}"}
    assert all("${{" not in step["run"] for step in (install, start))
    (tmp_path / "rmq").symlink_to(sys.prefix)
    output, environment = tmp_path / "output", tmp_path / "environment"
    told = {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(output), "GITHUB_ENV": str(environment)}
    free = "--port 0 --namesrv-port 0 --grpc 0"
    try:
        run("bash", "-e", "-c", start["run"] + "\necho $! > pid", folder=tmp_path, OPTIONS=free, **told)
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        assert action["outputs"].keys() <= outputs.keys()
        assert environment.read_text() == f"RMQ_NAMESRV={outputs['namesrv']}\n"
        assert "SEND_OK" in run(*RMQ, "send", "t", "x", folder=tmp_path, RMQ_NAMESRV=outputs["namesrv"])
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)


def test_the_action_shows_why_the_broker_did_not_start(tmp_path: Path) -> None:
    start = yaml.safe_load(ACTION.read_text())["runs"]["steps"][1]
    (tmp_path / "rmq").symlink_to(sys.prefix)
    done = subprocess.run(
        ["bash", "-e", "-c", start["run"]],
        env=os.environ | {"RUNNER_TEMP": str(tmp_path), "OPTIONS": "--nonsense"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 1 and "--nonsense" in done.stderr, done
