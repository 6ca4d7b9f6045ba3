"""Topics to export: filled through a producer, or served by scripted brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.client import Producer, PullConsumer
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import Network, Reply, Server, route
from tests.codec.samples import make_record
from tests.export.support import Row
from tests.support import PATIENCE


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["queue_id"], row["queue_offset"]))


async def fill(cluster: Cluster, topic: str, count: int = 60) -> None:
    """Sends bodies of all kinds; one of them is large enough to be compressed."""
    async with Producer(
        "G_fill", namesrv=cluster.namesrv, timeout=PATIENCE, send_timeout=PATIENCE
    ) as producer:
        for number in range(count):
            message = Message.of(
                topic,
                b"\xff\x00" * (number + 1) if number != 7 else b"x" * 9000,
                tags=f"tag{number % 3}" if number % 4 else None,
                keys=[f"k{number}", "ü"] if number % 5 else (),
                properties={"a": "1", "ä": "ö"} if number % 2 else None,
                flag=number,
            )
            await producer.send(message)


def record(offset: int, size: int = 1, queue_id: int = 0) -> bytes:
    return make_record(
        topic=b"T",
        queue_id=queue_id,
        queue_offset=offset,
        physical_offset=offset * 100,
        store_timestamp=1000 + offset,
        body=b"x" * size,
        properties=b"",
    )


def message(offset: int) -> MessageExt:
    return decode_record(record(offset), 0)


class ScriptedTopic:
    """Queues of topic T: 0 and 2 on broker-a, 1 on broker-b. Each has the messages [first, end), stored at
    1000 ms and later, a millisecond apart; those before were deleted.

    Of queue 1 the first `failures` pulls from offset 40 on fail: the connection is lost, or the reply is
    `failing`.
    """

    def __init__(
        self, first: int, end: int, size: int = 1, failures: int = 0, failing: Reply | None = None
    ) -> None:
        self.failed = 0
        self._first, self._end, self._size = first, end, size
        self._failures, self._failing = failures, failing

    @asynccontextmanager
    async def client(self) -> AsyncIterator[PullConsumer]:
        async with trio.open_nursery() as nursery:
            network = Network(nursery)
            brokers = {"broker-a": {0: "a:10911"}, "broker-b": {0: "b:10911"}}
            routes = route({"T": {"broker-a": 3, "broker-b": 3}}, brokers)
            network.server("ns:9876", {RequestCode.GET_ROUTEINFO_BY_TOPIC: routes})
            for address in ("a:10911", "b:10911"):
                server = network.server(address)

                def reply(
                    command: RemotingCommand, server: Server = server
                ) -> RemotingCommand | bytes | None:
                    if not self._fails(command):
                        return self._pulled(command)
                    if self._failing is not None:
                        return self._failing(command)
                    nursery.start_soon(server.drop)
                    return None

                server.replies[RequestCode.PULL_MESSAGE] = reply
            options: dict[str, Any] = {
                "namesrv": "ns:9876",
                "open_stream": network.open_stream,
                "timeout": PATIENCE,
            }
            async with PullConsumer(**options) as consumer:
                yield consumer
            nursery.cancel_scope.cancel()

    def _fails(self, command: RemotingCommand) -> bool:
        header = from_ext(PullMessageRequestHeader, command.ext_fields)
        if header.queue_id != 1 or header.queue_offset < 40 or self.failed == self._failures:
            return False
        self.failed += 1
        return True

    def _pulled(self, command: RemotingCommand) -> RemotingCommand:
        header = from_ext(PullMessageRequestHeader, command.ext_fields)
        offset = following = header.queue_offset
        code, body = ResponseCode.PULL_NOT_FOUND, b""
        if offset < self._first:
            code, following = ResponseCode.PULL_OFFSET_MOVED, self._first
        elif offset < self._end:
            code, following = ResponseCode.SUCCESS, min(offset + 32, self._end)
            body = b"".join(record(n, self._size, header.queue_id) for n in range(offset, following))
        fields = {
            "suggestWhichBrokerId": 0,
            "nextBeginOffset": following,
            "minOffset": self._first,
            "maxOffset": self._end,
        }
        return command.reply(code, None, {name: str(value) for name, value in fields.items()}, body)
