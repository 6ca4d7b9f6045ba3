"""Streams and writers outlast brokers and name servers that are away; what is gone is an error at once."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.broker.testing.embedded import Cluster as Embedded
from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.client import ConnectionFailed, NoRoute, NotFound, NotPermitted
from rmqcli.codec.codes import ResponseCode
from rmqcli.export.spark_source import outages
from rmqcli.export.spark_source.options import ReadOptions, read_options, write_options
from rmqcli.export.spark_source.outages import BrokerAway, Outage, reading, writing
from rmqcli.export.spark_source.rows import Columns, spark_schema
from rmqcli.export.spark_source.stream import StreamReader
from tests.export.spark_source.support import fill
from tests.support import PATIENCE

AWAY = ConnectionFailed("b:10911", "connection refused")
NO_ROUTE = NoRoute("orders", "n:9876")
TOPIC = "orders"


class Cluster:
    """The attempts of a read or write: each raises the next error, or returns; `registered` are the brokers."""

    def __init__(self, *errors: Exception, registered: tuple[str, ...] = ()) -> None:
        self.errors = list(errors)
        self.registered = set(registered)
        self.times: list[float] = []

    async def attempt(self, consumer: object = None) -> str:
        self.times.append(trio.current_time())
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    async def registered_brokers(self, client: object) -> set[str]:
        return self.registered


def run(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, call: Callable[[], Awaitable[str]]) -> str:
    monkeypatch.setattr(outages, "registered_brokers", cluster.registered_brokers)
    return trio.run(call, clock=trio.testing.MockClock(autojump_threshold=0))


def options(retries: int = 60) -> ReadOptions:
    given = {"namesrv": "127.0.0.1:1", "subscribe": "orders", "fetchOffset.numRetries": str(retries)}
    return read_options(given)


@pytest.mark.parametrize(
    ("errors", "brokers", "registered", "seconds"),
    [
        ([AWAY] * 50, ["b"], ("b",), 50),
        ([AWAY] * 3, [], (), 3),
        ([NO_ROUTE] * 40, ["a", "b"], ("a",), 40),
        ([NO_ROUTE] * 3, [], (), 3),
        ([BrokerAway({"b"})] * 30, ["b"], ("b",), 30),
    ],
)
def test_an_outage_is_outlasted(
    monkeypatch: pytest.MonkeyPatch,
    errors: list[Exception],
    brokers: list[str],
    registered: tuple[str, ...],
    seconds: float,
) -> None:
    cluster = Cluster(*errors, registered=registered)
    assert run(monkeypatch, cluster, lambda: reading(options(), cluster.attempt, brokers)) == "done"
    assert cluster.times[-1] - cluster.times[0] == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("errors", "brokers", "registered", "attempts", "reason"),
    [
        (
            [AWAY] * 99,
            ["b"],
            ("b",),
            6,
            "cannot connect to b:10911: connection refused; 5 more attempts in 5 s",
        ),
        ([AWAY] * 99, [], (), 4, "3 more attempts in 3 s did not help"),
        ([NO_ROUTE] * 99, ["a", "b"], ("a",), 6, "b is not registered with the name servers; 5 more"),
        ([NO_ROUTE] * 99, [], (), 4, "no broker is registered with the name servers; 3 more"),
    ],
)
def test_an_outage_that_lasts(
    monkeypatch: pytest.MonkeyPatch,
    errors: list[Exception],
    brokers: list[str],
    registered: tuple[str, ...],
    attempts: int,
    reason: str,
) -> None:
    cluster = Cluster(*errors, registered=registered)
    with pytest.raises(Outage, match=reason) as caught:
        run(monkeypatch, cluster, lambda: reading(options(5), cluster.attempt, brokers))
    assert "create it" not in str(caught.value)
    assert len(cluster.times) == attempts


@pytest.mark.parametrize(
    ("error", "brokers"),
    [
        (NO_ROUTE, ["a"]),
        (NO_ROUTE, []),
        (NotPermitted(ResponseCode.NO_PERMISSION, "no", "b:1", "PULL_MESSAGE"), ["a"]),
    ],
)
def test_what_is_gone_is_soon_an_error(
    monkeypatch: pytest.MonkeyPatch, error: NotFound, brokers: list[str]
) -> None:
    """A route is missing twice, the second time after its broker was seen registered."""
    cluster = Cluster(error, error, registered=("a",))
    with pytest.raises(type(error)):
        run(monkeypatch, cluster, lambda: reading(options(), cluster.attempt, brokers))
    assert len(cluster.times) <= 2
    assert cluster.times[-1] == cluster.times[0]


def test_a_write_outlasts_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(*[AWAY] * 20, NO_ROUTE)
    given = write_options({"namesrv": "127.0.0.1:1", "topic": "T"})
    assert run(monkeypatch, cluster, lambda: writing(given, cluster.attempt)) == "done"
    assert len(cluster.times) == 22


def stream(namesrv: str, **given: str) -> StreamReader:
    quick = {"fetchOffset.retryIntervalMs": "20", "fetchOffset.numRetries": "3000"}
    found = read_options({"namesrv": namesrv, "subscribe": TOPIC, **quick, **given})
    return StreamReader(found, Columns.wanted(spark_schema()))


class Restarting:
    """A cluster on a store folder, which is away until the first attempt to reach it has failed."""

    def __init__(self, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.missed, self.left = threading.Event(), threading.Event()
        monkeypatch.setattr(outages, "warn", lambda text: self.missed.set())
        self.settings: dict[str, Any] = {"store": store}

    def note(self, cluster: Embedded) -> None:
        self.settings["port"] = int(cluster.broker_address.rpartition(":")[2])
        self.settings["namesrv_port"] = int(cluster.namesrv.rpartition(":")[2])

    @contextmanager
    def away(self) -> Iterator[None]:
        self.missed.clear()
        self.left.clear()
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.missed.set()
            self.left.set()
            thread.join(PATIENCE)

    def _run(self) -> None:
        self.missed.wait(PATIENCE)
        with embedded_in_thread(**self.settings):
            self.left.wait(PATIENCE)


def test_a_stream_outlasts_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restarting = Restarting(tmp_path / "store", monkeypatch)
    with embedded_in_thread(store=tmp_path / "store") as cluster:
        restarting.note(cluster)
        fill(cluster.namesrv, TOPIC, [b"a", b"b"], queues=2)
        reader = stream(cluster.namesrv, startingOffsets="earliest")
        begin = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    with restarting.away():
        end = reader.latestOffset(begin, limit)
    assert end == {TOPIC: {"broker-a": {"0": 1, "1": 1}}}
    with restarting.away():
        partitions = reader.partitions(begin, end)
        rows = [batch.num_rows for partition in partitions for batch in reader.read(partition)]
    assert rows == [2]


def test_a_queue_whose_broker_is_away_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded_in_thread() as cluster:
        fill(cluster.namesrv, TOPIC, [b"a"], queues=1)
        reader = stream(cluster.namesrv, **{"fetchOffset.numRetries": "2"})
        before = {TOPIC: {"broker-a": {"0": 1}, "broker-b": {"0": 5}}}
        with pytest.raises(Outage, match="broker-b is not registered with the name servers; 2 more attempts"):
            reader.latestOffset(before, reader.getDefaultReadLimit())
        reader = stream(cluster.namesrv, **{"fetchOffset.numRetries": "2"})
        reader.prepareForTriggerAvailableNow()
        with pytest.raises(Outage, match="broker-b is not registered"):
            reader.latestOffset(before, reader.getDefaultReadLimit())
