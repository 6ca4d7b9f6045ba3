"""Fixtures that run a RocketMQ cluster: `rmq_cluster` for one test, `rmq_cluster_session` for the session.

    def test_order(rmq_cluster):
        producer = MyProducer(namesrv=rmq_cluster.namesrv)

Both are a `broker.Cluster` on free ports of 127.0.0.1 that runs in its own thread, for plain, asyncio and
trio tests. Override the fixture `rmq_settings` (session scope) to set properties of the broker. Before a
fixture is used only pytest is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from broker.testing.embedded import Cluster


@pytest.fixture(scope="session")
def rmq_settings() -> dict[str, Any]:
    """Arguments of `broker.embedded`, such as `{"auto_create_topic_enable": False}`."""
    return {}


def _cluster(rmq_settings: dict[str, Any]) -> Iterator[Cluster]:
    """A running cluster."""
    from broker.testing.embedded import embedded_in_thread

    with embedded_in_thread(**rmq_settings) as cluster:
        yield cluster


rmq_cluster = pytest.fixture(_cluster)
"""A new cluster for one test."""
rmq_cluster_session = pytest.fixture(scope="session")(_cluster)
"""One cluster that all tests of the session share."""
