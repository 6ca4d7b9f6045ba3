"""Clients that nobody here wrote, installed from their registries into `.venv-foreign/` of the checkout.

A client that cannot be installed fails its tests; only `RMQ_OFFLINE=1` in the environment skips them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
INSTALLED = ROOT / ".venv-foreign"
CPP1 = "rocketmq==0.4.4"


def run(*command: str, **kwargs: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr[-2000:]}"


def install_node() -> None:
    target = INSTALLED / "node"
    wanted = (CLIENTS / "package.json").read_text()
    stamp = target / "installed.json"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(CLIENTS / "package.json", target)
    run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=target)
    stamp.write_text(wanted)


def install_cpp1() -> None:
    target = INSTALLED / "cpp1"
    stamp = target / "installed.txt"
    if stamp.exists() and stamp.read_text() == CPP1:
        return
    run(sys.executable, "-m", "venv", "--clear", str(target))
    run(str(target / "bin/python"), "-m", "pip", "install", "--quiet", CPP1)
    stamp.write_text(CPP1)


@dataclass(frozen=True)
class Client:
    """One foreign client: how its driver in `clients/` is called."""

    name: str
    command: tuple[str, ...]
    tells_reconsume_times: bool = True
    exit_status: int = 0

    def start(self, home: Path, *args: str) -> subprocess.Popen[str]:
        environment = os.environ | {"HOME": str(home), "NODE_PATH": str(INSTALLED / "node/node_modules")}
        return subprocess.Popen(
            [*self.command, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def lines(self, home: Path, *args: str, timeout: float = 120) -> list[dict[str, Any]]:
        process = self.start(home, *args)
        out, _ = process.communicate(timeout=timeout)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        problems = [line for line in lines if "error" in line]
        assert process.returncode == self.exit_status and not problems, (
            f"{self.name} {args}: {process.returncode} {problems or out[-500:]}"
        )
        return lines


NODE = shutil.which("node") or "node"
ALI_ONS = Client("ali-ons", (NODE, str(CLIENTS / "ali_ons.js")))
CPP2 = Client(
    "rocketmq-nodejs", (NODE, str(CLIENTS / "cpp2_node.js")), tells_reconsume_times=False, exit_status=-9
)
CPP1_CTYPES = Client("rocketmq-0.4.4", (str(INSTALLED / "cpp1/bin/python"), str(CLIENTS / "cpp1_ctypes.py")))
ALL = (ALI_ONS, CPP2, CPP1_CTYPES)


@pytest.fixture(scope="session")
def installed() -> None:
    if os.environ.get("RMQ_OFFLINE") == "1":
        pytest.skip("RMQ_OFFLINE=1: the registries are said to be out of reach")
    install_node()
    install_cpp1()


@pytest.fixture(params=ALL, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest, installed: None) -> Client:
    return request.param


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """`rmq up` in a process of its own; delay level 3, the first retry, is one second here."""
    store = tmp_path_factory.mktemp("store")
    levels = "messageDelayLevel=" + " ".join(["1s"] * 18)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "rmqcli",
            "up",
            "--json",
            "--port",
            "0",
            "--namesrv-port",
            "0",
            "--store",
            str(store),
            "--set",
            levels,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.fixture
def rmq(cluster: dict[str, str]) -> Any:
    def call(*args: str, stdin: str | None = None) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "rmqcli", *args, "-n", cluster["namesrv"]],
            capture_output=True,
            text=True,
            input=stdin,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return call
