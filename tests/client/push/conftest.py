"""A cluster in memory with one topic of four queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.client.push.consuming import TOPIC
from tests.client.watched_cluster import WatchedCluster, open_cluster


@pytest.fixture
async def cluster(autojump_clock: Any) -> AsyncIterator[WatchedCluster]:
    async with open_cluster({TOPIC: 4}) as running:
        yield running
