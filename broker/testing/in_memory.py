"""A whole cluster and its network inside one trio program, for tests on a virtual clock, where minutes pass
in milliseconds.

Nothing waits for the outside world: connections and files are in memory (unless a real store folder is
given), work for worker threads runs inline (taking `disk_seconds` on trio's clock), wall-clock time is
trio's, and random numbers have a seed. On `MockClock(autojump_threshold=0)`, a program has the same times on
every machine; tasks that are ready at the same time run in any order, as always in trio.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

import trio
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_pair

from rmqcli.broker.config import NamesrvConfig
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.errors import RemoteClosed
from rmqcli.broker.ha.master import Master
from rmqcli.broker.namesrv.node import open_name_server
from rmqcli.broker.net.network import Adopter
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.supervisor import open_services
from rmqcli.broker.system import NowMs
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.embedded import Cluster, accepting, open_member
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.ids import DEFAULT_NAMESRV_PORT
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame, encode_frame

# A network of in-memory streams inside one trio program. Transfers take no time of trio's clock.
#
# `OnRequest` is called for every request to a server, in the order of its connection, and decides how it is
# handled. While it waits, later requests of that connection wait. Requests of servers to clients pass without
# a call.

FIRST_CLIENT_PORT = 40_000
HOST = "127.0.0.1"

RARE_FLUSHES = {"flush_interval_commit_log": 10_000, "flush_interval_consume_queue": 10_000}
"""Settings of a broker whose files cannot be lost: its flushes are half of the work of a virtual hour."""

MemoryStream = trio.StapledStream[MemorySendStream, MemoryReceiveStream]


class Lost(Enum):
    """The type of LOST."""

    LOST = "lost"


LOST: Final = Lost.LOST
"""The request is lost on its way and gets no reply."""

OnRequest = Callable[[str, RemotingCommand], Awaitable[RemotingCommand | Lost | None]]
"""`await on_request("host:port", request)` returns None to pass the request on, a command to reply with, or
LOST."""


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
        """Bind an address. Raises OSError if it is in use. Port 0 is not supported."""
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        return MemoryListener((host, port), self._listeners)

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """Connect to an address. Raises ConnectionRefusedError without a listener, and for a time after
        `cut`."""
        listener = self._listeners.get((host, port))
        if listener is None or listener.server is None or trio.current_time() < listener.refuses_until:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        ours, theirs = memory_stream_pair()
        # Replication has another protocol, without requests.
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
        """Break the connections to an address, and refuse new ones for `seconds`."""
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
    """Transfer complete frames only, because replies of `_up` are sent between them."""
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


START_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""
FIRST_PORT, PORT_STEP = 10911, 10
"""Port of the first broker, and distance to the next one, in the order in which they start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Surroundings:
    network: MemoryNetwork
    namesrv: str
    now_ms: NowMs
    rng: random.Random
    tls: Mapping[str, str] | None
    ports: Iterator[int]

    def another_rng(self) -> random.Random:
        return random.Random(self.rng.getrandbits(64))


@dataclass(frozen=True, slots=True)
class MemoryCluster(Cluster):
    """A cluster that only its own clients can reach: `Producer("group", **cluster.client())`."""

    surroundings: _Surroundings

    def client(self) -> dict[str, Any]:
        """Return options for one client of this cluster (InstanceOptions), with a separate random
        generator."""
        around = self.surroundings
        return {
            "namesrv": self.namesrv,
            "open_stream": around.network.open_stream,
            "now_ms": around.now_ms,
            "rng": around.another_rng(),
        }

    def now_ms(self) -> int:
        """Return the wall-clock time of the cluster and its clients in epoch milliseconds."""
        return self.surroundings.now_ms()

    def broker(
        self,
        *,
        store: str | Path | None = None,
        disk: Disk | None = None,
        disk_seconds: float = 0.0,
        **settings: Any,
    ) -> AbstractAsyncContextManager[Cluster]:
        """Return a context manager that runs another broker, which needs a different `broker_name`. Settings
        are those of `embedded`, and also `listen_port`, for a broker that comes back."""
        return _open(self.surroundings, store, disk, disk_seconds, settings)

    def cut(self, address: str, seconds: float = 0.0) -> None:
        """Break all connections to a server ("host:port"), and refuse new ones for `seconds`. Raises
        KeyError."""
        host, _, port = address.rpartition(":")
        self.surroundings.network.cut(host, int(port), seconds)


