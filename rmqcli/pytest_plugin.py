"""Fixtures that run a RocketMQ cluster: `rmq_cluster` for one test, `rmq_cluster_session` for the session.

    def test_order(rmq_cluster):
        producer = MyProducer(namesrv=rmq_cluster.namesrv)

Both are a `broker.Cluster` on free ports of 127.0.0.1 that runs in its own thread, for plain, asyncio and
trio tests. Override the fixture `rmq_settings` (session scope) to set properties of the broker.

pytest loads this module in every run of an environment that has rmqcli, also in those of projects with
modules of their own called `broker` or `codec`. Therefore it imports only pytest before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from broker.testing.embedded import Cluster


@pytest.fixture(scope="session")
def rmq_settings() -> dict[str, Any]:
    """Return the arguments of `broker.embedded`, such as `{"auto_create_topic_enable": False}`."""
    return {}


def _cluster(rmq_settings: dict[str, Any]) -> Iterator[Cluster]:
    """Run a cluster. Fail the test if a package of the project under test hides one that rmqcli installs."""
    try:
        from broker.testing.embedded import embedded_in_thread
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"broker", "codec"}:
            raise
        pytest.fail(
            f"{error}: another module named {error.name.partition('.')[0]} hides that of rmqcli",
            pytrace=False,
        )

    with embedded_in_thread(**rmq_settings) as cluster:
        yield cluster


rmq_cluster = pytest.fixture(_cluster)
"""A new cluster for one test."""
rmq_cluster_session = pytest.fixture(scope="session")(_cluster)
"""One cluster that all tests of the session share."""
