"""Fixtures and hooks of all tests: Java's store folders, markers, order, figures below the results."""

from __future__ import annotations

import atexit
import gc
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.markers import mark
from tests.seeds import times
from tests.support import JavaStore, unpack
from tests.workers import ByGroup, place

FIGURE = "figure"

# A process that a shell starts in the background ignores SIGINT, and the commands under test would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# An example that is slow on a busy machine is not wrong.
settings.register_profile(
    "no deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=times(25)
)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def store_clean(tmp_path_factory: pytest.TempPathFactory) -> JavaStore:
    """The folder of a broker that was stopped cleanly. All tests share it: read only."""
    return unpack("store-clean", tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="session")
def store_killed(tmp_path_factory: pytest.TempPathFactory) -> JavaStore:
    """The folder of a broker that was killed. All tests share it: read only."""
    return unpack("store-killed", tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="session")
def store_five(tmp_path_factory: pytest.TempPathFactory) -> JavaStore:
    """The folder of a 5.3.3 broker that was stopped cleanly. All tests share it: read only."""
    return unpack("store-five", tmp_path_factory.mktemp("java"))


@pytest.fixture(params=["store_clean", "store_killed"])
def java_store(request: pytest.FixtureRequest) -> JavaStore:
    """Each of the two folders in turn: read only."""
    store: JavaStore = request.getfixturevalue(request.param)
    return store


@pytest.fixture
def copy_java_store(tmp_path: Path) -> Callable[[str], JavaStore]:
    """Unpacks `store-clean`, `store-killed` or `store-five` into the test's own folder, where it may write."""
    return lambda name: unpack(name, tmp_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark(items, is_whole=_is_whole(config))
    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected lives as long as the run: the garbage collector need not visit it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # The binding of DuckDB reports what is left when the interpreter exits, as if it were lost. Earlier, pytest
        # would go through all of it several times.
        atexit.register(gc.unfreeze)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup:
    return ByGroup(config, log)


def _is_whole(config: pytest.Config) -> bool:
    """Return True if all tests run."""
    return bool(config.args == config.getini("testpaths") and not config.getoption("ignore", None))


@pytest.fixture
def show(
    record_property: Callable[[str, object], None], request: pytest.FixtureRequest
) -> Callable[[str], None]:
    """Prints a figure below the test results."""
    return lambda figure: record_property(FIGURE, f"{request.node.name}: {figure}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, figure in report.user_properties:
            if name == FIGURE:
                terminalreporter.write_line(str(figure))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--crash-rounds",
        type=int,
        default=times(10),
        help="number of times that the crash tests kill a loaded broker; a fifth as many power cuts of a real ext4",
    )
    parser.addoption(
        "--frames",
        type=int,
        default=10_000,
        help="number of mutated frames that are sent to a broker",
    )
    parser.addoption(
        "--cuts",
        type=int,
        default=times(60),
        help="number of power cuts and kills of a broker on a simulated disk",
    )
    parser.addoption(
        "--errors-step",
        type=int,
        default=120,
        help="every how many calls of a session to the disk one is refused, with each error",
    )
