"""Consumers that come and go, and what a broker keeps of them."""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from functools import _lru_cache_wrapper
from typing import Any

import trio

from rmqcli import broker
from rmqcli.broker.services.statistics import KEPT
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData
from rmqcli.codec.bodies.offsets import LockBatchRequestBody
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame
from tests.broker.support import pull_header, send_header, subscription

GROUPS = 3
OURS = ("rmqcli.broker.", "rmqcli.codec.")
MOST_OF_BROKER: Mapping[str, int] = {"StoreRates._samples": KEPT, "Totals": KEPT}
"""Tables that time fills, and their limits; other tests may have brokers in this process."""


async def visit(cluster: broker.MemoryCluster, number: int) -> None:
    """One member of a group: it joins, sends and pulls, and leaves; every other one without a word."""
    host, _, port = cluster.broker_address.rpartition(":")
    stream = await cluster.client()["open_stream"](host, int(port))
    group, client = f"G{number % GROUPS}", f"10.0.0.1@{number}"

    async def ask(code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        await stream.send_all(encode_frame(RemotingCommand(code, ext, body, 1, language=0, version=409)))

    consumer = ConsumerData(group_name=group, subscription_data_set=[subscription("T", version=number)])
    await ask(34, None, encode_body(HeartbeatData(client_id=client, consumer_data_set=[consumer])))
    await ask(38, {"consumerGroup": group})
    locks = LockBatchRequestBody(
        consumer_group=group, client_id=client, mq_set=[MessageQueue("T", "broker-a", 0)]
    )
    await ask(41, None, encode_body(locks))
    await ask(14, {"consumerGroup": group, "topic": "T", "queueId": "0"})
    await ask(310, to_ext(send_header("T", {"KEYS": f"key-{number:08d}"})), b"body")
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


def is_ours(kind: type) -> bool:
    # Types of extension modules may have a descriptor there.
    return str(kind.__module__).startswith(OURS)


def objects() -> Counter[str]:
    """The objects of the broker by type."""
    types = [type(one) for one in gc.get_objects()]
    return Counter(one.__qualname__ for one in types if is_ours(one))


def entries() -> Counter[str]:
    """The entries of every table: of what objects and modules hold, and of caches."""
    found: Counter[str] = Counter()
    seen = set()  # a table that many objects share counts once
    for one in gc.get_objects():
        if is_ours(type(one)):
            for name, value in attributes(one):
                if id(value) not in seen:
                    seen.add(id(value))
                    found[f"{type(one).__qualname__}.{name}"] += size(value)
    for module in [name for name in sys.modules if name.startswith(OURS)]:
        for name, value in list(vars(sys.modules[module]).items()):
            is_cache = isinstance(value, _lru_cache_wrapper)
            found[f"{module}.{name}"] += value.cache_info().currsize if is_cache else size(value)
    return found


def attributes(one: Any) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(one, "__dict__", {}).items())
    for base in type(one).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(one, name):
                yield name, getattr(one, name)


def size(value: object) -> int:
    """The entries of a table and of the tables in it; 0 of what is none."""
    if isinstance(value, dict):
        return len(value) + sum(map(size, value.values()))
    return len(value) if isinstance(value, list | set | deque) else 0


async def test_nothing_is_kept_of_those_who_left(autojump_clock: trio.abc.Clock) -> None:
    async with broker.embedded_in_memory() as cluster:
        await visits(cluster, 0, 50)
        gc.collect()
        before = objects() + entries()
        await visits(cluster, 50, 200)
        gc.collect()
        after = objects() + entries()
    assert len(after) > 500
    limits = {name: most * after["StoreRates"] for name, most in MOST_OF_BROKER.items()}
    limits["Cell.minute"] = 7 * after["Cell"]  # samples, which time fills, too
    assert {
        name: count for name, count in (after - before).items() if count > 10 and name not in limits
    } == {}
    assert {name: after[name] for name, most in limits.items() if after[name] > most} == {}
