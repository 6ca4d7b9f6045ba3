"""Locks of queues and subscriptions live as long as their clients."""

from __future__ import annotations

import pytest

from broker.tables import ClientChannel, ConsumerTable, LockTable
from codec.bodies.heartbeat import ConsumerData
from codec.message_queue import MessageQueue
from tests.broker.support import FakeSession, subscription

QUEUE = MessageQueue("T", "broker-a", 0)


@pytest.mark.parametrize(("age_ms", "taken"), [(60_000, []), (60_001, [QUEUE])])
def test_a_lock_that_is_older_than_60_s_is_free(age_ms: int, taken: list[MessageQueue]) -> None:
    locks = LockTable()
    assert locks.lock("G", "first", [QUEUE], 0) == [QUEUE]
    assert locks.lock("G", "first", [QUEUE], 1000) == [QUEUE], "renewed"
    assert locks.lock("G", "second", [QUEUE], 1000 + age_ms) == taken
    assert locks.lock("H", "second", [QUEUE], 1000) == [QUEUE], "another group"


@pytest.mark.parametrize(("version", "tags"), [(1, "old"), (2, "old"), (3, "new")])
def test_a_subscription_is_replaced_by_a_greater_version_only(version: int, tags: str) -> None:
    table, session = ConsumerTable(), FakeSession()
    for text, number in (("old", 2), ("new", version)):
        data = ConsumerData(group_name="G", subscription_data_set=[subscription("T", text, number)])
        table.register(data, ClientChannel(session, "client", 0, 409, 0))
    group = table.get("G")
    assert group is not None and group.subscriptions["T"].sub_string == tags
