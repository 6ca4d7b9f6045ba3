"""`rmq topic entries` and `rmq topic allocate`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqcli.codec.allocation import STRATEGIES
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.bodies.stats import ConsumeQueueData
from rmqcli.codec.core.hashing import java_string_hash
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.flows import queue_entries
from rmqcli.flows.queue_entries import accepted
from rmqcli.plans.allocation import OF_ROOMS, Given, chosen, owners
from tests.cli.conftest import Run
from tests.cli.members import member
from tests.cli.servers.clusters import Pair
from tests.cli.waiting import until

NAME = "entered"


@pytest.fixture
def filled(both: Run) -> Iterator[str]:
    """Two queues on each broker; twelve messages in queue 0 of broker-a."""
    both("topic", "create", NAME, "--queues", "2")
    lines = "".join(f"{number}\n" for number in range(12)).encode()
    assert both("send", NAME, "-b", "broker-a", "-q", "0", "-t", "paid", stdin=lines).code == 0
    both("send", NAME, "x", "-b", "broker-b", "-q", "1")
    yield NAME
    both("topic", "delete", NAME, "--yes")


def test_entries_lead_to_messages(both: Run, filled: str) -> None:
    rows = both("topic", "entries", filled).lines
    assert [row[:3] for row in rows] == [
        *(["broker-a", "0", str(offset)] for offset in range(2, 12)),
        ["broker-b", "1", "0"],
    ]
    assert {row[5] for row in rows[:-1]} == {str(java_string_hash("paid"))}
    positions = [int(row[3]) for row in rows[:-1]]
    assert positions == sorted(positions) and all(int(row[4]) > 90 for row in rows)
    (message,) = both("pull", filled, "-b", "broker-a", "-q", "0", "-o", "5:6", "--json").json_lines
    (entry,) = both("topic", "entries", filled, "-b", "broker-a", "-q", "0", "-o", "5:6", "--json").json
    assert (entry["commitLogOffset"], entry["size"]) == (message["commitLogOffset"], message["storeSize"])


def test_many_entries_are_asked_for_in_parts(both: Run, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_entries, "AT_ONCE", 5)
    rows = both("topic", "entries", filled, "-o", "start", "-q", "0").lines
    assert [int(row[2]) for row in rows] == list(range(12))
    assert len(both("topic", "entries", filled, "-o", "start", "-c", "7").lines) == 7
    assert both("topic", "entries", filled, "-o", "end").out == b""


def test_what_a_group_accepts(both: Run, filled: str, pair: Pair) -> None:
    last = ("topic", "entries", filled, "-q", "0", "-o", "-1", "-g")
    unknown = both(*last, "nobody")
    assert [row[7] for row in unknown.lines] == [""]
    assert unknown.err.startswith("rmq: what nobody accepts is not known: it is not running")
    with member(pair, "takers", filled):
        until(both, lambda result: [row[7] for row in result.lines] == ["true"], *last, "takers")


def test_tags_are_judged_by_their_codes() -> None:
    paid = ConsumeQueueData(tags_code=java_string_hash("paid"))
    extended = ConsumeQueueData(tags_code=-1, extend_data_json="{}", eval=True)
    sub = SubscriptionData(sub_string="sent", code_set=[java_string_hash("sent")])
    every = SubscriptionData(sub_string="*")
    sql = SubscriptionData(sub_string="a = 1", expression_type="SQL92")
    both = SubscriptionData(sub_string="x", code_set=[java_string_hash("paid"), 5])
    assert [accepted(one, paid) for one in (None, sub, every, sql, both)] == [None, False, True, None, True]
    assert [accepted(one, extended) for one in (None, sub, sql)] == [None, True, True]


@pytest.mark.parametrize(
    ("words", "code"), [((NAME, "-q", "9"), 4), (("no_such_topic",), 4), ((NAME, "-o", "x"), 2)]
)
def test_what_is_not_there(both: Run, filled: str, words: tuple[str, ...], code: int) -> None:
    result = both("topic", "entries", *words)
    assert (result.code, result.out) == (code, b"")


def test_who_would_get_which_queue(both: Run, filled: str) -> None:
    result = both("topic", "allocate", filled, "c", "a", "b")
    assert [row[:4] for row in result.lines] == [
        ["broker-a", "0", "a", "a"],
        ["broker-a", "1", "a", "b"],
        ["broker-b", "0", "b", "c"],
        ["broker-b", "1", "c", "a"],
    ]
    one = both("topic", "allocate", filled, "a", "--strategy", "AVG", "--json")
    assert one.json[0] == {"brokerName": "broker-a", "queueId": 0, "avg": "a"}
    assert list(both("topic", "allocate", filled, "a", "--json").json[0])[2:] == [
        "avg",
        "avgByCircle",
        "consistentHash",
    ]
    many = both("topic", "allocate", filled, *"abcdef", "--strategy", "AVG")
    assert many.err == "AVG: no queue for e, f\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "no clients: name them, or a running group with --group"),
        (("a", "--strategy", "BEST"), 2, "--strategy BEST: expected AVG, AVG_BY_CIRCLE, CONSISTENT_HASH"),
        (("a", "--strategy", "CONFIG"), 2, "--strategy CONFIG needs --fixed"),
        (("a", "--fixed", "a=b"), 2, "'a=b': expected CLIENT=BROKER:QUEUE"),
        (("a", "--fixed", "a=b:x"), 2, "'a=b:x': expected CLIENT=BROKER:QUEUE"),
        (("a", "--room-of", "east"), 2, "'east': expected NAME=ROOM"),
        (("a", "--room-of", "a=east"), 2, "no room of broker-a: add --room-of broker-a=ROOM"),
        (("-g", "nobody_here"), 4, "no broker knows group nobody_here"),
    ],
)
def test_what_is_refused(both: Run, filled: str, words: tuple[str, ...], code: int, text: str) -> None:
    result = both("topic", "allocate", filled, *words)
    assert (result.code, result.out, text in result.err) == (code, b"", True), result.err


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_queue_has_one_owner(strategy: str) -> None:
    queues = [MessageQueue("T", name, number) for name in ("b", "a") for number in range(5)]
    found = owners(STRATEGIES[strategy], queues, ["z", "y", "z"])
    assert set(found) == set(queues)
    assert all(len(clients) == 1 and {"y", "z"} >= set(clients) for clients in found.values())


def test_strategies_that_are_told_rooms_and_queues() -> None:
    given = Given(
        rooms=["east"],
        room_of=["east@*=east", "west@*=west", "e*=east", "w*=west"],
        fixed=["e1=east@b:0,1", "w1=east@b:1"],
    )
    queues = [MessageQueue("T", name, number) for name in ("east@b", "west@b") for number in range(2)]
    found = {
        name: [" ".join(owners(allocate, queues, ["e1", "e2", "w1"]).get(queue, ())) for queue in queues]
        for name, allocate in chosen(list(OF_ROOMS), given).items()
    }
    assert found == {
        "MACHINE_ROOM": ["e1", "e2", "", ""],
        "MACHINE_ROOM_NEARBY": ["e1", "e2", "w1", "w1"],
        "CONFIG": ["e1", "e1 w1", "", ""],
    }
    assert list(chosen((), Given())) == list(STRATEGIES)


def test_a_broker_that_does_not_answer_is_named(half: Run) -> None:
    assert half("send", "DefaultCluster", "x", "-b", "broker-a").code == 0
    result = half("topic", "entries", "DefaultCluster", "-o", "-1")
    assert (result.code, {row[0] for row in result.lines}) == (3, {"broker-a"})
    assert result.err.count("rmq: broker-b: cannot connect to 127.0.0.2:") == 1
