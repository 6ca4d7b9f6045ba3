"""A slave by hand, and a network between slaves and masters that delays and cuts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from rmqcli.broker.net.network import Listener, Network
from rmqcli.broker.testing.in_memory import HOST, MemoryCluster
from rmqcli.client import Producer, SendResult
from rmqcli.codec.ha.frames import BlockPart, BlockReader, encode_report
from rmqcli.codec.message import Message

HA_PORT = 10912
TOPIC = "T"


class HandSlave:
    """A connection to the replication port of a cluster; nothing is sent by itself."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.parts: list[BlockPart] = []
        self._reader = BlockReader()

    async def report(self, end: int) -> None:
        await self.stream.send_all(encode_report(end))

    async def receive(self, seconds: float = 0.5) -> bool:
        """Reads for a time; False if the connection ended."""
        with trio.move_on_after(seconds):
            while True:
                try:
                    data = await self.stream.receive_some(65536)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return False
                if not data:
                    return False
                self.parts += self._reader.feed(data)
        return True

    @property
    def log(self) -> bytes:
        return b"".join(part.data for part in self.parts)


@asynccontextmanager
async def hand_slave(cluster: MemoryCluster, port: int = HA_PORT) -> AsyncIterator[HandSlave]:
    async with await cluster.surroundings.network.open_stream(HOST, port) as stream:
        yield HandSlave(stream)


async def send(cluster: MemoryCluster, count: int = 1, size: int = 50, **properties: str) -> SendResult:
    """Sends messages with numbers as bodies, one after the other; the last result."""
    async with Producer(**cluster.client()) as producer:
        for number in range(count):
            body = f"{number}:".encode().ljust(size, b"b")
            result = await producer.send(Message.of(TOPIC, body, properties=properties))
    return result


class Proxied:
    """A network whose connections to one port deliver what `alter` makes of the bytes of the server.

    `alter` is called with each piece that comes; None ends the connection.
    """

    def __init__(self, network: Network, port: int, alter: Callable[[bytes], bytes | None]) -> None:
        self._network = network
        self._port = port
        self._alter = alter

    def listen(self, host: str, port: int, backlog: int = 0) -> Listener:
        return self._network.listen(host, port, backlog)

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        stream = await self._network.open_stream(host, port)
        return _Altered(stream, self._alter) if port == self._port else stream


class _Altered(trio.abc.Stream):
    def __init__(self, stream: trio.abc.Stream, alter: Callable[[bytes], bytes | None]) -> None:
        self._stream = stream
        self._alter = alter

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = bytes(await self._stream.receive_some(max_bytes))
        altered = self._alter(data) if data else data
        if altered is None:
            await self._stream.aclose()
            return b""
        return altered

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()
