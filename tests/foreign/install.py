"""Clients of other projects, installed from their registries into `.venv-foreign/` of the checkout.

Their drivers in `clients/` share one command line:
`send|consume NAMESRV TOPIC GROUP COUNT PREFIX [MODE] [IN_FLIGHT] [BODY_BYTES]`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import ended

__all__ = [
    "ALI_ONS",
    "ALL",
    "CPP1_CTYPES",
    "CPP2",
    "GRPC_PYTHON",
    "Client",
    "install_cpp1",
    "install_frameworks",
    "install_grpc",
    "install_node",
]

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
INSTALLED = ROOT / ".venv-foreign"
CPP1 = "rocketmq==0.4.4"
GRPC = "rocketmq-python-client==5.1.2"
GRPC_PYTHON = INSTALLED / "grpc/bin/python"
FRAMEWORKS = "anyio==4.16.0 fastapi==0.165.0 httpx2==2.16.2 pytest-asyncio==1.5.0"


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
    _install_python("cpp1", CPP1)


def install_grpc() -> None:
    """Install the official client of 5.x for Python."""
    _install_python("grpc", GRPC)


def _install_python(name: str, package: str) -> None:
    target = INSTALLED / name
    stamp = target / "installed.txt"
    if stamp.exists() and stamp.read_text() == package:
        return
    # venv would unpack and compile a pip, which takes longer than the package.
    run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(target))
    run(str(ROOT / ".ci/install"), str(target / "bin/python"), package)
    stamp.write_text(package)


def install_frameworks() -> Path:
    """Install the Python packages, and return the folder that has them."""
    target = INSTALLED / "frameworks"
    stamp = target / "installed.txt"
    if not (stamp.exists() and stamp.read_text() == FRAMEWORKS):
        shutil.rmtree(target, ignore_errors=True)
        run(str(ROOT / ".ci/install"), sys.executable, "--target", str(target), *FRAMEWORKS.split())
        stamp.write_text(FRAMEWORKS)
    return target


@dataclass(frozen=True)
class Client:
    """A foreign client: the command line of its driver in `clients/`."""

    name: str
    command: tuple[str, ...]
    has_reconsume_times: bool = True
    fails_whole_pulls: bool = False
    """A listener that fails for one message makes the client send back all messages of the same pull."""
    exit_status: int = 0

    def start(
        self, home: Path, *args: str, member: str = "", stdout: Any = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Starts the driver. `member` is a name for the lines that it prints about messages."""
        environment = os.environ | {"HOME": str(home), "NODE_PATH": str(INSTALLED / "node/node_modules")}
        return subprocess.Popen(
            [*self.command, *args],
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment | ({"MEMBER": member} if member else {}),
        )

    def lines(self, home: Path, *args: str, timeout: float = 120) -> list[dict[str, Any]]:
        with ended(self.start(home, *args)) as process:
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
    "rocketmq-nodejs", (NODE, str(CLIENTS / "cpp2_node.js")), has_reconsume_times=False, exit_status=-9
)
CPP1_CTYPES = Client(
    "rocketmq-0.4.4",
    (str(INSTALLED / "cpp1/bin/python"), str(CLIENTS / "cpp1_ctypes.py")),
    fails_whole_pulls=True,
)
ALL = (ALI_ONS, CPP2, CPP1_CTYPES)
