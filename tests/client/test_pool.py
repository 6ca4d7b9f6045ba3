"""The share of connecting in the timeout of a request."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from codec.codes import RequestCode
from rmqcli.client.errors import ConnectionFailed, RequestTimeout
from rmqcli.client.wire.pool import Pool
from rmqcli.client.wire.requests import command
from tests.client.scripted import Network, silent

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
