"""A cluster inside this process, for tests and trials: one name server and one broker on free ports.

It uses fewer resources than Java's defaults: the store is a temporary folder, which is removed; commit-log
files have 64 MiB, consume-queue files 30,000 entries, index files 100,000 slots and 400,000 items (all
sparse); the name server saves nothing. In a store folder with files, their sizes are kept. Any broker
property can be set by its snake_case name: `embedded(message_delay_level="1s 2s",
auto_create_topic_enable=False)`.
"""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from rmqcli.broker.config import BrokerConfig, NamesrvConfig
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.errors import ConfigError, Refusal
from rmqcli.broker.namesrv.node import open_name_server
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.node import open_broker
from rmqcli.broker.system import MovableClock, NowMs, system_now_ms
from rmqcli.codec.ids import join_address
from rmqcli.codec.store.delay_levels import DelayLevels
from rmqcli.extras import GRPC, require

LIGHT_FILES = {
    "mapped_file_size_commit_log": 64 * 1024 * 1024,
    "mapped_file_size_consume_queue": 30_000 * 20,
}
ALONE: dict[str, Any] = {
    "broker_name": "broker-a",
    "vip_channel_enabled": False,
    "broker_fast_failure_enable": False,
    "busy_poll_micros": 0,
}
"""Defaults for tests: clients that are refused because a busy machine is slow have no other broker to try,
and the event loop may also run the client.
"""
LIGHT_INDEX = {"max_hash_slot_num": 100_000, "max_index_num": 400_000}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster. `namesrv` and `broker_address` are "ip:port"."""

    namesrv: str
    broker_address: str
    store_path: Path
    broker_name: str
    cluster_name: str
    move_clock: Callable[[int], None] = field(repr=False, compare=False)
    """Moves the broker's clock forward by some ms, in the thread of the broker."""
    open_grpc: Callable[[int], Awaitable[str]] = field(repr=False, compare=False)
    """Serves gRPC clients on a port until the end of the cluster; for the task that opened it."""
    grpc: Callable[[], str] = field(repr=False, compare=False)

    @property
    def grpc_endpoint(self) -> str:
        """The "ip:port" for gRPC clients of 5.x.

        A cluster in a thread begins to serve them when this is first read, on a free port unless the setting
        `grpc_port` names one; any other cluster requires the setting. Raises ConfigError, or MissingPackage
        without the extra `grpc`.
        """
        return self.grpc()

    def advance(self, duration: float | str) -> None:
        """Move the broker's clock forward by a duration in seconds, or as text (`90s`, `1h 30m`).

        Delayed messages and checks of transactions that are due by then are sent at once. Clients stay
        connected; their own clocks, and that of the name server, are not moved. Raises ValueError for a
        duration that is negative or longer than a year.
        """
        try:
            self.move_clock(_milliseconds(duration))
        except Refusal as refusal:
            raise ValueError(refusal.remark) from None


def _milliseconds(duration: float | str) -> int:
    if not isinstance(duration, str):
        return round(duration * 1000)
    try:
        return sum(DelayLevels(duration).delays_ms)
    except ValueError:
        raise ValueError(f"{duration!r} is not a duration such as '90s', '10m' or '1h 30m'") from None


@asynccontextmanager
async def embedded(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    namesrv_port: int = 0,
    store: str | Path | None = None,
    now_ms: NowMs = system_now_ms,
    rng: random.Random | None = None,
    tls: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Cluster]:
    """Run a name server and a broker registered there inside the block. The store is closed cleanly.

    If `store` is None, a temporary folder is used. `tls` has the TLS properties of both servers, by Java's
    names (`tls.server.certPath`). Raises ConfigError (an unknown setting) or OSError (a port is in use).
    """
    with store_folder(store) as root:
        names = NamesrvConfig(kv_config_path=None, config_store_path=None)
        async with open_name_server(
            names, host=host, port=namesrv_port, now_ms=now_ms, tls=accepting(tls)
        ) as namesrv:
            given = {"broker_ip1": host} | settings | {"bind_address": host, "listen_port": port}
            async with open_member(
                namesrv.address, root, given, now_ms=now_ms, rng=rng, tls=accepting(tls), grpc_tls=tls or {}
            ) as cluster:
                yield cluster


def accepting(entries: Mapping[str, str] | None, **surroundings: Any) -> TlsAcceptor | None:
    """Return an acceptor of TLS connections with these properties; None for plain ones only."""
    return None if entries is None else TlsAcceptor(entries, is_alone=True, **surroundings)


