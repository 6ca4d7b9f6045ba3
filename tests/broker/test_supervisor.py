"""The policy for background services, and clusters in which each of them fails once."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Coroutine, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.broker.config import BrokerConfig, NamesrvConfig
from rmqcli.broker.errors import ServiceFailed
from rmqcli.broker.namesrv import open_name_server
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.net.peers import Peers
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.node import BrokerNode, open_broker
from rmqcli.broker.supervisor import RETRY_SECONDS, Service, Supervisor, open_services
from rmqcli.broker.testing.in_memory import HOST, MemoryNetwork
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.support import SMALL_FILES, inline, pull_header, send_header, virtual_now
from tests.certificates import make_certificates
from tests.support import PATIENCE

STORE = [
    "group commit",
    "flush commit log",
    "flush consume queues",
    "retention",
    "free space",
    "prepared files",
    "late arrivals",
    "residency",
    "page ahead",
]
BROKER = [
    "delay level 1",
    "held pulls",
    "pops",
    "save pops",
    "long work",
    "client expiry",
    "timers",
    "transaction checks",
    "statistics",
    "store rates",
    "announcer",
    "save offsets",
    "save delay offsets",
    "save filters",
    "save topics and groups",
    "registration",
    "registration flush",
    "registration idle connections",
    "registration incomplete frames",
    "broker busy poll",
    "broker flush",
    "broker idle connections",
    "broker incomplete frames",
    "broker certificates",
    "broker accept",
    "replication accept",
]
NAMESRV = [
    "broker expiry",
    "namesrv long work",
    "namesrv flush",
    "namesrv idle connections",
    "namesrv incomplete frames",
    "namesrv certificates",
    "namesrv accept",
]
SERVICES = [*STORE, *BROKER, *NAMESRV]
ONLY_ASYNC = "page ahead"
"""A service that SYNC_FLUSH does not have."""
ONLY_TCP = "accept", "busy poll"
"""Ends of the names of services that a network in memory does not have."""
KINDS = {
    "SYNC_FLUSH": [name for name in SERVICES if name != ONLY_ASYNC and not name.endswith(ONLY_TCP)],
    "ASYNC_FLUSH": [ONLY_ASYNC],
    "TCP": [name for name in SERVICES if name.endswith(ONLY_TCP)],
}
"""Services by the cluster that has them."""


class Breaking(Supervisor):
    """Makes the first wait of some services fail; `runs` are the names of all services in the order of their
    starts.
    """

    def __init__(self, broken: Collection[str] = (), error: type[Exception] = OSError) -> None:
        super().__init__()
        self.runs: list[str] = []
        self._broken = set(broken)
        self._error = error

    async def run_once(self, name: str, service: Service) -> None:
        self.runs.append(name)
        if name not in self._broken:
            return await super().run_once(name, service)
        self._broken.remove(name)
        return await FirstWaitFails(service(), self._error("the disk is slow"))  # type: ignore[arg-type]


class FirstWaitFails:
    """Runs a coroutine whose first wait is aborted as by a cancellation, but raises `error`."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], error: Exception) -> None:
        self._coroutine = coroutine
        self._error = error

    def __await__(self) -> Generator[Any, Any, None]:
        trap = self._coroutine.send(None)
        if hasattr(trap, "abort_func"):
            assert trap.abort_func(lambda: None) is trio.lowlevel.Abort.SUCCEEDED
        self._coroutine.throw(self._error)
        pytest.fail("the service handled the error itself")


class Cluster:
    """A name server and a broker under one supervisor, and the connections of a client."""

    def __init__(self, namesrv: str, node: BrokerNode, peers: Peers) -> None:
        self.namesrv = namesrv
        self.node = node
        self._peers = peers

    async def ask(self, code: int, ext: dict[str, str], body: bytes = b"", *, names: bool = False) -> Any:
        return await self._peers.request(
            self.namesrv if names else self.node.address, RemotingCommand(code, ext, body), 30
        )

    async def send(self, topic: str, **properties: str) -> None:
        reply = await self.ask(310, to_ext(send_header(topic, properties)), b"x")
        assert reply.code == ResponseCode.SUCCESS

    async def pull(self, topic: str, offset: int) -> None:
        """A pull that is held until there is a message."""
        reply = await self.ask(11, pull_header(topic, 0, offset, sys_flag=6, suspend_ms=15_000))
        assert reply.code == ResponseCode.SUCCESS


