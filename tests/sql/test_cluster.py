"""Queries over the topics of a running cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NoReturn

import pytest
import trio

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.client import ConnectionFailed, NoRoute
from rmqcli.export.from_topic import batches
from rmqcli.sql import cluster as module
from rmqcli.sql.cluster import ClusterTopics
from rmqcli.sql.engine import Session
from rmqcli.sql.portal import Cancelled
from rmqcli.sql.stores import bounds_of
from tests.cli.conftest import Run
from tests.sql.conftest import MEMORY, Ask, ask_of
from tests.support import PATIENCE


def options(namesrv: str) -> dict[str, object]:
    return {"namesrv": namesrv, "timeout": PATIENCE, "namespace": ""}


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> Iterator[ClusterTopics]:
    with ClusterTopics(options(cluster.namesrv)) as found:
        yield found


@pytest.fixture
def ask(topics: ClusterTopics) -> Iterator[Ask]:
    topics.__dict__.pop("names", None)  # each test creates topics
    with Session(topics, MEMORY) as session:
        yield ask_of(session)


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the messages of each batch that is pulled."""
    counts: list[int] = []
    to_batch = batches.to_batch

    def counting(messages: list[object]) -> object:
        counts.append(len(messages))
        return to_batch(messages)  # type: ignore[arg-type]

    monkeypatch.setattr(batches, "to_batch", counting)
    return counts


def fill(rmq: Run, topic: str, tag: str = "paid") -> None:
    lines = "".join(f"order {number}\n" for number in range(40)).encode()
    assert rmq("send", topic, "--tag", tag, "-k", "k", stdin=lines).code == 0


def test_a_topic(rmq: Run, topic: str, ask: Ask, pulled: list[int]) -> None:
    fill(rmq, topic)
    assert ask(f"select tags, keys, count(*) from {topic} group by all") == [("paid", ["k"], 40)]
    assert ask(f"select broker_name, body from {topic} where body = 'order 7'") == [("broker-a", "order 7")]
    del pulled[:]
    rows = ask(f"select queue_id, queue_offset from {topic} where queue_id = 2 and queue_offset >= 7")
    assert sorted(rows) == [(2, 7), (2, 8), (2, 9)]
    assert sum(pulled) == 3, "only what the conditions leave is pulled"
    assert ask(f"select count(*) from {topic} where store_time > now() - interval 1 hour") == [(40,)]
    del pulled[:]
    assert ask(f"select count(*) from {topic} where store_time < '2020-01-01'") == [(0,)]
    assert sum(pulled) == 0


def test_a_topic_in_many_batches(
    rmq: Run, topic: str, ask: Ask, pulled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(rmq, topic)
    monkeypatch.setattr(module, "BATCH_MESSAGES", 4)
    monkeypatch.setattr(module, "QUEUES_AT_ONCE", 3)
    assert ask(f"select count(*), count(distinct msg_id) from {topic}") == [(40, 40)]
    assert max(pulled) < 40


def test_topics_together(rmq: Run, topic: str, ask: Ask, pulled: list[int]) -> None:
    other = f"{topic}_2"
    assert rmq("topic", "create", other, "--queues", "1").code == 0
    fill(rmq, topic)
    fill(rmq, other, "open")
    names = f"('{topic}', '{other}', 'nowhere')"
    statement = (
        f"select topic, tags, count(*) from rmq.messages where topic in {names} group by all order by 1"
    )
    assert ask(statement) == [(topic, "paid", 40), (other, "open", 40)]
    assert sum(pulled) == 80
    tables = [name for (name,) in ask("show tables")]
    assert {topic, other} < set(tables)
    assert not {"broker-a", "DefaultCluster", "TBW102", "SCHEDULE_TOPIC_XXXX"} & set(tables)
    assert ask("select count(*) >= 0 from TBW102") == [(True,)], "reachable"


def test_retries_and_dead_letters(rmq: Run, topic: str, ask: Ask) -> None:
    assert rmq("send", topic, "lost").code == 0
    group = f"G_{topic}"
    assert rmq(
        "consume", topic, "-g", group, "--from", "start", "-c", "1", "--retries", "0", "--exec", "exit 1"
    ).code
    assert ask(f'select body from "%DLQ%{group}"') == [("lost",)]
    assert ask(f'select count(*) from "%RETRY%{group}"') == [(0,)]


def test_a_topic_that_is_gone_meanwhile(topics: ClusterTopics) -> None:
    gone = bounds_of(None, ["nowhere"])
    assert gone is not None
    with pytest.raises(NoRoute):
        list(topics.scan(gone, lambda: None))
    assert not topics.has("nowhere")


def test_a_server_that_does_not_respond() -> None:
    with ClusterTopics(options("127.0.0.1:1")) as found, pytest.raises(ConnectionFailed):
        found.names  # noqa: B018


def test_a_call_can_be_cancelled(topics: ClusterTopics) -> None:
    entered = threading.Event()

    async def wait(consumer: object) -> NoReturn:
        entered.set()
        await trio.sleep_forever()

    def cancel() -> None:
        entered.wait(PATIENCE)
        topics.cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(Cancelled):
        topics._portal.call(wait)
