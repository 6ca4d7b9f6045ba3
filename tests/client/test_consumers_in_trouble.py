"""Consumers of each style while a broker restarts or is slow, when they are cancelled, and at Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker import Cluster
from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.client import ClientError, ConsumeContext, ConsumeResult, Message, MessageExt
from rmqcli.client.sync import Admin, Producer
from rmqcli.testing import lag
from tests.client.hosts import slow_way
from tests.client.styles import PUSH, STYLES, Consumers, Style
from tests.support import PATIENCE

SLOW = 0.3


@pytest.fixture(params=STYLES, ids=lambda style: style.name)
def style(request: pytest.FixtureRequest) -> Style:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with embedded_in_thread() as cluster:
        yield cluster


def create(cluster: Cluster, topic: str) -> str:
    with Admin(namesrv=cluster.namesrv) as admin:
        admin.topics.create(topic, read_queues=1, write_queues=1)
    return topic


def send(cluster: Cluster, topic: str, *bodies: bytes) -> None:
    with Producer("G_fill", namesrv=cluster.namesrv) as producer:
        for body in bodies:
            producer.send(Message.of(topic, body))


def lags(cluster: Cluster, consumers: Consumers) -> list[int]:
    return [lag(cluster, consumers.groups[kind], consumers.topic) for kind in ("push", "lite")]


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_a_broker_that_restarts(style: Style, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            with embedded_in_thread(store=tmp_path / "store") as first:
                ports = {"port": port(first.broker_address), "namesrv_port": port(first.namesrv)}
                send(first, create(first, "Restarts"), b"1", b"2")
                consumers = Consumers(style, "Restarts", namesrv=first.namesrv)
                await stack.enter_async_context(consumers)
                await consumers.get(b"1", b"2")
            with pytest.raises(ClientError):
                await consumers.pull.pull(consumers.queue, 0)
            assert await consumers.lite.poll(0.1) == []
            with embedded_in_thread(store=tmp_path / "store", **ports) as second:
                send(second, "Restarts", b"3", b"4")
                await consumers.get(b"3", b"4")
                await stack.aclose()
                assert lags(second, consumers) == [0, 0]
        assert all(set(bodies) == {b"1", b"2", b"3", b"4"} for bodies in consumers.heard.values())

    style.run(main)


def test_a_slow_broker(style: Style, cluster: Cluster) -> None:
    topic = create(cluster, f"Slow_{style.name}")
    send(cluster, topic, b"1")

    async def main() -> None:
        with slow_way(cluster.broker_address, SLOW) as address:
            slow = {cluster.broker_address: address}
            async with Consumers(style, topic, namesrv=cluster.namesrv, address_map=slow) as consumers:
                await consumers.get(b"1")
                with pytest.raises(ClientError, match="within"):
                    await consumers.pull.pull(consumers.queue, 0, timeout=SLOW / 3)
                send(cluster, topic, b"2")
                await consumers.get(b"2")
        assert lags(cluster, consumers) == [0, 0]

    style.run(main)


def test_calls_that_are_cancelled(style: Style, cluster: Cluster) -> None:
    topic = create(cluster, f"Cancelled_{style.name}")

    async def main() -> None:
        async with Consumers(style, topic, namesrv=cluster.namesrv) as consumers:
            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: consumers.lite.poll(PATIENCE),
                lambda: consumers.pull.pull_block_if_not_found(consumers.queue, 0),
            ]
            returned = []
            for call in calls:
                async with style.within(0.2):
                    returned.append(await call())
            assert not returned
            send(cluster, topic, b"1")
            await consumers.get(b"1")
        assert lags(cluster, consumers) == [0, 0]

    style.run(main)


def test_a_block_that_is_cancelled_loses_no_message(style: Style, cluster: Cluster) -> None:
    topic = create(cluster, f"Left_{style.name}")
    send(cluster, topic, b"1", b"2")
    begun: list[bytes] = []
    over = threading.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        begun.append(messages[0].body)
        if messages[0].body == b"2":
            await style.sleep(PATIENCE)
        return ConsumeResult.SUCCESS

    def listen_in_thread(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        begun.append(messages[0].body)
        if messages[0].body == b"2":
            over.wait(PATIENCE)
        return ConsumeResult.SUCCESS

    async def main() -> None:
        listener = listen_in_thread if style.name == "threads" else listen
        topics = {topic: "*"}
        group, options = f"G_{topic}", {"settings": PUSH, "namesrv": cluster.namesrv}
        async with (
            style.within(PATIENCE) as cancel,
            style.client("PushConsumer", group, topics, listener, **options),
        ):
            while len(begun) < 2:
                await style.sleep(0.05)
            cancel()
            await style.sleep(PATIENCE)

    style.run(main)
    over.set()
    assert sorted(begun) == [b"1", b"2"]
    assert lag(cluster, f"G_{topic}", topic) == 1


def test_a_consumer_that_pops(style: Style, cluster: Cluster) -> None:
    topic = create(cluster, f"Popped_{style.name}")
    send(cluster, topic, b"1", b"2", b"3")
    heard: list[bytes] = []

    async def main() -> None:
        options = {"pop": True, "settings": PUSH, "namesrv": cluster.namesrv}
        for count in (3, 4):
            listener = style.listener(lambda messages: heard.append(messages[0].body))
            async with (
                style.within(PATIENCE),
                style.client("PushConsumer", f"G_{topic}", {topic: "*"}, listener, **options),
            ):
                while len(heard) < count:
                    await style.sleep(0.05)
            send(cluster, topic, b"4")

    style.run(main)
    assert sorted(heard) == [b"1", b"2", b"3", b"4"]


def test_ctrl_c(style: Style, cluster: Cluster) -> None:
    topic = create(cluster, f"Interrupted_{style.name}")
    send(cluster, topic, b"1")
    command = [sys.executable, "-m", "tests.client.interrupted", style.name, topic, cluster.namesrv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=PATIENCE)[1]
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert time.monotonic() - began < 10
    assert [lag(cluster, f"G_{topic}_{kind}", topic) for kind in ("push", "lite")] == [0, 0]
