"""Messages that clients have: a broker of 4.9 does not report them, and then they are not 0 either."""

from __future__ import annotations

import pytest

from rmqcli.client import BrokerLag
from rmqcli.codec.bodies.stats import OffsetWrapper
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.metrics.families import IN_FLIGHT
from rmqcli.metrics.rates import group_samples


@pytest.mark.parametrize(("pulled", "values"), [((7, 4), [5]), ((None, 4), [2]), ((None, None), [])])
def test_what_clients_have(pulled: tuple[int | None, ...], values: list[int]) -> None:
    lags = [
        BrokerLag(
            "broker-a",
            "packers",
            MessageQueue("orders", "broker-a", number),
            OffsetWrapper(broker_offset=9, consumer_offset=at, pull_offset=one),
        )
        for number, (at, one) in enumerate(zip((4, 2), pulled, strict=True))
    ]
    samples = group_samples({}, lags, {}, 0)
    assert [sample.value for sample in samples if sample.family is IN_FLIGHT] == values
