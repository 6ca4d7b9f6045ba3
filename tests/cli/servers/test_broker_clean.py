"""`rmq broker clean`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run
from tests.cli.servers.clusters import Pair

TEXTS = {
    "queues": "consume queues of deleted topics",
    "topics": "consume queues of topics without settings",
    "log": "expired files of the commit log",
}


@pytest.mark.parametrize("what", TEXTS)
def test_brokers_are_cleaned(both: Run, pair: Pair, what: str) -> None:
    dry = both("broker", "clean", what, "--dry-run")
    assert dry.lines == [[name, address] for name, address in pair.brokers.items()]
    assert both("broker", "clean", what).code == 2
    done = both("broker", "clean", what, "--yes", "-b", "broker-b", "--json")
    assert (done.code, done.json) == (0, {"brokers": ["broker-b"], "failures": {}})
    again = both("broker", "clean", what, "--yes")
    assert (again.out, again.err) == (b"", f"removed {TEXTS[what]} on broker-a, broker-b\n")


@pytest.mark.parametrize("what", TEXTS)
def test_a_broker_that_does_not_answer_is_named(half: Run, what: str) -> None:
    result = half("broker", "clean", what, "--yes")
    done, lost = result.err.splitlines()
    assert (result.code, done) == (3, f"removed {TEXTS[what]} on broker-a")
    assert lost.startswith("rmq: broker-b: cannot connect to 127.0.0.2:")
