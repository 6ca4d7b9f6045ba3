"""The files of the page on containers: what they start serves on a read-only root as an unknown user, and is healthy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rmqcli.cli.app import COMMANDS
from tests.docs.pages import ROOT
from tests.processes import running
from tests.support import PATIENCE, RMQ

FOLDER = ROOT / "docs" / "containers"
FREE = ["--port", "0", "--namesrv-port", "0"]
OUTER = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
BOX = """mount -t tmpfs tmpfs "$1" && mount -o remount,bind,ro / && export TMPDIR="$1" && unset HOME && shift &&
exec unshare --user --map-user=54321 --map-group=54321 -- "$@" """


def dockerfile(instruction: str) -> list[str]:
    """The words of an instruction."""
    (words,) = re.findall(rf"^{instruction} .*?(\[.*\])$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    found: list[str] = json.loads(words)
    return found


def containers() -> Iterator[dict[str, Any]]:
    """The services of compose.yaml, and the container of kubernetes.yaml with its words as those of a service."""
    yield from yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"].values()
    for one in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()):
        if one["kind"] == "StatefulSet":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            yield container | {"command": container["args"]}


def boxed(folder: Path) -> list[str]:
    """A prefix of commands: a read-only root, where `folder` is empty and temporary files go, and a user without name
    and home."""
    if shutil.which("unshare") is None or subprocess.run([*OUTER, "true"], check=False).returncode:
        pytest.skip("needs user namespaces")
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PATH", "LD_", "PYTHON"))}
    return [
        "env",
        "-i",
        *(f"{name}={value}" for name, value in kept.items()),
        *OUTER,
        BOX,
        "box",
        str(folder),
    ]


def test_the_default_command_of_the_image(tmp_path: Path) -> None:
    box = boxed(tmp_path / "tmp")
    told = subprocess.run(
        [*box, "sh", "-c", f"id -un; echo ~; touch {tmp_path}/x"], capture_output=True, check=False
    )
    assert told.returncode == 1 and b"Read-only file system" in told.stderr
    with running([*dockerfile("CMD"), *FREE], [*box, *RMQ], subprocess.PIPE) as (server, words):
        assert words["store"].startswith(str(tmp_path / "tmp"))
        check = [*box, "env", f"RMQ_NAMESRV={words['namesrv']}", *RMQ, *dockerfile("HEALTHCHECK")[1:]]
        done = subprocess.run(check, capture_output=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stdout.split()[:3]) == (0, [b"RMQ", b"BROKERS", b"OK"])
        server.terminate()
        _, err = server.communicate(timeout=PATIENCE)
    assert server.returncode == 0
    assert [line.partition(" access control: ")[0] for line in err.decode().splitlines()] == [
        "rmq: listening on 0.0.0.0 without"
    ]


def test_probes_reach_the_broker_by_its_address_in_the_pod(tmp_path: Path) -> None:
    """The name of the service leads nowhere until the pod is ready."""
    (pod,) = (one for one in containers() if "startupProbe" in one)
    assert pod["startupProbe"]["exec"] == pod["readinessProbe"]["exec"]
    name, advertised, probe = (
        "192.0.2.7",
        pod["args"][pod["args"].index("--advertise") + 1],
        pod["startupProbe"]["exec"],
    )
    words = [
        name if word == advertised else str(tmp_path) if word == "/data/store" else word
        for word in pod["args"]
    ]
    with running([*words, *FREE], stderr=subprocess.DEVNULL) as (_, told):
        port = told["namesrv"].rpartition(":")[2]
        check = [word.replace(f"{advertised}=", f"{name}=") for word in probe["command"][1:]]
        environment = os.environ | {"RMQ_NAMESRV": f"127.0.0.1:{port}", "RMQ_STATE_DIR": str(tmp_path)}
        done = subprocess.run(
            [*RMQ, *check], env=environment, timeout=PATIENCE, stdout=subprocess.PIPE, check=False
        )
        assert (done.returncode, done.stdout.split()[:3]) == (0, [b"RMQ", b"BROKERS", b"OK"])


def test_what_containers_run_is_a_command() -> None:
    found = [dockerfile("CMD"), *(one["command"] for one in containers())]
    assert [words[0] for words in found] == ["up", "up", "tail", "up"]
    assert {words[0] for words in found} <= set(COMMANDS)


def test_a_wheel_can_be_built_from_what_the_image_gets(tmp_path: Path) -> None:
    """Not from the whole checkout: other files would change its layers, and what git ignores would reach it."""
    names = (FOLDER / "Dockerfile.dockerignore").read_text().split()
    kept = [name.removeprefix("!") for name in names if name.startswith("!")]
    assert names[0] == "*"
    for name in kept:
        subprocess.run(["cp", "-a", "--parents", name, str(tmp_path)], cwd=ROOT, check=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(
        build, cwd=tmp_path, env=os.environ | {"RMQ_PURE": "1"}, check=True, stderr=subprocess.DEVNULL
    )
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    assert {"rmqcli/__main__.py", "rmqcli/broker/node.py", "rmqcli/codec/core/frames.py"} <= found
