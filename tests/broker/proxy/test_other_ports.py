"""Clients that speak HTTP on a port of another protocol: they are told which port is the right one."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.net.foreign import MOST_BYTES, MOST_CALLS, SECONDS, SENDING_SECONDS
from rmqcli.broker.testing.in_memory import MemoryCluster, embedded_in_memory
from tests.broker.proxy.calls import cluster_with_grpc
from tests.broker.proxy.grpc_client import GrpcClient

PATH = "/apache.rocketmq.v2.MessagingService/QueryRoute"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


async def stream_to(cluster: MemoryCluster, address: str) -> trio.abc.Stream:
    host, _, port = address.rpartition(":")
    return await cluster.surroundings.network.open_stream(host, int(port))


async def rest_of(stream: trio.abc.Stream) -> bytes:
    received = b""
    while data := await stream.receive_some(65536):
        received += data
    return received


async def status_of(nursery: trio.Nursery, cluster: MemoryCluster, address: str) -> str:
    client = await nursery.start(GrpcClient(await stream_to(cluster, address)).run)
    with trio.fail_after(SECONDS / 2):
        answers = [await client.ask(PATH, b"\n\0") for _ in range(2)]
    assert [answer.status for answer in answers] == [9, 9]
    with trio.fail_after(SECONDS + 1):
        await client.is_closed.wait()
    assert client.goodbye == 0
    return str(answers[0].headers["grpc-message"])


async def test_a_call_on_the_port_of_a_broker(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_with_grpc() as cluster:
        for _ in range(2):
            text = await status_of(nursery, cluster, cluster.broker_address)
            assert text.endswith("remoting port of a broker; gRPC clients of RocketMQ 5 use its port 8081")
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == 1 and "8081" in warnings[0].getMessage()


async def test_a_call_where_nothing_serves_grpc(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster:
        assert "--grpc" in await status_of(nursery, cluster, cluster.broker_address)
        assert "name server" in await status_of(nursery, cluster, cluster.namesrv)


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1", b"POST /x HTTP/1.1"])
async def test_a_request_of_http_1(autojump_clock: MockClock, request_line: bytes) -> None:
    async with cluster_with_grpc() as cluster:
        for address, text in (
            (cluster.broker_address, b"remoting port of a broker"),
            (cluster.namesrv, b"port of a name server"),
            ("127.0.0.1:8081", b"serves gRPC clients"),
        ):
            stream = await stream_to(cluster, address)
            began = trio.current_time()
            await stream.send_all(request_line + b"\r\nHost: x\r\n\r\n")
            head, _, body = (await rest_of(stream)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400 ") and text in body
            assert b"Content-Length: %d" % len(body) in head
            assert trio.current_time() == began


@pytest.mark.parametrize(
    "data",
    [
        PREFACE,
        b"PRI ",
        PREFACE + b"\xff" * 100_000,
        PREFACE + b"\0\0\0\1\4\0\0\0\1" * 10_000,
        PREFACE + b"\0\0\0\4\0\0\0\0\0" * 10_000,
        b"POST / HTTP/1.1\r\n" + b"x" * 1_000_000,
    ],
    ids=range(6),
)
async def test_what_it_costs_is_bounded(autojump_clock: MockClock, data: bytes) -> None:
    async with embedded_in_memory() as cluster:
        stream = await stream_to(cluster, cluster.broker_address)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                try:
                    for begin in range(0, len(data), 4096):
                        await stream.send_all(data[begin : begin + 4096])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass

            nursery.start_soon(send)
            received = await rest_of(stream)
        assert trio.current_time() - began <= SECONDS + SENDING_SECONDS
        assert len(received) <= 300 * MOST_CALLS + MOST_BYTES
