"""Fixtures of the proof, and its figures at the end of the test run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.foreign.install import install_cpp1, install_node
from tests.proof.group import Server

FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for figure in config.stash.get(FIGURES, []):
        terminalreporter.write_line(figure)


@pytest.fixture
def show(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says a figure below the test results."""
    name = request.node.name
    return lambda figure: pytestconfig.stash[FIGURES].append(f"{name}: {figure}")


@pytest.fixture(scope="session")
def installed() -> None:
    if os.environ.get("RMQ_OFFLINE") == "1":
        pytest.skip("RMQ_OFFLINE=1: the registries are said to be out of reach")
    install_node()
    install_cpp1()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("store")).running() as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """One that may be killed."""
    with Server(tmp_path / "store").running() as server:
        yield server
