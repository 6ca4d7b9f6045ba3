"""A network of in-memory streams inside one trio program. Transfers take no time of trio's clock.

`OnRequest` is called for every request to a server, in the order of its connection, and decides what happens
to it. While it waits, later requests of that connection wait. Requests of servers to clients pass without a
call.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from functools import partial
from typing import Final
from weakref import WeakSet

import trio
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_pair

from broker.errors import RemoteClosed
from broker.ha.master import Master
from broker.net.network import Adopter
from codec.errors import RemoteProtocolError
from codec.remoting.frame import RemotingCommand, decode_frame, encode_frame

FIRST_CLIENT_PORT = 40_000
HOST = "127.0.0.1"

MemoryStream = trio.StapledStream[MemorySendStream, MemoryReceiveStream]


class Lost(Enum):
    """The type of LOST."""

    LOST = "lost"


LOST: Final = Lost.LOST
"""The request is lost on its way and gets no reply."""

OnRequest = Callable[[str, RemotingCommand], Awaitable[RemotingCommand | Lost | None]]
"""`await on_request("host:port", request)` returns None to pass the request on, or a command as the reply
to it."""


class MemoryListener:
    """A bound address of a MemoryNetwork."""

    sockets = ()

    def __init__(self, address: tuple[str, int], listeners: dict[tuple[str, int], MemoryListener]) -> None:
        self.address = address
        self.server: Adopter | None = None
        self.streams: WeakSet[MemoryStream] = WeakSet()
        self.refuses_until = -math.inf
        self._listeners = listeners
        listeners[address] = self

    def serve_with(self, server: Adopter) -> None:
        self.server = server

    def close(self) -> None:
        self._listeners.pop(self.address, None)

    def cut(self) -> None:
        """Break every connection for both ends, like a cut cable."""
        for stream in list(self.streams):
            stream.send_stream.close()
            stream.receive_stream.close()


class MemoryNetwork:
    """A space of addresses. `nursery` runs the tasks that transfer bytes."""

    def __init__(self, nursery: trio.Nursery, on_request: OnRequest | None = None) -> None:
        self._nursery = nursery
        self._on_request = on_request
        self._listeners: dict[tuple[str, int], MemoryListener] = {}
        self._client_ports = itertools.count(FIRST_CLIENT_PORT)

    def listen(self, host: str, port: int, backlog: int = 0) -> MemoryListener:
        """Bind an address. Raises OSError when it is in use. Port 0 is not supported."""
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        return MemoryListener((host, port), self._listeners)

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """Connect to an address. ConnectionRefusedError without a listener, and for a time after `cut`."""
        listener = self._listeners.get((host, port))
        if listener is None or listener.server is None or trio.current_time() < listener.refuses_until:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        ours, theirs = memory_stream_pair()
        hears = self._on_request is not None and not isinstance(listener.server, Master)
        near, far = memory_stream_pair() if hears else (theirs, theirs)
        try:
            await listener.server.adopt(far, (HOST, next(self._client_ports)))
        except RemoteClosed:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)) from None
        listener.streams.add(theirs)
        if hears and self._on_request is not None:
            hear, speaking = partial(self._on_request, f"{host}:{port}"), trio.Lock()
            self._nursery.start_soon(_carry, _up(theirs, near, hear, speaking), theirs, near)
            self._nursery.start_soon(_carry, _down(near, theirs, speaking), near, theirs)
        return ours

    def cut(self, host: str, port: int, seconds: float) -> None:
        """Break the connections to an address, and refuses new ones for `seconds`."""
        listener = self._listeners[host, port]
        listener.refuses_until = trio.current_time() + seconds
        listener.cut()


async def _carry(work: Awaitable[None], source: MemoryStream, target: MemoryStream) -> None:
    """Transfer in one direction; close each end when the other closes."""
    try:
        await work
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        source.receive_stream.close()
    finally:
        target.send_stream.close()


async def _up(
    client: MemoryStream,
    server: MemoryStream,
    hear: Callable[[RemotingCommand], Awaitable[RemotingCommand | Lost | None]],
    speaking: trio.Lock,
) -> None:
    frames = _Frames()
    async for data in client:
        for frame in frames.feed(data):
            request = _request_in(frame)
            decision = None if request is None else await hear(request)
            if decision is None:
                await server.send_all(frame)
            elif not isinstance(decision, Lost) and request is not None and not request.is_oneway:
                async with speaking:
                    await client.send_all(encode_frame(decision))


async def _down(server: MemoryStream, client: MemoryStream, speaking: trio.Lock) -> None:
    """Transfer complete frames only: replies of `_up` are sent between them."""
    frames = _Frames()
    async for data in server:
        for frame in frames.feed(data):
            async with speaking:
                await client.send_all(frame)


def _request_in(frame: bytes) -> RemotingCommand | None:
    try:
        command = decode_frame(frame[4:])
    except RemoteProtocolError:
        return None
    return None if command.is_response else command


class _Frames:
    """Splits bytes into frames, each with its length field."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray) -> Iterator[bytes]:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            end = 4 + int.from_bytes(buffer[:4], "big")
            if len(buffer) < end:
                return
            yield bytes(buffer[:end])
            del buffer[:end]
