"""Command lines against two brokers, and against two of which one cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run, patient
from tests.cli.servers.clusters import UNREACHABLE, Pair, in_thread, open_pair
from tests.cli.servers.scripted import Peers, open_peers


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """broker-a and broker-b."""
    with in_thread(lambda: open_pair(tmp_path_factory.mktemp("pair"), {})) as found:
        yield found


@pytest.fixture(scope="session")
def lame(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """broker-a, and broker-b that cannot be reached."""
    with in_thread(lambda: open_pair(tmp_path_factory.mktemp("lame"), UNREACHABLE)) as found:
        yield found


@pytest.fixture
def both(cli: Run, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line with the name servers of `pair`."""
    monkeypatch.setenv("RMQ_NAMESRV", pair.namesrv)
    return patient(cli)


@pytest.fixture
def half(cli: Run, lame: Pair, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line with the name servers of `lame`."""
    monkeypatch.setenv("RMQ_NAMESRV", lame.namesrv)
    return patient(cli)


@pytest.fixture(scope="session")
def scripted() -> Iterator[Peers]:
    """Scripted brokers."""
    with in_thread(open_peers) as found:
        yield found


@pytest.fixture
def peers(scripted: Peers, monkeypatch: pytest.MonkeyPatch) -> Peers:
    """Scripted brokers without answers, whose name server is in the environment."""
    monkeypatch.setenv("RMQ_NAMESRV", scripted.namesrv)
    scripted.clear()
    return scripted
