"""Connecting: its share in the timeout of a request, and its failures."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from rmqcli.client.errors import ConnectionFailed, InvalidRequest, RequestTimeout
from rmqcli.client.instance import ClientInstance
from rmqcli.client.wire.pool import Pool
from rmqcli.client.wire.requests import command
from rmqcli.client.wire.streams import open_tcp
from rmqcli.codec.codes import RequestCode
from tests.client.scripted import Network, silent
from tests.support import PATIENCE

BROKER = "b:10911"
CONNECTING = 0.2


async def test_a_timeout_is_reported_in_full_after_a_slow_connect(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    network = Network(nursery)
    network.server(BROKER, {RequestCode.GET_MAX_OFFSET: silent})

    async def slowly(host: str, port: int) -> Any:
        await trio.sleep(CONNECTING)
        return await network.open_stream(host, port)

    pool = Pool(lambda: nursery, slowly)
    began = trio.current_time()
    with pytest.raises(RequestTimeout) as caught:
        await pool.request(BROKER, command(RequestCode.GET_MAX_OFFSET), 0.5)
    assert trio.current_time() - began == pytest.approx(0.5)
    assert str(caught.value) == f"{BROKER} did not answer GET_MAX_OFFSET within 0.5 s"
    nursery.cancel_scope.cancel()


async def test_the_time_left_to_connect_is_shown_in_two_digits(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async def never(host: str, port: int) -> Any:
        await trio.sleep_forever()

    pool = Pool(lambda: nursery, never)
    with pytest.raises(ConnectionFailed, match=r"cannot connect to b:10911: no answer within 0\.5 s$"):
        await pool.request(BROKER, command(RequestCode.GET_MAX_OFFSET), 0.4999)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".b"])
async def test_a_host_name_that_cannot_be_encoded(host: str, nursery: trio.Nursery) -> None:
    pool = Pool(lambda: nursery, open_tcp)
    with pytest.raises(ConnectionFailed, match=f"cannot connect to {host}:10911: "):
        await pool.request(f"{host}:10911", command(RequestCode.GET_MAX_OFFSET), PATIENCE)


async def test_a_connection_that_opens_after_the_block_is_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ours, theirs = memory_stream_pair()

    async def slowly(host: str, port: int) -> Any:
        await trio.sleep(1)
        return ours

    async with trio.open_nursery() as nursery, ClientInstance(BROKER, open_stream=slowly) as instance:

        async def ask() -> None:
            with pytest.raises(InvalidRequest, match="inside its `async with` block"):
                await instance.call(BROKER, RequestCode.GET_MAX_OFFSET)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
    assert await theirs.receive_some() == b""
