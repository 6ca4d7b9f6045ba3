"""The driver of the official Python client of RocketMQ 5 (`clients/grpc_python.py`)."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.foreign.install import CLIENTS, GRPC_PYTHON
from tests.processes import ended
from tests.support import PATIENCE

DRIVER = str(CLIENTS / "grpc_python.py")


def start(cluster: dict[str, str], verb: str, topic: str, *more: str) -> subprocess.Popen[str]:
    command = [str(GRPC_PYTHON), DRIVER, verb, cluster["grpc"], topic, f"g-{topic}", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    with ended(process):
        out, error = process.communicate(timeout=PATIENCE)
    assert '"done"' in out, error[-2000:]
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]
