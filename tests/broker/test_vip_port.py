"""The second port of a broker, to which Java clients with a VIP channel send."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.errors import VipPortTaken
from rmqcli.broker.net.network import open_listeners
from rmqcli.client import Producer
from rmqcli.codec.message import Message

PORT = 10911


class Taken:
    """A network on which some ports are in use; `bound` are those that are listened on."""

    def __init__(self, *ports: int) -> None:
        self.taken, self.bound = set(ports), list[int]()

    def listen(self, host: str, port: int, backlog: int = 0) -> Any:
        if port in self.taken:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self.bound.append(port)
        return _Listener(lambda: self.bound.remove(port))

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        raise NotImplementedError


class _Listener:
    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close


@pytest.mark.parametrize(
    ("port", "vip", "bound"),
    [
        (PORT, True, [PORT, PORT - 2]),
        (PORT, False, [PORT]),
        (0, True, [0]),
        (2, True, [2]),
        (3, True, [3, 1]),
    ],
)
def test_the_ports_of_a_broker(port: int, vip: bool, bound: list[int]) -> None:
    network = Taken()
    open_listeners(network, "", port, 1, vip=vip, needs_vip=True)
    assert network.bound == bound


def test_a_port_in_use_is_an_error_with_a_remedy(caplog: pytest.LogCaptureFixture) -> None:
    network = Taken(PORT - 2)
    with pytest.raises(VipPortTaken) as caught:
        open_listeners(network, "", PORT, 1, vip=True, needs_vip=True)
    assert str(caught.value) == (
        "port 10909 of the VIP channel (listenPort - 2): Address already in use; "
        "choose another listenPort, or set vipChannelEnabled=false"
    )
    assert network.bound == []
    with caplog.at_level(logging.WARNING):
        open_listeners(network, "", PORT, 1, vip=True, needs_vip=False)
    assert network.bound == [PORT]
    assert "port 10909 of the VIP channel" in caplog.text


@pytest.mark.parametrize("enabled", [True, False])
async def test_requests_to_the_vip_port(autojump_clock: trio.abc.Clock, enabled: bool) -> None:
    async with broker.embedded_in_memory(vip_channel_enabled=enabled) as cluster:
        options = cluster.client()
        open_stream = options.pop("open_stream")

        async def to_vip(host: str, port: int) -> trio.abc.Stream:
            is_broker = f"{host}:{port}" == cluster.broker_address
            stream: trio.abc.Stream = await open_stream(host, port - 2 if is_broker else port)
            return stream

        async with Producer("P", open_stream=to_vip, retries=0, **options) as producer:
            if enabled:
                assert (await producer.send(Message.of("T", "x"))).queue_offset == 0
            else:
                with pytest.raises(Exception, match="refused"):
                    await producer.send(Message.of("T", "x"))
