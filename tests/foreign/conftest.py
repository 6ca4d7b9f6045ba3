"""Fixtures for the clients of other projects.

A client that cannot be installed fails its tests; only `RMQ_OFFLINE=1` in the environment skips them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.install import ALL, Client, install_cpp1, install_frameworks, install_node
from tests.processes import running, up
from tests.support import PATIENCE, RMQ


@pytest.fixture(scope="session")
def online() -> None:
    if os.environ.get("RMQ_OFFLINE") == "1":
        pytest.skip("RMQ_OFFLINE=1: no package registry can be reached")


@pytest.fixture(scope="session")
def frameworks(online: None) -> Path:
    return install_frameworks()


@pytest.fixture(scope="session")
def installed(online: None) -> None:
    install_node()
    install_cpp1()


@pytest.fixture(params=ALL, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest, installed: None) -> Client:
    param: Client = request.param
    return param


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """`rmq up` in a process of its own. Every delay level is 1 s, so that a first retry comes soon."""
    store = tmp_path_factory.mktemp("store")
    with running(up(store, {"messageDelayLevel": " ".join(["1s"] * 18)})) as (process, words):
        yield words
        process.terminate()
        assert process.wait(PATIENCE) == 0


@pytest.fixture
def rmq(cluster: dict[str, str]) -> Any:
    def call(*args: str, stdin: str | None = None) -> list[str]:
        done = subprocess.run(
            [*RMQ, *args, "-n", cluster["namesrv"]],
            capture_output=True,
            text=True,
            input=stdin,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return call
