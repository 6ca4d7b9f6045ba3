"""A server with TLS on an in-memory stream, and its clients."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any

import trio
import trio.testing

from rmqcli.broker.net.server import Server
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from tests.broker.serving import ECHO, Client, echo


async def in_place(function: Callable[..., Any], *arguments: Any) -> Any:
    """Runs the work of a thread at once: a virtual clock waits for no thread."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


class TlsServer:
    """One server; each connection is a memory stream."""

    def __init__(self, nursery: trio.Nursery, acceptor: TlsAcceptor) -> None:
        self.server = Server({ECHO: echo}, tls=acceptor)
        self._nursery = nursery

    def plain(self) -> trio.abc.Stream:
        near, far = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self.server.adopt, far, ("127.0.0.1", 1))
        return near

    def tls(self, context: ssl.SSLContext) -> Client:
        return Client(self.stream(context))

    def stream(self, context: ssl.SSLContext) -> trio.SSLStream[trio.abc.Stream]:
        return trio.SSLStream(self.plain(), context, server_hostname="127.0.0.1", https_compatible=True)


async def tls_server(nursery: trio.Nursery, entries: Mapping[str, str], **limits: Any) -> TlsServer:
    acceptor = TlsAcceptor(entries, in_thread=in_place, **limits)
    await acceptor.load()
    found = TlsServer(nursery, acceptor)
    await nursery.start(found.server.serve)
    return found
