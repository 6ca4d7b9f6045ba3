"""The model cluster with the additional requests of pull and lite consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from codec.codes import RequestCode, ResponseCode
from codec.remoting.frame import RemotingCommand
from rmqcli.client import LitePullConsumer, LiteSettings, PullConsumer
from tests.client.push.model_broker import ModelCluster, Peer
from tests.client.watched_cluster import NAMESRV, WatchedCluster, now_ms

TOPIC, GROUP = "T", "CG"


class PollingCluster(ModelCluster):
    """Adds minimum offsets, and the pulls of lite consumers unless the brokers are `old`."""

    def __init__(
        self,
        nursery: trio.Nursery,
        topics: dict[str, int],
        brokers: dict[str, str] | None = None,
        *,
        old: bool = False,
    ) -> None:
        super().__init__(nursery, topics, brokers)
        self._handlers[RequestCode.GET_MIN_OFFSET] = self._min_offset
        unknown = self._not_supported
        self._handlers[RequestCode.LITE_PULL_MESSAGE] = unknown if old else self._pull

    def _min_offset(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        _, queue = self._queue_of(peer, command)
        return command.reply(0, None, {"offset": str(self.first_offset.get(queue, 0))})

    def _not_supported(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        remark = f" request type {command.code} not supported"
        return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)

    def fill(self, counts: dict[int, int], start: int = 0) -> None:
        """Puts `counts` messages into the queues, with bodies `queue-number`."""
        for queue_id, count in counts.items():
            bodies = [b"%d-%d" % (queue_id, number) for number in range(start, start + count)]
            self.put_many(self.queue(TOPIC, queue_id), bodies)


def fill(cluster: WatchedCluster, counts: dict[int, int], start: int = 0) -> None:
    """Puts `counts` messages into the queues, with bodies `queue-number`."""
    for queue_id, count in counts.items():
        bodies = [b"%d-%d" % (queue_id, number) for number in range(start, start + count)]
        cluster.put_many(cluster.queue(TOPIC, queue_id), bodies)


@asynccontextmanager
async def lite(
    cluster: WatchedCluster | ModelCluster, group: str = GROUP, **settings: Any
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
