"""Fixtures of the proof."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.foreign.install import CPP1_CTYPES, install_cpp1, install_node
from tests.proof.group import Group, Server, feed, rmq
from tests.proof.journal import wait_for_work

ORDERLY_QUEUES = 6
ORDERLY_COUNT = 300
"""In each queue."""


@pytest.fixture(scope="session")
def installed() -> None:
    if os.environ.get("RMQ_OFFLINE") == "1":
        pytest.skip("RMQ_OFFLINE=1: the registries are said to be out of reach")
    install_node()
    install_cpp1()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("store")).running() as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """One that may be killed."""
    with Server(tmp_path / "store").running() as server:
        yield server


class Ordered(NamedTuple):
    group: Group
    senders: list[subprocess.Popen[str]]


@pytest.fixture(scope="session", autouse=True)
def ordered(installed: None, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ordered]:
    """Two rmq members and one C++ member, which is killed at its work; each queue gets its numbers from one sender.

    It runs beside all tests of the proof: a broker keeps the locks of a dead member for 60 s.
    """
    folder = tmp_path_factory.mktemp("orderly")
    rmq(server.namesrv, "topic", "create", "ordered", "--queues", str(ORDERLY_QUEUES))
    with Group(server, "ordered", folder / "group") as group:
        group.join_orderly("rmq-1")
        group.join_orderly("rmq-2")
        group.join_foreign(CPP1_CTYPES, "orderly")
        group.wait_joined()
        senders = []
        for queue in range(ORDERLY_QUEUES):
            path = folder / str(queue)
            path.write_text("".join(f"{queue}-{n}\n" for n in range(ORDERLY_COUNT)))
            with path.open() as lines:
                senders.append(feed(server, "ordered", lines, 40, "--queue", str(queue)))
        wait_for_work(group.journal, list(group.members), 20)
        group.kill(CPP1_CTYPES.name)
        yield Ordered(group, senders)
        for sender in senders:
            sender.kill()
            sender.wait()
