"""A whole cluster and its network inside one trio program, for tests on a virtual clock: minutes pass in
milliseconds.

Nothing waits for the outside: connections and files are in memory (a store folder that is given is real),
work for worker threads runs in place (it takes `disk_seconds` of trio's clock), wall-clock time is trio's,
random numbers have a seed. On `MockClock(autojump_threshold=0)` a program has the same times on every
machine; tasks of one moment run in any order, as always in trio.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import trio

from broker.clock import NowMs
from broker.config import NamesrvConfig
from broker.disk import REAL, Disk
from broker.namesrv.node import open_name_server
from broker.store.readiness import InThread
from broker.supervisor import open_services
from broker.testing.disk import SimulatedDisk
from broker.testing.embedded import Cluster, accepting, open_member
from broker.testing.memory_network import HOST, MemoryNetwork, OnRequest
from codec.addresses import DEFAULT_NAMESRV_PORT

START_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""
FIRST_PORT, PORT_STEP = 10911, 10
"""Ports of the brokers, in the order of their start."""


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
    """A cluster whose addresses only its own clients know: `Producer("group", **cluster.client())`."""

    surroundings: _Surroundings

    def client(self) -> dict[str, Any]:
        """Options for one client of this cluster (InstanceOptions), with random numbers of its own."""
        around = self.surroundings
        return {
            "namesrv": self.namesrv,
            "open_stream": around.network.open_stream,
            "now_ms": around.now_ms,
            "rng": around.another_rng(),
        }

    def now_ms(self) -> int:
        """Wall-clock time of the cluster and its clients, epoch milliseconds."""
        return self.surroundings.now_ms()

    def broker(
        self,
        *,
        store: str | Path | None = None,
        disk: Disk | None = None,
        disk_seconds: float = 0.0,
        **settings: Any,
    ) -> AbstractAsyncContextManager[Cluster]:
        """Return one more broker, until its block ends; give it a `broker_name` of its own. Settings as for
        `embedded`, also `listen_port`, for one that comes back."""
        return _open(self.surroundings, store, disk, disk_seconds, settings)

    def cut(self, address: str, seconds: float = 0.0) -> None:
        """Break all connections to a server ("host:port") and refuses new ones for `seconds`. KeyError."""
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
    """Yield a name server, a broker that is registered there, and their network; all end with the block.

    `store` is a real folder; without it files are in memory, on `disk` (e.g. a SimulatedDisk) if one is
    given. `on_request` may see, delay, answer or lose requests (`broker.testing.memory_network`).
    `disk_seconds`: the time that each piece of work on files takes. `start_ms` is the wall-clock time at the
    start, epoch ms. `tls` and settings as for `embedded`; TLS files are real ones. Raises ConfigError.
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
                yield MemoryCluster(**asdict(broker), surroundings=around)


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
    if disk is None:
        disk = SimulatedDisk(now_ms=around.now_ms, loses_power=False) if store is None else REAL
    port = settings.get("listen_port") or next(around.ports)
    async with open_member(
        around.namesrv,
        root,
        {**settings, "listen_port": port, "bind_address": HOST, "broker_ip1": HOST},
        now_ms=around.now_ms,
        rng=around.another_rng(),
        network=around.network,
        in_thread=_in_place_of_threads(disk_seconds, disk),
        disk=disk,
        tls=accepting(around.tls, in_thread=_in_place_of_threads(0)),
    ) as cluster:
        yield cluster


def _in_place_of_threads(seconds: float, disk: Disk = REAL) -> InThread:
    """Run work at once: a virtual clock waits for no thread. On a simulated disk it counts as a worker's."""

    async def run(function: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
        await trio.sleep(seconds)
        if not isinstance(disk, SimulatedDisk):
            return function(*arguments)
        with disk.worker() as calls:
            result = function(*arguments)
        await trio.sleep(disk.call_seconds * calls.total())
        return result

    return run
