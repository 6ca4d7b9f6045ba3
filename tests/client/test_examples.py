"""Every public name of the client library has an example in its docstring, which runs."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import runpy
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli import client
from rmqcli.broker import embedded_in_memory
from rmqcli.client import Admin, Message, Producer, PullConsumer
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from tests.docs.pages import ROOT

NAMES: list[str] = vars(client)["__all__"]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CLIENTS = [
    *("Admin", "ClientInstance", "LitePullConsumer", "Producer"),
    *("PullConsumer", "PushConsumer", "SimpleConsumer", "TransactionProducer"),
]


@functools.cache
def page() -> Any:
    return runpy.run_path(str(ROOT / ".ci" / "reference.py"))["read"]("rmqcli.client")


def bound(create: Callable[..., Any], options: Callable[[], dict[str, Any]]) -> Callable[..., Any]:
    """Return the class of a client whose options lead to the cluster, unless it shares an instance."""

    @functools.wraps(create)
    def with_options(*arguments: Any, **given: Any) -> Any:
        return create(*arguments, **(given if "instance" in given else options() | given))

    return with_options


@pytest.mark.parametrize("name", NAMES)
async def test_example(name: str, autojump_clock: MockClock) -> None:
    (text,) = EXAMPLE.findall(page().get(name).docstring)
    code = compile(text, f"<example of {name}>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    settings: dict[str, Any] = {"default_topic_queue_nums": 1, "enable_property_filter": True}
    async with (
        embedded_in_memory(**settings) as cluster,
        Admin(**cluster.client()) as admin,
        Producer("shop", **cluster.client()) as producer,
    ):
        sent = await producer.send(Message.of("orders", b"hello", tags="paid"))
        await admin.groups.create(SubscriptionGroupConfig("billing"))
        async with PullConsumer("billing", **cluster.client()) as consumer:
            await consumer.commit(sent.message_queue, 0)
        names = {public: getattr(client, public) for public in NAMES}
        names |= {public: bound(names[public], cluster.client) for public in CLIENTS}
        running = eval(code, names | {"trio": trio, "producer": producer, "admin": admin})
        if inspect.isawaitable(running):
            await running
