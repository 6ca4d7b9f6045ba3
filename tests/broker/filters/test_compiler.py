"""Long expressions are compiled once, in a worker thread; nothing else in the event loop waits for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.filters import Compiler
from rmqcli.broker.filters.compiler import KEPT, LONG
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.selector import Dialect
from tests.broker.support import Client, fake_broker, pull_header

LONG_TEXT = " OR ".join(f"a = {n}" for n in range(100))
INVALID = LONG_TEXT + " OR"


class Threads:
    """Stands in for worker threads: counts the calls, and holds them until `go`."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.go = trio.Event()

    async def __call__(self, function: Callable[..., Any], *args: Any, **_options: Any) -> Any:
        self.texts.append(args[0])
        await self.go.wait()
        return function(*args)


def compiler(threads: Threads) -> Compiler:
    return Compiler(Dialect.V4_9, threads)


def test_a_short_expression_is_compiled_at_once() -> None:
    one = compiler(Threads())
    assert one.slow(["a = 1", None, ""]) == []
    assert one.compiled("a = 1", "SQL92").matches({"a": "1"})


async def test_a_long_expression_is_compiled_once_in_a_thread(autojump_clock: Any) -> None:
    threads = Threads()
    one = compiler(threads)
    assert len(LONG_TEXT) > LONG
    assert one.slow([LONG_TEXT]) == [LONG_TEXT]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.prepare, [LONG_TEXT])
        nursery.start_soon(one.prepare, [LONG_TEXT, INVALID])
        await trio.testing.wait_all_tasks_blocked()
        assert threads.texts == [LONG_TEXT]
        threads.go.set()
    assert threads.texts == [LONG_TEXT, INVALID]
    assert one.slow([LONG_TEXT, INVALID]) == []
    assert one.compiled(LONG_TEXT, "SQL92").matches({"a": "7"})


async def test_a_refusal_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads()
    threads.go.set()
    one = compiler(threads)
    await one.prepare([INVALID])
    for text in ("a >", INVALID):
        with pytest.raises(SelectorError):
            one.compiled(text, "SQL92")
    monkeypatch.setattr("rmqcli.broker.filters.compiler.parse_sql92", None)
    for text in ("a >", INVALID):
        with pytest.raises(SelectorError):
            one.compiled(text, "SQL92")


async def test_a_bounded_number_is_kept() -> None:
    threads = Threads()
    threads.go.set()
    one = compiler(threads)
    texts = [f"{LONG_TEXT} OR b = {n}" for n in range(KEPT + 1)]
    await one.prepare(texts)
    assert one.slow(texts) == texts[:1]


def test_another_type_is_refused() -> None:
    with pytest.raises(SelectorError, match="no filter of type 'X'"):
        compiler(Threads()).compiled("a = 1", "X")


# ---- the handlers


def subscription(text: str) -> SubscriptionData:
    return SubscriptionData(topic="T", sub_string=text, expression_type="SQL92", sub_version=1)


def a_pull(client: Client, text: str) -> int:
    header = pull_header("T", expression=text, count=1)
    return client.post(11, {**header, "expressionType": "SQL92"})


def a_check(client: Client, text: str) -> int:
    body = CheckClientRequestBody(client_id="c", group="G", subscription_data=subscription(text))
    return client.post(46, None, encode_body(body))


def a_heartbeat(client: Client, text: str) -> int:
    consumer = ConsumerData(group_name="G", subscription_data_set=[subscription(text)])
    return client.post(34, None, encode_body(HeartbeatData(client_id="c", consumer_data_set=[consumer])))


@pytest.mark.parametrize("ask", [a_pull, a_check, a_heartbeat])
async def test_other_clients_are_served_while_a_long_expression_compiles(
    tmp_path: Path, ask: Callable[[Client, str], int], autojump_clock: Any
) -> None:
    threads = Threads()
    async with fake_broker(tmp_path, enable_property_filter=True) as broker:
        client, other = broker.client(), broker.client()
        await other.send("T", properties={"a": "7"})
        await client.heartbeat("G", "T")
        broker.context.filters.compiler = compiler(threads)
        opaque = ask(client, LONG_TEXT)
        await trio.testing.wait_all_tasks_blocked()
        assert threads.texts == [LONG_TEXT]
        assert client.replies(opaque) == []
        assert (await other.send("T")).code == ResponseCode.SUCCESS
        threads.go.set()
        assert (await client.wait(opaque)).code == ResponseCode.SUCCESS
        again = ask(client, LONG_TEXT)
        assert client.replies(again), "it is compiled: the reply comes at once"


async def test_an_invalid_long_expression_is_refused_later(tmp_path: Path, autojump_clock: Any) -> None:
    threads = Threads()
    threads.go.set()
    async with fake_broker(tmp_path, enable_property_filter=True) as broker:
        broker.context.filters.compiler = compiler(threads)
        client = broker.client()
        reply = await client.wait(a_check(client, INVALID))
        assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
