"""A scripted name server with two brokers that store what they receive, and producers for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rmqcli.client import Producer
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import HEARTBEATS, Network, route, sent

NAMESRV = "ns:9876"
A, B = "a:10911", "b:10911"
SEND = RequestCode.SEND_MESSAGE_V2
TOPIC = "T"


class Cluster:
    """A name server and two brokers with two queues each."""

    def __init__(self, network: Network, topics: dict[str, dict[str, int]] | None = None) -> None:
        self.network = network
        brokers = {"broker-a": {0: A}, "broker-b": {0: B}}
        spread = topics if topics is not None else {TOPIC: {"broker-a": 2, "broker-b": 2}}
        self.namesrv = network.server(NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: route(spread, brokers)})
        self.a = network.server(A, {SEND: sent, RequestCode.SEND_BATCH_MESSAGE: sent, **HEARTBEATS})
        self.b = network.server(B, {SEND: sent, RequestCode.SEND_BATCH_MESSAGE: sent, **HEARTBEATS})

    def sends(self) -> list[RemotingCommand]:
        return [c for server in (self.a, self.b) for c in server.asked if c.code in (SEND, 320)]


@asynccontextmanager
async def producing(network: Network, **options: Any) -> AsyncIterator[Producer]:
    async with Producer("PG", namesrv=NAMESRV, open_stream=network.open_stream, **options) as producer:
        yield producer


def flush_timeout(command: RemotingCommand) -> RemotingCommand:
    answer = sent(command)
    answer.code = 10
    return answer
