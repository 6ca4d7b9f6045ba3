"""The minimal gRPC server for the official client: h2 on trio, with fixed replies. Prints its port; ends on
SIGTERM.

Its messages have the size of those that a broker returns.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import h2.config
import h2.connection
import h2.events
import trio

from benchmarks.load import BODY
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import (
    AddressScheme,
    ClientType,
    Code,
    DigestType,
    Encoding,
    MessageType,
    Permission,
)
from rmqcli.codec.proxy.framing import prefixed

READ_SIZE = 256 * 1024
RECEIVED = 16
OK = messages.Status(code=Code.OK, message="OK")
HANDLE = "0 1764373218000 15000 0 0 broker-a 0 {} 123456789012 0"
_RETRIES = messages.ExponentialBackoff(
    initial=messages.Duration(seconds=1), max=messages.Duration(seconds=2), multiplier=2.0
)


def _route(request: Any) -> list[Any]:
    address = request.endpoints.addresses[0]
    endpoints = messages.Endpoints(scheme=AddressScheme.IPv4, addresses=[address])
    broker = messages.Broker(name="broker-a", id=0, endpoints=endpoints)
    kinds = [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION]
    queues = [
        messages.MessageQueue(
            topic=request.topic,
            id=number,
            permission=Permission.READ_WRITE,
            broker=broker,
            accept_message_types=kinds,
        )
        for number in range(8)
    ]
    return [messages.QueryRouteResponse(status=OK, message_queues=queues)]


def _sent(request: Any) -> list[Any]:
    message_id = request.messages[0].system_properties.message_id
    entry = messages.SendResultEntry(status=OK, message_id=message_id, offset=4711)
    return [messages.SendMessageResponse(status=OK, entries=[entry])]


def _message(number: int) -> Any:
    system = messages.SystemProperties(
        tag=f"tag{number % 3}",
        keys=[f"key-{number}"],
        message_id=f"01{number:032X}",
        body_digest=messages.Digest(type=DigestType.MD5, checksum=hashlib.md5(BODY).hexdigest().upper()),
        body_encoding=Encoding.IDENTITY,
        message_type=MessageType.NORMAL,
        born_timestamp=messages.Timestamp(seconds=1764373218),
        born_host="127.0.0.1:40000",
        store_timestamp=messages.Timestamp(seconds=1764373218),
        store_host="127.0.0.1:10911",
        receipt_handle=HANDLE.format(number),
        queue_offset=number,
        invisible_duration=messages.Duration(seconds=15),
        delivery_attempt=1,
    )
    return messages.Message(
        topic=messages.Resource(name="Bench"),
        user_properties={"number": str(number)},
        system_properties=system,
        body=BODY,
    )


def _received(_request: Any) -> list[Any]:
    return [
        messages.ReceiveMessageResponse(status=OK),
        *(messages.ReceiveMessageResponse(message=_message(number)) for number in range(RECEIVED)),
        messages.ReceiveMessageResponse(delivery_timestamp=messages.Timestamp(seconds=1764373218)),
    ]


def _acknowledged(request: Any) -> list[Any]:
    entries = [
        messages.AckMessageResultEntry(
            message_id=one.message_id, receipt_handle=one.receipt_handle, status=OK
        )
        for one in request.entries
    ]
    return [messages.AckMessageResponse(status=OK, entries=entries)]


def _settings(request: Any) -> list[Any]:
    settings = messages.Settings(
        client_type=ClientType.PRODUCER,
        publishing=messages.Publishing(max_body_size=4 << 20),
        backoff_policy=messages.RetryPolicy(max_attempts=3, exponential_backoff=_RETRIES),
    )
    return [messages.TelemetryCommand(status=OK, settings=settings)] if request.HasField("settings") else []


ANSWERS: dict[str, Callable[[Any], list[Any]]] = {
    "QueryRoute": _route,
    "SendMessage": _sent,
    "ReceiveMessage": _received,
    "AckMessage": _acknowledged,
    "Telemetry": _settings,
    "Heartbeat": lambda _: [messages.HeartbeatResponse(status=OK)],
    "NotifyClientTermination": lambda _: [messages.NotifyClientTerminationResponse(status=OK)],
}
FIXED = {"SendMessage", "ReceiveMessage", "AckMessage"}
METHODS = {method.path: method for method in messages.METHODS}


class Connection:
    """One connection. What the calls that are measured reply is encoded once."""

    def __init__(self) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self._paths: dict[int, str] = {}
        self._data: dict[int, bytes] = {}
        self._begun: set[int] = set()
        self._replies: dict[str, list[bytes]] = {}

    def receive(self, data: bytes) -> bytes:
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                self._paths[event.stream_id] = str(dict(event.headers)[":path"])  # type: ignore[index]
            elif isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self._data[event.stream_id] = self._data.get(event.stream_id, b"") + event.data
                if METHODS[self._paths[event.stream_id]].streams_requests:
                    self._answer(event.stream_id, ends=False)
            elif isinstance(event, h2.events.StreamEnded):
                self._answer(event.stream_id, ends=True)
        return self.h2.data_to_send()

    def _answer(self, stream: int, *, ends: bool) -> None:
        path, data = self._paths[stream], self._data.pop(stream, b"")
        method = METHODS[path]
        if stream not in self._begun:
            self._begun.add(stream)
            self.h2.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
            for reply in self._replies.get(path) or self._made(path, method, data):
                self.h2.send_data(stream, reply)
        if ends:
            self.h2.send_headers(stream, [("grpc-status", "0")], end_stream=True)

    def _made(self, path: str, method: messages.Method, data: bytes) -> list[bytes]:
        replies = ANSWERS[method.name](method.request.FromString(data[5:]))
        found = [prefixed(reply.SerializeToString()) for reply in replies]
        if method.name in FIXED:
            self._replies[path] = found
        return found


async def serve(stream: trio.SocketStream) -> None:
    """Serve one connection."""
    connection = Connection()
    with suppress(trio.BrokenResourceError):
        while data := await stream.receive_some(READ_SIZE):
            if reply := connection.receive(bytes(data)):
                await stream.send_all(reply)


async def main() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        print(listeners[0].socket.getsockname()[1], flush=True)
        with trio.open_signal_receiver(15) as signals:
            async for _ in signals:
                nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
    sys.exit(0)