@asynccontextmanager
async def embedded_in_memory(
    *,
    store: str | Path | None = None,
    disk: Disk | None = None,
    on_request: OnRequest | None = None,
    disk_seconds: float = 0.0,
    start_ms: int = START_MS,
    seed: int = 0,
    tls: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[MemoryCluster]:
    """Run a name server, a broker registered there, and their network inside the block.

    `store` is a real folder; without it, files are in memory, on `disk` (e.g. a SimulatedDisk) if it is
    given. `on_request` may see, delay, answer or lose requests (`OnRequest`). `disk_seconds` is the time that
    each operation on files takes. `start_ms` is the wall-clock time at the start, in epoch ms. `tls` and
    settings are those of `embedded`; TLS files are real. Raises ConfigError.
    """
    begun = trio.current_time()

    def now_ms() -> int:
        return start_ms + round((trio.current_time() - begun) * 1000)

    names = NamesrvConfig(kv_config_path=None, config_store_path=None)
    async with open_services() as services:
        network = MemoryNetwork(services.nursery, on_request)
        async with open_name_server(
            names,
            host=HOST,
            port=DEFAULT_NAMESRV_PORT,
            now_ms=now_ms,
            network=network,
            in_thread=_in_place_of_threads(disk_seconds),
            disk=SimulatedDisk(now_ms=now_ms),
            tls=accepting(tls, in_thread=_in_place_of_threads(0)),
        ) as namesrv:
            around = _Surroundings(
                network=network,
                namesrv=namesrv.address,
                now_ms=now_ms,
                rng=random.Random(seed),
                tls=tls,
                ports=itertools.count(FIRST_PORT, PORT_STEP),
            )
            async with _open(around, store, disk, disk_seconds, settings) as broker:
                own = {one.name: getattr(broker, one.name) for one in fields(broker)}
                yield MemoryCluster(**own, surroundings=around)


@asynccontextmanager
async def _open(
    around: _Surroundings,
    store: str | Path | None,
    disk: Disk | None,
    disk_seconds: float,
    settings: dict[str, Any],
) -> AsyncIterator[Cluster]:
    name = settings.get("broker_name", "broker-a")
    root = Path("/", name) if store is None else Path(store)
    if disk is None and store is None:
        disk = SimulatedDisk(now_ms=around.now_ms, loses_power=False)
        settings = {**RARE_FLUSHES, **settings}
    port = settings.get("listen_port") or next(around.ports)
    async with open_member(
        around.namesrv,
        root,
        {**settings, "listen_port": port, "bind_address": HOST, "broker_ip1": HOST},
        now_ms=around.now_ms,
        rng=around.another_rng(),
        network=around.network,
        in_thread=_in_place_of_threads(disk_seconds, disk or REAL),
        disk=disk or REAL,
        tls=accepting(around.tls, in_thread=_in_place_of_threads(0)),
        grpc_tls=around.tls or {},
    ) as cluster:
        yield cluster


def _in_place_of_threads(seconds: float, disk: Disk = REAL) -> InThread:
    """Return a function that runs work inline, because a virtual clock does not wait for threads. On a
    simulated disk, the calls count as those of a worker."""

    async def run(function: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
        await trio.sleep(seconds)
        if not isinstance(disk, SimulatedDisk):
            return function(*arguments)
        with disk.worker() as calls:
            result = function(*arguments)
        await trio.sleep(disk.call_seconds * calls.total())
        return result

    return run
