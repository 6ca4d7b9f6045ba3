"""`--where`: conditions over properties, with brokers that filter and one that does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from trio.testing import MockClock

from rmqcli import broker
from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.broker.testing.in_memory import LOST, Lost
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import Admin, PullConsumer
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.flows.errors import InvalidInput
from rmqcli.flows.sql_reading import filtered
from tests.cli.conftest import Run

GROUP: dict[str, tuple[str, ...]] = {"pull": (), "tail": (), "consume": ("-g", "readers")}


@pytest.fixture(scope="module")
def filtering() -> Iterator[Cluster]:
    with embedded_in_thread(enable_property_filter=True) as running:
        yield running


@pytest.fixture
def sql(rmq: Run, filtering: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    """As `rmq`, against a broker that filters by properties."""
    monkeypatch.setenv("RMQ_NAMESRV", filtering.namesrv)
    return rmq


@pytest.fixture
def orders(sql: Run, request: pytest.FixtureRequest) -> str:
    """Eight messages with prices 0 to 7, in one topic."""
    name = "orders_" + "".join(one if one.isalnum() else "_" for one in request.node.name)
    assert sql("topic", "create", name, "--queues", "2").code == 0
    for price in range(8):
        assert sql("send", name, f"m{price}", "-q", str(price % 2), "-p", f"price={price}").code == 0
    return name


def bodies(run: Run, *arguments: str) -> list[str]:
    result = run(*arguments, "-f", r"%v\n")
    assert result.code == 0, result.err
    return result.out.decode().splitlines()


def test_pull_gives_what_meets_the_condition(sql: Run, orders: str) -> None:
    assert bodies(sql, "pull", orders, "--where", "price BETWEEN 2 AND 4 OR price = 7") == [
        "m2",
        "m3",
        "m4",
        "m7",
    ]
    assert bodies(sql, "pull", orders, "--where", "price > 2", "-c", "2") == ["m3", "m4"]
    assert bodies(sql, "pull", orders, "--where", "nothing = 2") == []


def test_tail_begins_and_goes_on_with_what_meets_the_condition(sql: Run, orders: str) -> None:
    shown = bodies(sql, "tail", orders, "--where", "price >= 3", "--last", "4", "--idle", "0.2")
    assert shown == ["m4", "m5", "m6", "m7"]


@pytest.mark.parametrize("command", ["pull", "tail", "consume"])
def test_a_condition_that_cannot_be_read_is_an_error(sql: Run, orders: str, command: str) -> None:
    result = sql(command, orders, *GROUP[command], "--where", "price >")
    assert (result.code, result.out) == (ExitCode.USAGE, b"")
    assert result.err.startswith("rmq: --where: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("command", ["pull", "tail", "consume"])
def test_tag_and_sql_exclude_each_other(sql: Run, command: str) -> None:
    result = sql(command, "any", *GROUP[command], "--tag", "A", "--where", "a = 1")
    assert result.code == ExitCode.USAGE
    assert "--tag and --where cannot be combined" in result.err


def test_a_broker_that_filters_by_tags_only_is_named_with_the_remedy(rmq: Run, topic: str) -> None:
    """A group cannot leave to its members what it consumes."""
    result = rmq("consume", topic, *GROUP["consume"], "--where", "a = 1")
    assert (result.code, result.out) == (ExitCode.NOT_PERMITTED, b"")
    expected = "rmq: broker-a filters by tags only: set enablePropertyFilter=true in its broker.conf\n"
    assert result.err == expected


async def test_a_silent_broker_checks_the_condition_before_its_first_pull(autojump_clock: MockClock) -> None:
    """It does not reply to the first check, refuses the second, and accepts the third."""
    asked: Counter[int] = Counter()

    async def on_request(_: str, request: RemotingCommand) -> RemotingCommand | Lost | None:
        asked[request.code] += 1
        if request.code != RequestCode.CHECK_CLIENT_CONFIG or asked[request.code] > 2:
            return None
        refused = request.reply(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "no end")
        return LOST if asked[request.code] == 1 else refused

    async with (
        broker.embedded_in_memory(on_request=on_request, enable_property_filter=True) as cluster,
        Admin(**cluster.client()) as admin,
        PullConsumer(**cluster.client()) as consumer,
    ):
        await admin.topics.create("orders", read_queues=1, write_queues=1)
        (queue,) = await consumer.message_queues("orders")
        reader, expression, lost = await filtered(consumer, [queue], "*", "price > 1")
        assert list(lost) == [queue]
        with pytest.raises(InvalidInput, match="--where: no end"):
            await reader.pull(queue, 0, expression=expression)
        assert asked[RequestCode.PULL_MESSAGE] == 0
        for _ in range(2):
            await reader.pull(queue, 0, expression=expression)
        assert (asked[RequestCode.PULL_MESSAGE], asked[RequestCode.CHECK_CLIENT_CONFIG]) == (2, 3)
