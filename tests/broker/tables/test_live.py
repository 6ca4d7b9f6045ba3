"""Locks of queues and subscriptions live as long as their clients."""

from __future__ import annotations

import pytest

from rmqcli.broker.tables import ClientChannel, ConsumerTable, LockTable
from rmqcli.codec.bodies.heartbeat import ConsumerData
from rmqcli.codec.message_queue import MessageQueue
from tests.broker.support import FakeSession, subscription

QUEUE = MessageQueue("T", "broker-a", 0)


@pytest.mark.parametrize(("age_ms", "taken"), [(60_000, []), (60_001, [QUEUE])])
def test_a_lock_that_is_older_than_60_s_is_free(age_ms: int, taken: list[MessageQueue]) -> None:
    locks = LockTable()
    assert locks.lock("G", "first", [QUEUE], 0) == [QUEUE]
    assert locks.lock("G", "first", [QUEUE], 1000) == [QUEUE], "renewed"
    assert locks.lock("G", "second", [QUEUE], 1000 + age_ms) == taken
    assert locks.lock("H", "second", [QUEUE], 1000) == [QUEUE], "another group"


def test_locks_are_bounded_and_old_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.broker.tables.locks.MOST_LOCKS", 3)
    locks, queues = LockTable(), [MessageQueue("T", "b", number) for number in range(4)]
    assert locks.lock("G", "first", queues[:2], 0) == queues[:2]
    assert locks.lock("G", "first", queues, 50_000) == queues[:3]
    assert locks.lock("H", "second", queues, 50_000) == []
    assert (len(locks), locks.is_full) == (3, True)
    locks.unlock("G", "second", queues)
    assert locks.is_full
    locks.unlock("G", "first", queues[:1])
    assert locks.lock("H", "second", queues, 80_000) == queues[:1]
    for _ in locks.expire(110_001):
        pass
    assert len(locks) == 1
    assert locks.lock("H", "second", queues, 120_000) == queues[:3]
    locks.unlock("H", "second", queues)
    assert len(locks) == 0


def test_no_lock_has_a_long_name() -> None:
    locks, long = LockTable(), "x" * 2000
    assert locks.lock(long, "first", [QUEUE], 0) == []
    assert locks.lock("G", long, [QUEUE], 0) == []
    assert locks.lock("G", "first", [QUEUE, MessageQueue(long, "b", 0)], 0) == [QUEUE]


@pytest.mark.parametrize(("version", "tags"), [(1, "old"), (2, "old"), (3, "new")])
def test_a_subscription_is_replaced_by_a_greater_version_only(version: int, tags: str) -> None:
    table, session = ConsumerTable(), FakeSession()
    for text, number in (("old", 2), ("new", version)):
        data = ConsumerData(group_name="G", subscription_data_set=[subscription("T", text, number)])
        table.register(data, ClientChannel(session, "client", 0, 409, 0))
    group = table.get("G")
    assert group is not None and group.subscriptions["T"].sub_string == tags
