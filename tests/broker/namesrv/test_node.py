"""A name server that runs: sockets, silence, lost connections."""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.config import NamesrvConfig
from rmqcli.broker.errors import StoreDamaged
from rmqcli.broker.namesrv import open_name_server
from rmqcli.broker.namesrv.kv_config import KVConfig
from rmqcli.broker.namesrv.node import bound_handlers, run_expiry
from rmqcli.broker.namesrv.route_table import Broker, LiveBroker
from rmqcli.broker.namesrv.state import NameServerState
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.turns import Turns
from rmqcli.codec.bodies.config import DataVersion
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.namesrv.support import NO_FILES, identity, registration, topic
from tests.broker.serving import Client, connect
from tests.support import PATIENCE

REGISTER = RemotingCommand(RequestCode.REGISTER_BROKER, identity(), registration(topic("T")))
ROUTE = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})


async def test_it_serves_as_soon_as_it_is_open_and_frees_its_port() -> None:
    async with open_name_server(NO_FILES, port=0) as server:
        broker, client = await connect(server.address), await connect(server.address)
        assert (await broker.ask(REGISTER)).code == ResponseCode.SUCCESS
        assert (await client.ask(ROUTE)).code == ResponseCode.SUCCESS
        assert (await client.ask(RemotingCommand(9999))).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert server.address == f"127.0.0.1:{server.port}"
    assert await client.is_closed()
    with pytest.raises(OSError, match="connect"):
        await connect(server.address)


async def test_a_broker_goes_at_once_with_its_connection() -> None:
    async with open_name_server(NO_FILES, port=0) as server:
        broker, client = await connect(server.address), await connect(server.address)
        await broker.ask(REGISTER)
        assert (await client.ask(ROUTE)).code == ResponseCode.SUCCESS
        await broker.stream.aclose()
        with trio.fail_after(PATIENCE):
            while (await client.ask(ROUTE)).code == ResponseCode.SUCCESS:
                await trio.lowlevel.checkpoint()


async def test_a_silent_broker_is_forgotten_after_two_minutes_and_its_connection_closed(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rmqcli.broker")
    state = NameServerState(NO_FILES, KVConfig(), lambda: int(trio.current_time() * 1000))
    server = Server(bound_handlers(state))
    near, far = trio.testing.memory_stream_pair()
    nursery.start_soon(server.serve_stream, far)
    nursery.start_soon(run_expiry, state, Turns())
    broker = Client(near)
    await broker.ask(REGISTER)
    await trio.sleep(60)
    await broker.ask(REGISTER)
    start = trio.current_time()
    while state.routes.route("T") is not None:
        if trio.current_time() - start < 110:
            assert (await broker.ask(ROUTE)).code == ResponseCode.SUCCESS  # traffic, but no registration
        await trio.sleep(5)
    assert 120 <= trio.current_time() - start <= 140
    with trio.fail_after(PATIENCE):  # an idle connection would live on
        assert await broker.is_closed()
    assert "expired" in caplog.text


async def test_an_open_name_server_looks_for_silent_brokers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_name_server(NO_FILES, port=0, now_ms=lambda: int(trio.current_time() * 1000)) as server:
        live = LiveBroker(server.state.now_ms(), DataVersion(), None, "")
        server.state.routes.register(Broker("C", "b", 0, "10.0.0.1:10911"), live, [topic("T")])
        await trio.sleep(100)
        assert server.state.routes.topics() == ["T"]
        await trio.sleep(40)
        assert server.state.routes.topics() == []


async def test_errors_at_the_start_and_inside_come_out_bare(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        async with open_name_server(NO_FILES, port=taken.getsockname()[1]):
            pass
    path = tmp_path / "kvConfig.json"
    path.write_text("{")
    with pytest.raises(StoreDamaged):
        async with open_name_server(NamesrvConfig(kv_config_path=str(path)), port=0):
            pass
    with pytest.raises(ZeroDivisionError):
        async with open_name_server(NO_FILES, port=0):
            raise ZeroDivisionError


async def test_opening_takes_little_time() -> None:
    seconds = []
    for _ in range(5):
        start = time.process_time()
        async with open_name_server(NO_FILES, port=0):
            seconds.append(time.process_time() - start)
    assert min(seconds) < 0.05
