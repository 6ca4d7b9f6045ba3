"""Brokers for the tests of the clients for threads and for asyncio."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from rmqcli.client.hooks import Delivery, Sending


@contextmanager
def silent_broker() -> Iterator[str]:
    """A server that accepts connections and requests, and never replies: its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def slow_way(address: str, seconds: float) -> Iterator[str]:
    """A way to a server on which its bytes take some seconds: the address of the near end."""
    host, _, port = address.rpartition(":")
    sockets: list[socket.socket] = []

    def carry(source: socket.socket, target: socket.socket, delay: float) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                time.sleep(delay)
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def accept(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near = server.accept()[0]
                far = socket.create_connection((host, int(port)))
                sockets.extend([near, far])
                for way in ((near, far, 0.0), (far, near, seconds)):
                    threading.Thread(target=carry, args=way, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for one in sockets:
        one.close()


class ContextHook:
    """A hook that records the context variable `caller`, and sets it while a message is sent."""

    def __init__(self) -> None:
        self.caller = ContextVar("caller", default="nobody")
        self.seen: list[str] = []

    @contextmanager
    def send(self, sending: Sending) -> Iterator[None]:
        self.seen.append(self.caller.get())
        token = self.caller.set("hook")
        try:
            yield
        finally:
            self.caller.reset(token)

    @contextmanager
    def process(self, delivery: Delivery) -> Iterator[None]:
        yield

    def receive(self, delivery: Delivery, seconds: float) -> None:
        return
