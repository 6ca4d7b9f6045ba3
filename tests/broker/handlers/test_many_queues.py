"""Requests that look at many queues while pages of their records are not in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
import trio
import trio.testing

from rmqcli.broker.errors import NotReady
from rmqcli.broker.net.handling import LONG_TABLE
from rmqcli.broker.net.turns import TURN_SECONDS, Pace
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.operations.topics import GET_ALL_TOPIC_CONFIG
from tests.broker.support import Client, fake_broker

TOPIC, GROUP, QUEUES = "Many", "G", 20
MANY = 40


async def _loaded() -> None:
    await trio.lowlevel.checkpoint()


def cold_once(lookup: Callable[[str, int, int], int], calls: Counter[int]) -> Callable[[str, int, int], int]:
    """The look-up of a store time, for which the disk is needed once a queue."""

    def store_time(topic: str, queue_id: int, offset: int) -> int:
        calls[queue_id] += 1
        if calls[queue_id] == 1:
            raise NotReady(_loaded)
        return lookup(topic, queue_id, offset)

    return store_time


async def _create(client: Client) -> None:
    header = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": QUEUES, "writeQueueNums": QUEUES}
    await client.ask(17, {name: str(value) for name, value in header.items()} | {"perm": "6"})


async def _fill(client: Client) -> None:
    for queue_id in range(QUEUES):
        await client.send(TOPIC, b"x", queue_id=queue_id)
        fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id), "commitOffset": "1"}
        await client.ask(15, fields)
    await client.heartbeat(GROUP, TOPIC)


OF_ALL_QUEUES: list[tuple[int, dict[str, str]]] = [
    (202, {"topic": TOPIC}),
    (208, {"consumerGroup": GROUP}),
    (303, {"topic": TOPIC, "group": GROUP}),
    (317, {"isOrder": "false"}),
]
RESET = 222, {"topic": TOPIC, "group": GROUP, "timestamp": "-1", "isForce": "true"}
REQUESTS = pytest.mark.parametrize(("code", "fields"), OF_ALL_QUEUES)


@REQUESTS
async def test_a_queue_is_not_looked_at_again_for_the_sake_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fields: dict[str, str]
) -> None:
    calls: Counter[int] = Counter()
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await _create(client)
        await _fill(client)
        await client.ask(200, None, b'{"groupName":"G"}')
        store = broker.context.store
        # Not the method of the search, which calls it too.
        search = Mock(wraps=store.search, store_time=cold_once(store.search.store_time, calls))
        monkeypatch.setattr(store, "search", search)
        assert (await client.ask(code, fields)).code == 0
    assert set(calls) == set(range(QUEUES))
    assert max(calls.values()) <= 3


@pytest.mark.parametrize(("code", "fields"), [*OF_ALL_QUEUES, RESET])
async def test_each_queue_that_takes_long_is_a_turn_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
    code: int,
    fields: dict[str, str],
) -> None:
    waits: list[int] = []

    async def next_turn() -> None:
        waits.append(1)

    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await _create(client)
        await _fill(client)
        await client.ask(200, None, b'{"groupName":"G"}')
        store = broker.context.store
        look_up = store.search.max_offset

        def slow(topic: str, queue_id: int) -> int:
            mock_clock.jump(TURN_SECONDS)
            return look_up(topic, queue_id)

        monkeypatch.setattr(store.search, "max_offset", slow)
        monkeypatch.setattr(client.session.turns, "next", next_turn)
        reply = await client.ask(code, fields)
    assert reply.code == 0
    assert len(waits) == QUEUES


async def test_consume_queue_entries_are_looked_up_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 of them at once took 16 ms."""
    waits: list[int] = []

    async def next_turn() -> None:
        waits.append(1)

    monkeypatch.setattr("rmqcli.broker.handlers.query.ENTRIES_PER_STEP", 3)
    monkeypatch.setattr("rmqcli.broker.net.turns.TURN_SECONDS", 0)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for _ in range(8):
            await client.send(TOPIC, b"x", queue_id=0)
        monkeypatch.setattr(client.session.turns, "next", next_turn)
        fields = {"topic": TOPIC, "queueId": "0", "index": "1", "count": "10"}
        reply = await client.ask(321, fields)
    found = msgspec.json.decode(reply.body)["queueData"]
    assert len(found) == len({entry["physicOffset"] for entry in found}) == 7
    assert len(waits) == 2


def _long_requests() -> dict[str, tuple[int, object]]:
    topic = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    subscriptions = [{"topic": f"T{n}", "subString": "*"} for n in range(MANY)]
    return {
        "topics": (18, {"topicConfigList": [{"topicName": f"T{n}", **topic} for n in range(MANY)]}),
        "groups": (225, {"groupConfigList": [{"groupName": f"G{n}"} for n in range(MANY)]}),
        "subscriptions": (
            34,
            {
                "clientID": "c",
                "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": subscriptions}],
                "producerDataSet": [],
            },
        ),
    }


@pytest.mark.parametrize("name", ["topics", "groups", "subscriptions"])
async def test_what_a_request_names_is_taken_in_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A body of 1 MiB took 149 ms for groups, 64 ms for subscriptions, 50 ms for topics."""
    waits: list[int] = []

    async def next_turn() -> None:
        waits.append(1)

    code, body = _long_requests()[name]
    monkeypatch.setattr("rmqcli.broker.tables.clients.SUBSCRIPTIONS_PER_STEP", 1)
    monkeypatch.setattr("rmqcli.broker.net.turns.TURN_SECONDS", 0)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        monkeypatch.setattr(client.session.turns, "next", next_turn)
        assert (await client.ask(code, None, msgspec.json.encode(body))).code == 0
        online = broker.context.consumers.get("G")
        made: dict[str, list[object]] = {
            "topics": [f"T{n}" in broker.context.topics for n in range(MANY)],
            "groups": [f"G{n}" in broker.context.groups for n in range(MANY)],
            "subscriptions": [] if online is None else [*online.subscriptions],
        }
    assert len(made[name]) == MANY
    assert all(made[name])
    assert len(waits) > MANY


async def test_a_long_table_is_encoded_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    """The same text, with a wait after each entry when each takes a turn."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for number in range(LONG_TABLE):
            broker.context.topics.ensure(f"topic-{number}", 4)
        expected = encode_body(broker.context.topics.wrapper(), dialect=GET_ALL_TOPIC_CONFIG.reply_dialect)
        waits: list[int] = []

        async def next_turn() -> None:
            waits.append(1)
            mock_clock.jump(TURN_SECONDS)

        monkeypatch.setattr(client.session.turns, "next", next_turn)
        monkeypatch.setattr(Pace, "is_over", True)
        monkeypatch.setattr("rmqcli.codec.fastjson_writer.PIECES_PER_STEP", 1)
        reply = await client.ask(21)
        assert reply.body == expected
        assert len(waits) >= len(broker.context.topics) > LONG_TABLE
