"""Fixtures for test suites that need a RocketMQ: `rmq_cluster` for one test, `rmq_cluster_session` for the whole run.

    def test_order(rmq_cluster):
        producer = MyProducer(namesrv=rmq_cluster.namesrv)

Both give a `broker.Cluster` on free ports of 127.0.0.1 that runs in a thread of its own, so they serve plain, asyncio
and trio tests alike. Override the fixture `rmq_settings` (session scope) to change properties of the broker.
Nothing but pytest is imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from broker.testing.embedded import Cluster

__all__ = ["rmq_cluster", "rmq_cluster_session", "rmq_settings"]


@pytest.fixture(scope="session")
def rmq_settings() -> dict[str, Any]:
    """Arguments of `broker.embedded`, e.g. `{"auto_create_topic_enable": False}`."""
    return {}


@pytest.fixture
def rmq_cluster(rmq_settings: dict[str, Any]) -> Iterator[Cluster]:
    """A fresh cluster for this test."""
    from broker.testing.embedded import embedded_in_thread

    with embedded_in_thread(**rmq_settings) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def rmq_cluster_session(rmq_settings: dict[str, Any]) -> Iterator[Cluster]:
    """One cluster that all tests of the run share."""
    from broker.testing.embedded import embedded_in_thread

    with embedded_in_thread(**rmq_settings) as cluster:
        yield cluster
