"""Lite and pull consumers of the in-memory cluster, and messages for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rmqcli.client import LitePullConsumer, LiteSettings, PullConsumer
from tests.client.watched_cluster import NAMESRV, WatchedCluster, now_ms

TOPIC, GROUP = "T", "CG"


def fill(cluster: WatchedCluster, counts: dict[int, int], start: int = 0) -> None:
    """Puts `counts` messages into the queues, with bodies `queue-number`."""
    for queue_id, count in counts.items():
        bodies = [b"%d-%d" % (queue_id, number) for number in range(start, start + count)]
        cluster.put_many(cluster.queue(TOPIC, queue_id), bodies)


@asynccontextmanager
async def lite(
    cluster: WatchedCluster, group: str = GROUP, **settings: Any
) -> AsyncIterator[LitePullConsumer]:
    async with LitePullConsumer(
        group,
        settings=LiteSettings(**settings),
        namesrv=NAMESRV,
        open_stream=cluster.open_stream,
        now_ms=now_ms,
    ) as consumer:
        yield consumer


@asynccontextmanager
async def pulling(cluster: WatchedCluster, group: str = GROUP) -> AsyncIterator[PullConsumer]:
    async with PullConsumer(
        group, namesrv=NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms
    ) as consumer:
        yield consumer
