"""Values of a wrong kind, and clients outside of trio: one clear error at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rmqcli.client import (
    Admin,
    ClientInstance,
    InvalidRequest,
    LitePullConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
)
from rmqcli.codec.message import Message


async def never(*_: object) -> Any:
    raise AssertionError("not called")


CLIENTS: dict[str, Callable[[], Any]] = {
    "producer": Producer,
    "transactions": partial(TransactionProducer, "G", never),
    "push": partial(PushConsumer, "G", {"T": "*"}, never),
    "push, orderly": partial(PushConsumer, "G", {"T": "*"}, never, orderly=True),
    "pull": PullConsumer,
    "simple": partial(SimpleConsumer, "G", {"T": "*"}),
    "lite": partial(LitePullConsumer, "G"),
    "admin": Admin,
    "instance": ClientInstance,
}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_a_client_under_asyncio(client: Callable[[], Any]) -> None:
    async def program() -> None:
        async with client():
            raise AssertionError("it was entered")

    with pytest.raises(InvalidRequest) as caught:
        asyncio.run(program())
    assert str(caught.value) == (
        "rmqcli.client needs trio: run it with trio.run(…), or use rmqcli.client.aio with asyncio and "
        "rmqcli.client.sync with threads"
    )


@pytest.mark.parametrize("method", ["send", "send_oneway", "send_soon", "request", "send_batch"])
def test_a_send_under_asyncio(method: str) -> None:
    message = Message("T", b"x")
    with pytest.raises(InvalidRequest, match=r"needs trio|only inside its `async with` block"):
        asyncio.run(getattr(Producer(), method)([message] if method == "send_batch" else message))


def test_a_message_by_position() -> None:
    assert Message("T", b"x", 1, {"a": "b"}) == Message.of("T", "x", flag=1, properties={"a": "b"})


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        (
            lambda: Message("T", "x"),  # type: ignore[arg-type]
            "the body of a message is bytes, not str: encode it, or use Message.of",
        ),
        (lambda: Message("T", None), "the body of a message is bytes, not NoneType"),  # type: ignore[arg-type]
        (lambda: Message(b"T", b"x"), "the topic of a message is str, not bytes"),  # type: ignore[arg-type]
        (lambda: Message.of("T", 5), "the body of a message is bytes, not int"),  # type: ignore[arg-type]
        (
            lambda: Message.of("T", tags=["a"]),  # type: ignore[arg-type]
            "the tag of a message is str, not list",
        ),
        (
            lambda: Message.of("T", keys=[1]),  # type: ignore[list-item]
            "the keys of a message are texts, not [1]",
        ),
        (
            lambda: Message.of("T", delay_level="3"),  # type: ignore[arg-type]
            "the delay level of a message is int, not str",
        ),
        (
            lambda: Message.of("T", delay_level=1.5),  # type: ignore[arg-type]
            "the delay level of a message is int, not float",
        ),
    ],
)
def test_a_part_of_another_type(create: Callable[[], Message], reason: str) -> None:
    with pytest.raises(TypeError) as caught:
        create()
    assert str(caught.value) == reason


def test_a_negative_delay() -> None:
    with pytest.raises(ValueError, match="the delay level of a message is 0 or more, not -1"):
        Message.of("T", b"x", delay_level=-1)
