"""Two scripted masters, one slave and two name servers, for tests of `Admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rmqcli.client import Admin
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.route import BrokerData, ClusterInfo, TopicList
from rmqcli.codec.codes import RequestCode
from tests.client.scripted import Network, Reply, ok, route

NAMESRV, OTHER_NS = "ns:9876", "ns2:9876"
A, B, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
TOPIC = "T"
BROKERS = {"broker-a": {0: A, 1: SLAVE}, "broker-b": {0: B}}
NOW = 1_795_222_484_605


def body(value: Any) -> Reply:
    return ok(None, encode_body(value))


def cluster_info() -> ClusterInfo:
    data = {
        n: BrokerData(cluster="C1" if n == "broker-a" else "C2", broker_name=n, broker_addrs=a)
        for n, a in BROKERS.items()
    }
    return ClusterInfo(broker_addr_table=data, cluster_addr_table={"C1": ["broker-a"], "C2": ["broker-b"]})


class Cluster:
    """Two masters, one slave, two name servers."""

    def __init__(self, network: Network) -> None:
        self.network = network
        replies: dict[int, Reply] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: route({TOPIC: {"broker-a": 1, "broker-b": 1}}, BROKERS),
            RequestCode.GET_BROKER_CLUSTER_INFO: body(cluster_info()),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: body(
                TopicList(topic_list=["T", "%RETRY%G2", "A"])
            ),
        }
        self.namesrv = network.server(NAMESRV, replies)
        self.other = network.server(OTHER_NS, replies)
        self.a, self.b, self.slave = (network.server(address) for address in (A, B, SLAVE))

    def both(self, code: int, reply: Reply) -> None:
        self.a.replies[code] = self.b.replies[code] = reply


@asynccontextmanager
async def admin_of(cluster: Cluster) -> AsyncIterator[Admin]:
    servers = f"{NAMESRV};{OTHER_NS}"
    async with Admin(namesrv=servers, open_stream=cluster.network.open_stream, now_ms=lambda: NOW) as admin:
        yield admin