@asynccontextmanager
async def open_member(
    namesrv: str,
    root: Path,
    settings: dict[str, Any],
    *,
    now_ms: NowMs = system_now_ms,
    disk: Disk = REAL,
    grpc_tls: Mapping[str, str] = {},
    **surroundings: Any,
) -> AsyncIterator[Cluster]:
    """Run a broker on the store folder `root` inside the block; `surroundings` are options of
    `open_broker`. With the setting `grpc_port`, it serves gRPC clients as well."""
    settings = dict(settings)
    grpc_port: int | None = settings.pop("grpc_port", None)
    grpc_address: str | None = None
    fixed = {"namesrv_addr": namesrv, "store_path_root_dir": str(root)}
    own = ALONE | light_file_sizes(root, disk)
    config = checked_config({**own, **settings, **fixed})

    def grpc() -> str:
        if grpc_address is None:
            raise ConfigError(
                "this cluster serves no gRPC clients: set grpc_port, 0 for any free port (extra grpc)"
            )
        return grpc_address

    surroundings["now_ms"] = MovableClock(now_ms)
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(
            open_broker(config, disk=disk, needs_vip=False, **surroundings)
        )

        async def open_grpc(port: int) -> str:
            require(*GRPC)
            from rmqcli.broker.proxy.embedded import open_broker_front  # imports hpack and protobuf

            around = {name: surroundings[name] for name in ("network", "in_thread") if name in surroundings}
            host = config.bind_address
            front = open_broker_front(broker.context, host, port, tls=grpc_tls, **around)
            return join_address(host, await stack.enter_async_context(front))

        if grpc_port is not None:
            grpc_address = await open_grpc(grpc_port)
        names = config.broker_name, config.broker_cluster_name
        yield Cluster(namesrv, broker.address, root, *names, broker.context.advance_clock, open_grpc, grpc)


@contextmanager
def store_folder(store: str | Path | None) -> Iterator[Path]:
    """Yield the folder of a store; for None, a temporary one that is removed when the block ends."""
    if store is not None:
        yield Path(store).absolute()
        return
    REAL.boot_id()  # a system without POSIX is refused in one line
    from rmqcli.broker.disk.temporary import temporary_folder

    with temporary_folder() as temporary:
        yield temporary / "store"


def light_file_sizes(root: Path, disk: Disk = REAL) -> dict[str, int]:
    """Return small file sizes for a new store or a new index; existing files keep their sizes."""
    if disk.state(root / "commitlog") is None:
        return LIGHT_FILES | LIGHT_INDEX
    # A store does not adopt the length of a single short queue file, which may have been cut off.
    light = LIGHT_FILES["mapped_file_size_consume_queue"]
    queues = (queue for topic in disk.list(root / "consumequeue") for queue in disk.list(topic))
    states = (disk.state(file) for queue in queues for file in disk.list(queue))
    is_light = any(state is not None and state.size == light for state in states)
    return ({"mapped_file_size_consume_queue": light} if is_light else {}) | (
        {} if disk.list(root / "index") else LIGHT_INDEX
    )


def checked_config(settings: dict[str, Any]) -> BrokerConfig:
    """Return a configuration from snake_case settings. Raises ConfigError for unknown names and values of a
    wrong type.
    """
    unknown = settings.keys() - set(BrokerConfig.__struct_fields__)
    if unknown:
        raise ConfigError(f"no broker property is called {', '.join(sorted(unknown))}")
    try:
        # The constructor does not check types; a conversion does.
        return msgspec.convert(msgspec.to_builtins(BrokerConfig(**settings)), BrokerConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"configuration: {error}") from error


@contextmanager
def embedded_in_thread(**settings: Any) -> Iterator[Cluster]:
    """Run `embedded` in a thread until the block ends, for programs without trio. Raises the same
    exceptions."""
    started: Future[tuple[Cluster, trio.lowlevel.TrioToken, Callable[[], None]]] = Future()
    ended: Future[None] = Future()
    thread = threading.Thread(target=_run_in_thread, args=(settings, started, ended), name="rmq", daemon=True)
    thread.start()
    cluster, token, end = started.result()
    try:
        yield cluster
    finally:
        if not ended.done():
            token.run_sync_soon(end)
        thread.join()
        ended.result()


def _run_in_thread(settings: dict[str, Any], started: Future[Any], ended: Future[None]) -> None:
    address: Future[str] = Future()

    async def main() -> None:
        wanted, stop = trio.Event(), trio.Event()
        async with embedded(**settings) as cluster:
            token = trio.lowlevel.current_trio_token()

            def move_clock(milliseconds: int) -> None:
                # In a separate thread, because the caller may be a trio test.
                with ThreadPoolExecutor(1) as caller:
                    move = partial(
                        trio.from_thread.run_sync, cluster.move_clock, milliseconds, trio_token=token
                    )
                    caller.submit(move).result()

            def grpc() -> str:
                if not address.done():
                    token.run_sync_soon(wanted.set)
                return address.result()  # not trio.from_thread, which a trio test could not use

            def end() -> None:
                stop.set()
                wanted.set()

            if settings.get("grpc_port") is not None:
                address.set_result(cluster.grpc_endpoint)
            started.set_result((replace(cluster, move_clock=move_clock, grpc=grpc), token, end))
            await wanted.wait()
            if not stop.is_set():
                try:
                    address.set_result(await cluster.open_grpc(0))
                except Exception as error:  # raised in the threads that want the address
                    address.set_exception(error)
            await stop.wait()

    try:
        trio.run(main)
    except BaseException as error:  # passed on to the waiting thread, whatever it is
        (ended if started.done() else started).set_exception(error)
    else:
        ended.set_result(None)
    if not address.done():
        address.set_exception(ConfigError("this cluster has ended"))
