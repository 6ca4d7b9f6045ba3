"""Fixtures of the proof: a cluster in processes, and an orderly group that loses a member."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.foreign.install import CPP1_CTYPES, install_cpp1, install_node
from tests.proof.group import Feed, Group, Server, rmq
from tests.proof.journal import wait_for_work

ORDERLY_QUEUES = 6
ORDERLY_MORE = 200
"""Messages of each queue after the kill."""


@pytest.fixture(scope="session")
def installed() -> None:
    if os.environ.get("RMQ_OFFLINE") == "1":
        pytest.skip("RMQ_OFFLINE=1: no package registry can be reached")
    install_node()
    install_cpp1()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("store")).running() as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A cluster of the test's own, which it may kill."""
    with Server(tmp_path / "store").running() as server:
        yield server


class Ordered(NamedTuple):
    group: Group
    senders: list[Feed]


@pytest.fixture(scope="session", autouse=True)
def ordered(installed: None, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ordered]:
    """Two rmq members and a C++ member that is killed while it works; one sender feeds each queue.

    The group runs in the background of all tests here: a broker keeps the locks of a dead member for 60 s.
    """
    folder = tmp_path_factory.mktemp("orderly")
    rmq(server.namesrv, "topic", "create", "ordered", "--queues", str(ORDERLY_QUEUES))
    with Group(server, "ordered", folder / "group") as group:
        group.join_orderly("rmq-1")
        group.join_orderly("rmq-2")
        group.join_foreign(CPP1_CTYPES, "orderly")
        group.wait_joined()
        senders = [
            Feed(server, "ordered", str(queue), 40, "--queue", str(queue)) for queue in range(ORDERLY_QUEUES)
        ]
        try:
            wait_for_work(group.journal, list(group.members), 20)
            group.kill(CPP1_CTYPES.name)
            for sender in senders:
                sender.finish(ORDERLY_MORE)
            yield Ordered(group, senders)
        finally:
            for sender in senders:
                sender.kill()
