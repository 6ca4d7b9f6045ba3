"""A console that serves an in-memory cluster, and requests to it over plain HTTP."""

from __future__ import annotations

import http.client
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import trio

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin, Producer
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.console.content import Content
from rmqcli.console.guard import Guard
from rmqcli.console.server import open_console
from rmqcli.console.shared import Live, Readings
from rmqcli.console.view import Console

OURS = frozenset(("localhost",))
WHOLE = Content()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


def ask(port: int, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(
        method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    found = connection.getresponse()
    text = found.read().decode()
    connection.close()
    return Answer(found.status, dict(found.getheaders()), text)


class Served(NamedTuple):
    port: int
    console: Console

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return await trio.to_thread.run_sync(partial(ask, self.port, path, method, **headers))


def console_of(admin: Admin, content: Content = WHOLE, interval: float = 5.0) -> Console:
    return Console(
        admin, "10.1.1.1:9876", "-n 10.1.1.1:9876", content, Live(admin, interval), Readings(interval)
    )


@asynccontextmanager
async def served(content: Content = WHOLE, token: str | None = None) -> AsyncIterator[Served]:
    async with (
        embedded_in_memory() as cluster,
        Admin(**cluster.client() | {"timeout": 3.0}) as admin,
        Producer("senders", **cluster.client()) as producer,
    ):
        await admin.topics.create("orders")
        body = b'{"name": "Ann <b>Lee</b>", "card": 4711}'
        message = Message(
            topic="orders", body=body, properties={"KEYS": "order-1", "email": "ann@example.com"}
        )
        await producer.send(message, queue=MessageQueue("orders", "broker-a", 0))
        console = console_of(admin, content)
        async with open_console("127.0.0.1", 0, console, Guard(OURS, token)) as port:
            yield Served(port, console)
