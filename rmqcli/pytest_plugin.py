"""Fixtures that run a RocketMQ cluster: `rmq_cluster` for one test, `rmq_cluster_session` for the session.

    def test_order(rmq_cluster):
        producer = MyProducer(namesrv=rmq_cluster.namesrv)

Clients of RocketMQ 5 connect to `rmq_cluster.grpc_endpoint`.

Both are a `rmqcli.broker.Cluster` on free ports of 127.0.0.1 that runs in its own thread, for plain, asyncio
and trio tests. Override the fixture `rmq_settings` (session scope) to set properties of the broker.

pytest loads this module in every run of an environment that has rmqcli, whether or not the project uses it.
Therefore it imports only pytest before a fixture is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rmqcli.broker.testing.embedded import Cluster


class _Finder:
    """Finds the modules of rmqcli as Python does without pytest.

    pytest would rewrite the assertions of all of them, because their distribution has a plugin. They contain
    no tests, and rewriting the 300 modules of a cluster takes seconds, or a third of its start if it is
    cached.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("rmqcli.") else None


sys.meta_path.insert(0, _Finder)


@pytest.fixture(scope="session")
def rmq_settings() -> dict[str, Any]:
    """Return the arguments of `rmqcli.broker.embedded`, such as `{"auto_create_topic_enable": False}`."""
    return {}


def _cluster(rmq_settings: dict[str, Any]) -> Iterator[Cluster]:
    from rmqcli.broker.testing.embedded import embedded_in_thread

    with embedded_in_thread(**rmq_settings) as cluster:
        yield cluster


rmq_cluster = pytest.fixture(_cluster)
"""A new cluster for one test."""
rmq_cluster_session = pytest.fixture(scope="session")(_cluster)
"""One cluster that all tests of the session share."""
