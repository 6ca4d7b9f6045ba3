"""The clients for threads and for asyncio have the names, signatures and docstrings of the trio clients."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import rmqcli.client
from rmqcli.client import aio, sync
from rmqcli.client.admin.admin import _AREAS
from rmqcli.client.admin.area import Area

CLIENTS = (
    *("Admin", "LitePullConsumer", "Producer", "PullConsumer"),
    *("PushConsumer", "SimpleConsumer", "TransactionProducer"),
)
BOTH = pytest.mark.parametrize("facade", [aio, sync])
ONLY_TRIO = {
    "delivery",  # for the classes of the library itself
    "on_trace",  # called in trio's thread
    "pull_as",  # likewise
    "watch_queues",  # returns a channel of trio
    "zero_if_absent",
}
ADDED = {"open", "close"}
OWN = {"send_soon", "send_in_transaction"}  # other parameters or another place


def names(kind: type) -> set[str]:
    found = {
        name
        for base in kind.__mro__
        for name, value in vars(base).items()
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
    }
    return found - ONLY_TRIO


def areas(facade: ModuleType) -> list[tuple[Any, Any]]:
    ours, trios = facade.Admin(), rmqcli.client.Admin()
    return [(type(getattr(ours, name)), type(getattr(trios, name))) for name in _AREAS]


@BOTH
def test_the_clients(facade: ModuleType) -> None:
    assert facade.__all__ == sorted(CLIENTS)
    for name in CLIENTS:
        ours, trios = getattr(facade, name), getattr(rmqcli.client, name)
        assert names(ours) - ADDED == names(trios) and ours.__doc__ == trios.__doc__
        compare(ours, trios)


@BOTH
def test_the_areas_of_administration(facade: ModuleType) -> None:
    for ours, trios in areas(facade):
        assert names(ours) == names(trios) - names(Area)
        compare(ours, trios)


def compare(ours: type, trios: type) -> None:
    for name in (names(ours) & names(trios)) - OWN:
        mine, theirs = (inspect.getattr_static(kind, name) for kind in (ours, trios))
        assert mine.__doc__ == theirs.__doc__, name
        if not isinstance(mine, property):
            assert inspect.signature(mine) == inspect.signature(theirs), name


def test_asyncio_is_imported_only_with_its_clients() -> None:
    program = "import sys, rmqcli.client, rmqcli.client.sync; print('asyncio' in sys.modules)"
    program += "; from rmqcli.client import Producer; from rmqcli.client.sync import Producer, PushConsumer"
    program += "; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nFalse\n"
