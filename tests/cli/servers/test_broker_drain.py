"""`rmq broker drain` and `undrain`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
import trio.testing

from rmqcli.codec.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqcli.plans import brokers
from rmqcli.plans.brokers import RATE_SECONDS, put_rate, wait_until_idle, writable_brokers
from tests.cli.conftest import Run
from tests.cli.servers.clusters import Pair

B = "broker-b"


@pytest.fixture
def orders(both: Run) -> Iterator[str]:
    """A topic on both brokers, and `alone` on broker-b only."""
    assert both("topic", "create", "orders", "--queues", "1").code == 0
    assert both("topic", "create", "alone", "-b", B, "--queues", "1").code == 0
    yield "orders"
    both("broker", "undrain", B)
    for name in ("orders", "alone"):
        both("topic", "delete", name, "--yes")


def permission(rmq: Run, names: str, topic: str) -> list[tuple[str, str]]:
    rows = rmq("-n", names, "topic", "route", topic).lines
    return [(row[1], row[6]) for row in rows]


def test_writing_ends_and_begins_on_all_name_servers(both: Run, pair: Pair, orders: str) -> None:
    dry = both("broker", "drain", B, "--dry-run", "--json")
    assert dry.json == {"broker": B, "nameServers": {}, "onlyWritable": ["alone"], "dryRun": True}
    asked = both("broker", "drain", B)
    assert asked.code == 2 and "use --yes" in asked.err
    for names in pair.names:
        assert permission(both, names, orders) == [("broker-a", "6"), (B, "6")]
    drained = both("broker", "drain", B, "--yes")
    assert drained.code == 0
    assert drained.err == "rmq: no other broker takes messages of alone: sends to them will fail\n"
    assert [row[0] for row in drained.lines] == list(pair.names)
    assert all(int(row[1]) > 2 for row in drained.lines)
    for names in pair.names:
        assert permission(both, names, orders) == [("broker-a", "6"), (B, "4")]
    back = both("broker", "undrain", B, "--json").json
    assert list(back["nameServers"]) == list(pair.names)
    for names in pair.names:
        assert permission(both, names, orders) == [("broker-a", "6"), (B, "6")]


def test_an_idle_broker_is_not_waited_for(both: Run, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "put_rate", lambda runtime: 0.0)
    found = both("broker", "drain", B, "--wait-idle", "--yes", "--json")
    assert (found.code, found.json["idle"]) == (0, True)


def test_a_broker_that_goes_on_storing(both: Run, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "put_rate", lambda runtime: 12.34)
    found = both("broker", "drain", B, "--wait-idle", "--limit", "0.1", "--yes", "--json")
    assert (found.code, found.json["idle"]) == (7, False)
    assert found.err.splitlines()[1:-1] == ["waiting: messages stored: 12.3/s"]
    assert found.error["message"] == "broker-b still stores messages after 0.1 s"


class Rates:
    """Answers one rate after another, as the brokers of an Admin."""

    def __init__(self, *rates: str) -> None:
        self.left = list(rates)
        self.brokers = self

    async def runtime_info(self, address: str) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        return {"putTps": self.left.pop(0)}


async def test_the_wait_ends_at_the_first_zero(autojump_clock: trio.testing.MockClock) -> None:
    told: list[float | None] = []
    admin = Rates("", "3.5 2 1", "0.0 2 1", "9")
    assert await wait_until_idle(admin, "b:1", told.append, None)  # type: ignore[arg-type]
    assert (told, admin.left, trio.current_time()) == ([None, 3.5], ["9"], 2.0)


async def test_the_wait_ends_without_a_rate(autojump_clock: trio.testing.MockClock) -> None:
    told: list[float | None] = []
    admin = Rates("", "3.5 2 1", *[""] * 200)
    assert await wait_until_idle(admin, "b:1", told.append, None) is None  # type: ignore[arg-type]
    assert trio.current_time() == 1 + RATE_SECONDS, "counted from the last rate"
    assert await wait_until_idle(admin, "b:1", told.append, 99.5) is False  # type: ignore[arg-type]
    assert trio.current_time() == 1 + RATE_SECONDS + 99.5, "a limit decides alone"


def test_rates_that_are_not_known() -> None:
    assert [put_rate({"putTps": text}) for text in ("", "null", "0.0", "1.5 0")] == [None, None, 0.0, 1.5]
    assert put_rate({}) is None


def test_who_takes_messages() -> None:
    brokers = [
        BrokerData(cluster="c", broker_name=name, broker_addrs={number: "x:1"})
        for name, number in (("a", 0), ("b", 0), ("slaves", 1), ("none", 0))
    ]
    queues = [
        QueueData(broker_name=name, read_queue_nums=4, write_queue_nums=count, perm=perm)
        for name, count, perm in (("a", 4, 6), ("b", 4, 4), ("slaves", 4, 6), ("none", 0, 6))
    ]
    assert writable_brokers(TopicRouteData(broker_datas=brokers, queue_datas=queues)) == {"a"}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("drain", "broker-z", "--yes"), 4, "no broker broker-z; known: broker-a, broker-b"),
        (("undrain", "broker-z"), 4, "no broker broker-z"),
        (("drain", B, "--limit", "3", "--yes"), 2, "--limit requires --wait-idle"),
        (("drain",), 2, "Missing argument 'BROKER'"),
    ],
)
def test_what_is_refused(both: Run, words: tuple[str, ...], code: int, text: str) -> None:
    result = both("broker", *words)
    assert (result.code, result.out, text in result.err) == (code, b"", True), result.err


def test_a_name_server_that_does_not_answer_is_named(both: Run, pair: Pair, orders: str) -> None:
    lost = f"{pair.names[0]};127.0.0.1:1"
    for words in (("drain", B, "--yes"), ("undrain", B)):
        result = both("-n", lost, "broker", *words)
        assert (result.code, [row[0] for row in result.lines]) == (3, [pair.names[0]])
        assert "rmq: 127.0.0.1:1: cannot connect to 127.0.0.1:1" in result.err
