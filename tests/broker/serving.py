"""A server in a test, over an in-memory stream or over real sockets, and one end of a connection to it."""

from __future__ import annotations

import socket
from collections.abc import Callable

import trio
import trio.testing

from rmqcli.broker.net.dispatch import Gate, HandlerTable
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.net.network import TCP
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import encode_frame

ECHO, FAIL, VIEWS, SILENT, LATER = 1001, 1002, 1003, 1004, 1005


def echo(_session: Session, request: RemotingCommand) -> RemotingCommand:
    return request.reply(0, request.remark, request.ext_fields, request.body)


class Wire:
    """A transport that receives one block of data; `answered` is what was sent, `deeds` the sizes of the
    writes.
    """

    def __init__(self, data: bytes, deeds: list[object] | None = None) -> None:
        self.incoming = [data, b""]
        self.answered = b""
        self.deeds: list[object] = [] if deeds is None else deeds

    async def receive(self, pace: object = None) -> bytes:
        await trio.testing.wait_all_tasks_blocked()
        return self.incoming.pop(0)

    def send_now(self, buffers: list[bytes | memoryview]) -> int:
        data = b"".join(buffers)
        self.answered += data
        self.deeds.append(len(data))
        buffers.clear()
        return len(data)

    async def send_some(self, buffers: list[bytes | memoryview]) -> int:
        await trio.lowlevel.checkpoint()
        return self.send_now(buffers)

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()

    def replies(self) -> list[RemotingCommand]:
        return Connection().receive(self.answered)


class Client:
    """One end of a connection, frame by frame."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.connection = Connection()
        self.received: list[RemotingCommand] = []

    async def send(self, *commands: RemotingCommand) -> None:
        await self.stream.send_all(b"".join(encode_frame(command) for command in commands))

    async def next(self) -> RemotingCommand:
        while not self.received:
            data = await self.stream.receive_some(65536)
            assert data, "the server closed the connection"
            self.received += self.connection.receive(bytes(data))
        return self.received.pop(0)

    async def ask(self, command: RemotingCommand) -> RemotingCommand:
        """The next response; requests of the server that arrive before it stay for `next`."""
        await self.send(command)
        requests: list[RemotingCommand] = []
        while not (found := await self.next()).is_response:
            requests.append(found)
        self.received[:0] = requests
        return found

    async def is_closed_after_reading(self) -> bool:
        """Reads to the end of the stream."""
        while not await self.is_closed():
            await trio.lowlevel.checkpoint()
        return True

    async def is_closed(self) -> bool:
        try:
            return await self.stream.receive_some(65536) == b""
        except trio.BrokenResourceError:
            return True


async def connect(address: str) -> Client:
    """A client of a server at "ip:port"."""
    host, _, port = address.rpartition(":")
    return Client(await trio.open_tcp_stream(host, int(port)))


def request(code: int = ECHO, opaque: int = 7, **fields: object) -> RemotingCommand:
    return RemotingCommand(code, opaque=opaque, **fields)  # type: ignore[arg-type]


async def in_memory(
    nursery: trio.Nursery, handlers: HandlerTable, limits: ServerLimits | None = None
) -> tuple[Client, Server]:
    near, far = trio.testing.memory_stream_pair()
    server = Server(handlers, limits=limits)
    nursery.start_soon(server.serve_stream, far)
    return Client(near), server


async def over_tcp(
    nursery: trio.Nursery,
    handlers: HandlerTable,
    limits: ServerLimits | None = None,
    tls: TlsAcceptor | None = None,
    gate: Gate | None = None,
) -> tuple[Callable[[], trio.abc.Stream], Server]:
    listener = TCP.listen("127.0.0.1", 0)

    def connect() -> trio.abc.Stream:
        sock = socket.create_connection(listener.address)
        return trio.SocketStream(trio.socket.from_stdlib_socket(sock))

    server = Server(handlers, limits=limits, tls=tls, gate=gate)
    return connect, await nursery.start(server.serve, listener.sockets)


def raising(error: Exception) -> Callable[[Session, RemotingCommand], RemotingCommand]:
    def handler(_session: Session, _request: RemotingCommand) -> RemotingCommand:
        raise error

    return handler
