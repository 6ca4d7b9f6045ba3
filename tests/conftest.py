"""Fixtures for all tests: the store folders that a Java broker wrote."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.markers import mark
from tests.support import JavaStore, unpack
from tests.workers import ByGroup, place

FIGURE = "figure"

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every command that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes an example slow, not wrong
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def store_clean(tmp_path_factory: pytest.TempPathFactory) -> JavaStore:
    """The folder after a clean stop; shared by all tests, not to be written to."""
    return unpack("store-clean", tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="session")
def store_killed(tmp_path_factory: pytest.TempPathFactory) -> JavaStore:
    """The folder of a killed broker; shared by all tests, not to be written to."""
    return unpack("store-killed", tmp_path_factory.mktemp("java"))


@pytest.fixture(params=["store_clean", "store_killed"])
def java_store(request: pytest.FixtureRequest) -> JavaStore:
    """Each of the two folders in turn; not to be written to."""
    store: JavaStore = request.getfixturevalue(request.param)
    return store


@pytest.fixture
def copy_java_store(tmp_path: Path) -> Callable[[str], JavaStore]:
    """Unpacks `store-clean` or `store-killed` into the test's own folder, to be written to."""
    return lambda name: unpack(name, tmp_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_whole = config.args == config.getini("testpaths") and not config.getoption("ignore", None)
    mark(items, is_whole=is_whole)
    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup:
    return ByGroup(config, log)


@pytest.fixture
def show(
    record_property: Callable[[str, object], None], request: pytest.FixtureRequest
) -> Callable[[str], None]:
    """Says a figure below the test results."""
    return lambda figure: record_property(FIGURE, f"{request.node.name}: {figure}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, figure in report.user_properties:
            if name == FIGURE:
                terminalreporter.write_line(str(figure))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--crash-rounds", type=int, default=20, help="how often the loaded broker is killed")
