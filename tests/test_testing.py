"""Assertions of `rmqcli.testing`."""

from __future__ import annotations

import threading

import pytest

from rmqcli import broker
from rmqcli.broker import Cluster
from rmqcli.client import ConsumeContext, Message, MessageExt, PushSettings
from rmqcli.client.errors import NotFound
from rmqcli.client.sync import Producer, PushConsumer
from rmqcli.testing import dead_letters, expect_message, lag
from tests.support import PATIENCE


def orders(cluster: Cluster, *bodies: bytes) -> None:
    with Producer(namesrv=cluster.namesrv) as producer:
        for body in bodies:
            producer.send(Message.of("orders", body, tags="paid"))


def test_an_expected_message_is_waited_for() -> None:
    with broker.embedded_in_thread() as cluster:
        later = threading.Timer(0.2, orders, (cluster, b"1", b"2", b"3"))
        later.start()
        assert expect_message(cluster, "orders", within=PATIENCE).topic == "orders"
        found = expect_message(cluster, "orders", lambda message: message.body == b"3", within=PATIENCE)
        assert found.tags == "paid"
        later.join()


def test_a_failure_shows_what_came_instead() -> None:
    with broker.embedded_in_thread() as cluster:
        with pytest.raises(AssertionError, match=r"topic orders got no message within 0\.1 s"):
            expect_message(cluster, "orders", within=0.1)
        orders(cluster, b"1", b"2")
        with pytest.raises(AssertionError, match="none of 2 messages of topic orders") as failure:
            expect_message(cluster, "orders", lambda message: message.body == b"3", within=0.1)
        assert "tags 'paid', keys [], body b'1'" in str(failure.value)


def test_dead_letters_and_lag_are_values() -> None:
    refused = threading.Event()

    def refuse(messages: list[MessageExt], context: ConsumeContext) -> None:
        refused.set()
        raise ValueError("refused")

    with broker.embedded_in_thread() as cluster:
        orders(cluster, b"1")
        settings = PushSettings(max_reconsume_times=0)
        with PushConsumer("mail", {"orders": "*"}, refuse, settings=settings, namesrv=cluster.namesrv):
            assert refused.wait(PATIENCE)
            expect_message(cluster, "%DLQ%mail", within=PATIENCE)
        assert [letter.body for letter in dead_letters(cluster, "mail")] == [b"1"]
        assert lag(cluster, "mail", "orders") == 0
        orders(cluster, b"2", b"3")
        assert lag(cluster, "mail", "orders") == lag(cluster, "mail") == 2


def test_a_group_that_is_not_known_has_no_lag_and_no_dead_letters() -> None:
    with broker.embedded_in_thread() as cluster:
        assert dead_letters(cluster, "nobody") == []
        with pytest.raises(NotFound, match="nobody"):
            lag(cluster, "nobody")
