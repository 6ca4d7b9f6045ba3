"""A model cluster with one topic of four queues."""

from __future__ import annotations

import pytest
import trio

from tests.client.push.consuming import TOPIC
from tests.client.push.model_broker import ModelCluster


@pytest.fixture
def cluster(nursery: trio.Nursery) -> ModelCluster:
    return ModelCluster(nursery, {TOPIC: 4})
