"""`rmq broker ping`."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rmqcli.client import BrokerBusy, RequestTimeout
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.plans.brokers import Ping, own_queues, ping
from tests.cli.conftest import Run


def stored(rmq: Run, topic: str) -> int:
    return sum(int(row[4]) for row in rmq("topic", "stats", topic).lines)


def test_every_master_is_asked(both: Run) -> None:
    before = stored(both, "broker-b")
    found = both("broker", "ping", "-c", "4", "--size", "300")
    assert [row[:3] for row in found.lines] == [["broker-a", "4", "0"], ["broker-b", "4", "0"]]
    for row in found.lines:
        times = [float(text) for text in row[3:]]
        assert len(times) == 5 and times == sorted(times) and times[0] > 0
    assert stored(both, "broker-b") == before + 5
    (one,) = both("broker", "ping", "-b", "broker-a", "-c", "1", "--json").json
    assert list(one) == ["brokerName", "sent", "failed", "min", "p50", "p90", "p99", "max"]
    assert both("pull", "broker-b", "-o", "-1", "-f", r"%v", "--raw").out == bytes(300)


def test_a_topic_of_choice(both: Run) -> None:
    both("topic", "create", "pinged", "-b", "broker-a", "--queues", "3")
    found = both("broker", "ping", "-T", "pinged", "-c", "5")
    assert [row[0] for row in found.lines] == ["broker-a"]
    assert [row[4] for row in both("topic", "stats", "pinged").lines] == ["2", "2", "2"]
    assert both("broker", "ping", "-T", "no_such_topic").code == 4
    both("topic", "delete", "pinged", "--yes")


def test_a_broker_that_does_not_answer_is_named(half: Run) -> None:
    found = half("broker", "ping", "-c", "2")
    assert (found.code, [row[:3] for row in found.lines]) == (
        3,
        [["broker-a", "2", "0"], ["broker-b", "0", "1"]],
    )
    assert found.err.startswith("rmq: broker-b: cannot connect to 127.0.0.2:")
    assert half("broker", "ping", "-b", "broker-b").code == 5
    assert half("broker", "ping", "-c", "2", "--json").json[1]["p50"] is None


def test_a_broker_that_refuses_is_named(both: Run) -> None:
    limit = ("broker", "config", "set", "-b", "broker-b", "--yes")
    both(*limit, "maxMessageSize=100")
    result = both("broker", "ping", "-c", "2")
    both(*limit, "maxMessageSize=4194304")
    assert (result.code, [row[:3] for row in result.lines]) == (
        3,
        [["broker-a", "2", "0"], ["broker-b", "0", "3"]],
    )
    assert result.err.startswith("rmq: broker-b: ") and "MESSAGE_ILLEGAL" in result.err


class Scripted:
    """A producer whose sends take 1, 2, 3 … ms and fail as given."""

    def __init__(self, failures: dict[int, Exception]) -> None:
        self.sent: list[int] = []
        self.failures = failures

    async def send(self, message: Message, *, queue: MessageQueue) -> None:
        number = len(self.sent)
        self.sent.append(queue.queue_id)
        await trio.sleep(number / 1000)
        if number in self.failures:
            raise self.failures[number]


async def pinged(producer: Scripted, count: int) -> Ping:
    return (await ping(producer, own_queues(["b"]), count=count, size=1, interval=1.0))["b"]  # type: ignore[arg-type]


async def test_percentiles(autojump_clock: trio.testing.MockClock) -> None:
    found = await pinged(Scripted({}), 100)
    assert [round(found.percentile(part) or 0) for part in (0, 0.5, 0.9, 0.99, 1)] == [1, 50, 90, 99, 100]
    assert 100 < trio.current_time() < 110
    assert Ping((), 1, None).percentile(0.5) is None


async def test_refusals_are_counted_and_silence_ends_it(autojump_clock: trio.testing.MockClock) -> None:
    busy = BrokerBusy(2, "busy", "b:1", "SEND_MESSAGE_V2")
    found = await pinged(Scripted({2: busy, 3: busy}), 5)
    assert (len(found.times), found.failed, found.error) == (3, 2, busy)
    producer = Scripted({2: RequestTimeout("b:1", "SEND_MESSAGE_V2", 3.0)})
    assert ((await pinged(producer, 5)).failed, producer.sent) == (1, [0, 0, 0])


@pytest.mark.parametrize("words", [("-c", "0"), ("--size", "0"), ("--interval", "-1")])
def test_what_is_refused(both: Run, words: tuple[str, ...]) -> None:
    assert both("broker", "ping", *words).code == 2
