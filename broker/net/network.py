"""How a node is reached and reaches others: TCP, or streams in memory (`broker.testing.memory_network`)."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol

import trio

from broker.net.server import Server, listen, listener_address

__all__ = ["TCP", "Listener", "Network", "TcpListener", "TcpNetwork"]


class Listener(Protocol):
    """An address that is taken. `sockets` are what a server accepts from by itself."""

    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def sockets(self) -> Sequence[socket.socket]: ...

    def serve_with(self, server: Server) -> None:
        """From now on connections are this server's."""

    def close(self) -> None: ...


class Network(Protocol):
    """Where addresses are."""

    def listen(self, host: str, port: int, backlog: int = ...) -> Listener:
        """Takes an address, port 0 for any free one. Raises OSError."""

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """A connection to an address. Raises OSError."""


class TcpListener:
    """A listening socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sockets = (sock,)
        self.address = listener_address(sock)

    def serve_with(self, server: Server) -> None:
        """The server has the socket."""

    def close(self) -> None:
        self.sockets[0].close()


class TcpNetwork:
    """The network of this machine."""

    def listen(self, host: str, port: int, backlog: int = 1024) -> TcpListener:
        return TcpListener(listen(host, port, backlog))

    async def open_stream(self, host: str, port: int) -> trio.SocketStream:
        return await trio.open_tcp_stream(host, port)


TCP = TcpNetwork()
