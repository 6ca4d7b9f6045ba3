"""Consumers that come and go, and what a broker keeps of them."""

from __future__ import annotations

import gc
from collections import Counter

import trio

import broker
from codec import ids
from codec.bodies.base import encode_body
from codec.bodies.heartbeat import ConsumerData, HeartbeatData
from codec.headers.base import to_ext
from codec.remoting.frame import RemotingCommand, encode_frame
from tests.broker.support import pull_header, send_header, subscription

GROUPS = 3


async def visit(cluster: broker.MemoryCluster, number: int) -> None:
    """One member of a group: it joins, sends and pulls, and leaves; every other one without a word."""
    host, _, port = cluster.broker_address.rpartition(":")
    stream = await cluster.client()["open_stream"](host, int(port))
    group, client = f"G{number % GROUPS}", f"10.0.0.1@{number}"

    async def ask(code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        await stream.send_all(encode_frame(RemotingCommand(code, ext, body, 1, language=0, version=409)))

    consumer = ConsumerData(group_name=group, subscription_data_set=[subscription("T", version=number)])
    await ask(34, None, encode_body(HeartbeatData(client_id=client, consumer_data_set=[consumer])))
    await ask(310, to_ext(send_header("T")), b"body")
    await ask(15, {"consumerGroup": group, "topic": "T", "queueId": "0", "commitOffset": str(number)})
    await ask(11, pull_header("T", offset=10**6, group=group, suspend_ms=15_000, sys_flag=6))
    await ask(11, pull_header("T", queue_id=1, group=group, suspend_ms=15_000, sys_flag=6))
    await trio.sleep(1)
    if number % 2:
        await ask(35, {"clientID": client, "consumerGroup": group})
        await trio.sleep(0.1)
    await stream.aclose()


async def visits(cluster: broker.MemoryCluster, first: int, end: int) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(first, end):
            nursery.start_soon(visit, cluster, number)
    await trio.sleep(20)  # the times at which held pulls are over have passed


def kept() -> Counter[str]:
    """The objects of the broker by type, and the addresses that are remembered."""
    gc.collect()
    types = [type(one) for one in gc.get_objects()]
    found = Counter(one.__qualname__ for one in types if one.__module__.startswith(("broker.", "codec.")))
    caches = [one for one in vars(ids).values() if hasattr(one, "cache_info")]
    return found + Counter({"remembered addresses": sum(one.cache_info().currsize for one in caches)})


async def test_nothing_is_kept_of_those_who_left(autojump_clock: trio.abc.Clock) -> None:
    async with broker.embedded_in_memory() as cluster:
        await visits(cluster, 0, 100)
        before = kept()
        await visits(cluster, 100, 400)
        assert {name: count for name, count in (kept() - before).items() if count > 60} == {}
