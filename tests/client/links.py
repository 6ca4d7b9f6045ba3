"""The peer's end of a connection, and requests whose result is recorded."""

from __future__ import annotations

from typing import Any

from rmqcli.client.errors import ConnectionLost, RequestTimeout
from rmqcli.client.wire.link import Link
from rmqcli.client.wire.requests import command
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection

ADDRESS = "broker:10911"


class Wire:
    """The peer's end: what it received, whole."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.protocol = Connection()

    async def commands(self) -> list[RemotingCommand]:
        return self.protocol.receive(await self.stream.receive_some())


async def ask(link: Link, results: dict[int, Any], number: int, timeout: float = 3.0) -> None:
    try:
        results[number] = await link.request(command(number), timeout)
    except (ConnectionLost, RequestTimeout) as error:
        results[number] = error