@asynccontextmanager
async def cluster(
    root: Path, supervisor: Supervisor, *, tcp: bool = False, **settings: Any
) -> AsyncIterator[Cluster]:
    async with open_services() as services:
        network: Network = TCP if tcp else MemoryNetwork(services.nursery)
        ports = itertools.repeat(0) if tcp else itertools.count(10911)
        entries = make_certificates(root / "tls").server("permissive")
        async with open_name_server(
            NamesrvConfig(kv_config_path=None),
            host=HOST,
            port=next(ports),
            now_ms=virtual_now,
            network=network,
            supervisor=supervisor,
            tls=TlsAcceptor(entries, in_thread=inline),
        ) as names:
            config = BrokerConfig(
                **SMALL_FILES,
                namesrv_addr=names.address,
                bind_address=HOST,
                listen_port=next(ports),
                message_delay_level="1s",
                register_name_server_period=10_000,
                store_path_root_dir=str(root),
                **settings,
            )
            async with open_broker(
                config,
                now_ms=virtual_now,
                rng=random.Random(1),
                network=network,
                in_thread=inline,
                supervisor=supervisor,
                tls=TlsAcceptor(entries, in_thread=inline),
            ) as broker:
                peers = Peers("client", network=network)
                await services.nursery.start(peers.run)
                yield Cluster(names.address, broker, peers)


async def everything_works(running: Cluster, root: Path) -> None:
    """Sends, held pulls, delayed messages, saved tables and registration."""
    await running.send("T")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.pull, "T", 1)
        await trio.sleep(1)
        await running.send("T")
    await running.send("T", DELAY="1")
    await running.pull("T", 2)
    offset = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "3"}
    assert (await running.ask(15, offset)).code == ResponseCode.SUCCESS
    await trio.sleep(12)
    saved = {path.name for path in (root / "config").glob("*.json")}
    assert saved >= {"topics.json", "consumerOffset.json", "delayOffset.json"}
    route = await running.ask(105, {"topic": "T"}, names=True)
    assert route.code == ResponseCode.SUCCESS


@pytest.fixture
def clock(autojump_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    return autojump_clock


async def test_every_service_of_a_cluster_is_in_the_list(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    clock.autojump_threshold = 0.02
    supervisor = Breaking()
    async with cluster(tmp_path, supervisor, tcp=True):
        await trio.sleep(1)
    assert sorted(supervisor.runs) == sorted(SERVICES)
    assert not supervisor.errors


@pytest.mark.parametrize("kind", KINDS)
async def test_services_that_meet_an_os_error_start_again(
    kind: str, tmp_path: Path, clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    names, tcp = KINDS[kind], kind == "TCP"
    if tcp:
        clock.autojump_threshold = 0.02
    supervisor = Breaking(names)
    flush = "ASYNC_FLUSH" if kind == "ASYNC_FLUSH" else "SYNC_FLUSH"
    async with cluster(tmp_path, supervisor, tcp=tcp, flush_disk_type=flush) as running:
        await trio.sleep(2 * RETRY_SECONDS)
        await everything_works(running, tmp_path)
        assert running.node.service_errors == dict.fromkeys(names, 1)
    assert supervisor.errors == dict.fromkeys(names, 1)
    for name in names:
        assert supervisor.runs.count(name) == 2, name
        assert f"service {name}: the disk is slow; it restarts in 1 s" in caplog.text


@pytest.mark.parametrize("name", SERVICES)
async def test_a_programming_error_in_a_service_ends_the_cluster(
    name: str, tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    tcp = name.endswith(ONLY_TCP)
    if tcp:
        clock.autojump_threshold = 0.02
    supervisor = Breaking([name], KeyError)
    text = f"service {name} failed: KeyError: 'the disk is slow'"
    with pytest.raises(ServiceFailed, match=f"^{text} \\(\\w+.py:\\d+\\)$"):
        async with cluster(tmp_path, supervisor, tcp=tcp):
            await trio.sleep(60)
    assert not (tmp_path / "abort").exists(), "the store was closed cleanly"


async def test_errors_of_several_tasks_of_a_service_count_as_one(clock: trio.testing.MockClock) -> None:
    supervisor, times = Supervisor(), []

    async def fail() -> None:
        raise OSError

    async def service() -> None:
        times.append(trio.current_time())
        if len(times) < 3:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)
                nursery.start_soon(fail)

    await supervisor.keep_running("test", service)
    assert supervisor.errors == {"test": 2}
    assert [time - times[0] for time in times] == [0, RETRY_SECONDS, 2 * RETRY_SECONDS]


async def test_an_exception_of_the_block_is_not_grouped() -> None:
    with pytest.raises(LookupError, match="of the block"):
        async with open_services() as services:
            services.start("test", trio.sleep_forever)
            raise LookupError("of the block")


@pytest.mark.parametrize("command", ["up", "broker", "namesrv"])
def test_a_command_ends_with_one_line_and_exit_code_1(command: str, tmp_path: Path) -> None:
    code = """
import sys
from rmqcli.broker.supervisor import Supervisor
from rmqcli.__main__ import main

async def fail(_supervisor, _name, _service):
    raise KeyError("x")

Supervisor.run_once = fail
sys.argv[0] = "rmq"
main()
"""
    options = {
        "up": ["--port", "0", "--namesrv-port", "0"],
        "broker": ["--set", "listenPort=0", "--set", f"storePathRootDir={tmp_path}"],
        "namesrv": ["--set", "listenPort=0", "--set", "kvConfigPath=", "--set", "configStorePath="],
    }[command]
    done = subprocess.run(
        [sys.executable, "-c", code, command, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(" failed: KeyError: 'x' (<string>:7)")
    assert "Traceback" not in done.stderr
