"""Asynchronous sends: callbacks, the limit, and leaving the producer's block."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.client import (
    BrokerRefused,
    ClientInstance,
    InvalidRequest,
    Producer,
    RequestTimeout,
    SendResult,
    SendStatus,
)
from rmqcli.client.hooks import Sending
from rmqcli.client.produce.outgoing import COMPRESS_IN_THREAD
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from tests.client.scripted import HEARTBEATS, Network, Server, refuse, route, sent, silent

NAMESRV, A, TOPIC = "ns:9876", "a:10911", "T"
SEND = RequestCode.SEND_MESSAGE_V2


@pytest.fixture
def server(network: Network) -> Server:
    network.server(
        NAMESRV,
        {RequestCode.GET_ROUTEINFO_BY_TOPIC: route({TOPIC: {"broker-a": 2}}, {"broker-a": {0: A}})},
    )
    return network.server(A, {SEND: sent, **HEARTBEATS})


@asynccontextmanager
async def producing(network: Network, **options: Any) -> AsyncIterator[Producer]:
    async with Producer("PG", namesrv=NAMESRV, open_stream=network.open_stream, **options) as producer:
        yield producer


def message(text: str = "x") -> Message:
    return Message.of(TOPIC, text)


def told_by(form: str, outcomes: list[SendResult | Exception]) -> Callable[[SendResult | Exception], object]:
    async def later(outcome: SendResult | Exception) -> None:
        await trio.sleep(1)
        outcomes.append(outcome)

    forms: dict[str, Callable[[SendResult | Exception], object]] = {
        "plain": outcomes.append,
        "async": later,
        "gives something to await": partial(later),
    }
    return forms[form]


@pytest.mark.parametrize("form", ["plain", "async", "gives something to await"])
async def test_callback_gets_the_result(
    server: Server, network: Network, form: str, autojump_clock: Any
) -> None:
    outcomes: list[SendResult | Exception] = []
    async with producing(network) as producer:
        for _ in range(5):
            await producer.send_soon(message(), told_by(form, outcomes))
    assert [type(outcome) for outcome in outcomes] == [SendResult] * 5
    assert server.count(SEND) == 5


async def test_callback_gets_the_refusal_after_all_tries(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    server.replies[SEND] = refuse(14)
    outcomes: list[SendResult | Exception] = []
    async with producing(network) as producer:
        await producer.send_soon(message(), outcomes.append)
    (error,) = outcomes
    assert isinstance(error, BrokerRefused)
    assert (error.code, error.tries, server.count(SEND)) == (14, 3, 3)


async def test_callback_gets_the_error_of_an_invalid_message(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    outcomes: list[SendResult | Exception] = []

    def broken(queues: object, message: Message) -> MessageQueue:
        raise TypeError("mine")

    async with producing(network) as producer:
        await producer.send_soon(Message.of("bad topic", b"x"), outcomes.append)
        await producer.send_soon(message(), outcomes.append, selector=broken)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["InvalidRequest", "TypeError"]
    assert server.count(SEND) == 0


async def test_timeout_begins_when_the_send_does(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    server.replies[SEND] = silent
    outcomes: list[tuple[float, SendResult | Exception]] = []
    async with producing(network, in_flight=1) as producer:
        began = trio.current_time()
        for _ in range(2):
            await producer.send_soon(
                message(), lambda o: outcomes.append((trio.current_time() - began, o)), timeout=2
            )
    assert [round(time) for time, _ in outcomes] == [2, 4]
    assert all(isinstance(outcome, RequestTimeout) for _, outcome in outcomes)


async def test_callback_runs_in_the_context_of_its_sender(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    sender = ContextVar[str]("sender")
    told: list[str] = []
    async with producing(network) as producer:
        for name in ("a", "b"):  # the second send finds the idle task of the first
            sender.set(name)
            await producer.send_soon(message(), lambda _: told.append(sender.get()))
            await trio.sleep(1)
    assert told == ["a", "b"]


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def test_a_send_has_no_task(server: Server, network: Network, autojump_clock: Any) -> None:
    outcomes: list[SendResult | Exception] = []
    async with producing(network) as producer:
        await producer.send(message())
        await trio.testing.wait_all_tasks_blocked()
        before = tasks()
        server.replies[SEND] = silent
        for _ in range(9):
            await producer.send_soon(message(), outcomes.append)
        await trio.testing.wait_all_tasks_blocked()
        assert (server.count(SEND), tasks()) == (10, before)
        server.replies[SEND] = sent
    assert [type(outcome) for outcome in outcomes] == [RequestTimeout] * 9


async def test_tasks_of_callbacks_are_used_again(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    async def callback(outcome: object) -> None:
        await trio.sleep(1)

    async with producing(network) as producer:
        await producer.send(message())
        await trio.testing.wait_all_tasks_blocked()
        before = tasks()
        for _ in range(9):
            for _ in range(3):
                await producer.send_soon(message(), callback)
            await trio.sleep(2)
        assert tasks() == before + 3


async def test_a_send_whose_connection_is_lost_gets_a_task_and_goes_on(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    outcomes: list[SendResult | Exception] = []
    async with producing(network) as producer:
        await producer.send(message())
        server.replies[SEND] = silent
        for _ in range(9):
            await producer.send_soon(message(), outcomes.append)
        await trio.testing.wait_all_tasks_blocked()
        server.replies[SEND] = sent
        await server.drop()
    assert [type(outcome) for outcome in outcomes] == [SendResult] * 9
    assert (server.count(SEND), server.opened) == (19, 2)


async def test_a_send_that_compresses_a_long_body_gets_a_task(server: Server, network: Network) -> None:
    outcomes: list[SendResult | Exception] = []
    async with producing(network) as producer:
        await producer.send(message())
        await producer.send_soon(message("x" * COMPRESS_IN_THREAD), outcomes.append)
        assert server.count(SEND) == 1
    assert [type(outcome) for outcome in outcomes] == [SendResult]


async def test_a_send_gets_a_task_while_the_connection_has_no_room(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    outcomes: list[SendResult | Exception] = []
    async with producing(network, compression=None) as producer:
        await producer.send(message())
        for _ in range(9):
            await producer.send_soon(message("x" * 2**20), outcomes.append)
        before = tasks()
        await producer.send_soon(message(), outcomes.append)
        assert tasks() == before + 1
    assert [type(outcome) for outcome in outcomes] == [SendResult] * 10


async def test_a_hook_sees_the_cancellation_of_a_send(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    ends: list[type[BaseException] | None] = []
    current = ContextVar("current", default="outside")

    class Hook:
        @contextmanager
        def send(self, sending: Sending) -> Iterator[None]:
            token = current.set("sending")
            try:
                yield
            except BaseException as error:
                ends.append(type(error))
                raise
            finally:
                current.reset(token)

    async with producing(network) as first:
        with trio.move_on_after(1):
            async with Producer("PG", instance=first.instance, hook=Hook(), send_timeout=60) as producer:  # type: ignore[arg-type]
                await producer.send(message())
                server.replies[SEND] = silent
                for _ in range(3):
                    await producer.send_soon(message())
                await trio.sleep_forever()
        server.replies[SEND] = sent
    assert ends == [trio.Cancelled] * 3


async def test_queue_that_is_asked_for(server: Server, network: Network, autojump_clock: Any) -> None:
    outcomes: list[Any] = []
    queue = MessageQueue(TOPIC, "broker-a", 1)
    async with producing(network) as producer:
        for _ in range(4):
            await producer.send_soon(message(), outcomes.append, queue=queue)
    assert [outcome.message_queue for outcome in outcomes] == [queue] * 4


async def test_no_more_than_the_bound_at_once(server: Server, network: Network, autojump_clock: Any) -> None:
    server.replies[SEND] = silent
    began: list[float] = []
    async with producing(network, in_flight=3, send_timeout=2) as producer:
        for _ in range(7):
            await producer.send_soon(message())
            began.append(trio.current_time() - began[0] if began else trio.current_time())
    assert [round(time) for time in began[1:]] == [0, 0, 2, 2, 2, 4]


async def test_callbacks_count_as_under_way(server: Server, network: Network, autojump_clock: Any) -> None:
    async def slow(outcome: object) -> None:
        await trio.sleep(10)

    async with producing(network, in_flight=1) as producer:
        began = trio.current_time()
        await producer.send_soon(message(), slow)
        await producer.send_soon(message())
        assert trio.current_time() - began == pytest.approx(10, abs=0.1)


async def test_callback_that_sends_again_does_not_wait(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    server.replies[SEND] = refuse(2)
    outcomes: list[SendResult | Exception] = []

    with trio.fail_after(60):
        async with producing(network, in_flight=2) as producer:

            async def again(outcome: SendResult | Exception) -> None:
                await trio.sleep(1)  # until every send under way has come to its callback
                server.replies[SEND] = sent
                await producer.send_soon(message(), outcomes.append)

            for _ in range(2):
                await producer.send_soon(message(), again)
    assert [type(outcome) for outcome in outcomes] == [SendResult] * 2


async def test_callback_that_raises_ends_nothing_else(
    server: Server, network: Network, caplog: pytest.LogCaptureFixture, autojump_clock: Any
) -> None:
    outcomes: list[SendResult | Exception] = []

    def bad(outcome: object) -> None:
        raise KeyError("mine")

    async with producing(network) as producer:
        await producer.send_soon(message(), bad)
        await producer.send_soon(message(), outcomes.append)
    assert len(outcomes) == 1
    assert [record.message for record in caplog.records] == ["the callback of a send failed"]


async def test_failure_without_a_callback_is_logged(
    server: Server, network: Network, caplog: pytest.LogCaptureFixture, autojump_clock: Any
) -> None:
    server.replies[SEND] = refuse(13, "too long")
    async with producing(network) as producer:
        await producer.send_soon(message())
    (record,) = caplog.records
    assert (record.levelno, "too long" in record.message) == (logging.WARNING, True)


async def test_leaving_waits_for_those_under_way(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    server.replies[SEND] = silent
    outcomes: list[SendResult | Exception] = []
    began = trio.current_time()
    async with producing(network, send_timeout=7) as producer:
        await producer.send_soon(message(), outcomes.append)
    assert trio.current_time() - began == pytest.approx(7, abs=0.1)
    assert [type(outcome) for outcome in outcomes] == [RequestTimeout]


async def test_leaving_by_an_exception_cancels_them(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    server.replies[SEND] = silent
    outcomes: list[SendResult | Exception] = []
    began = trio.current_time()
    with pytest.raises(KeyError):
        async with producing(network, send_timeout=60) as producer:
            await producer.send_soon(message(), outcomes.append)
            await trio.sleep(1)
            raise KeyError("mine")
    assert trio.current_time() - began == pytest.approx(1, abs=0.6)
    assert outcomes == []


async def test_cancelled_while_leaving(server: Server, network: Network, autojump_clock: Any) -> None:
    server.replies[SEND] = silent
    outcomes: list[SendResult | Exception] = []
    with trio.move_on_after(3) as scope:
        async with producing(network, send_timeout=60) as producer:
            await producer.send_soon(message(), outcomes.append)
    assert (scope.cancelled_caught, outcomes) == (True, [])
    assert trio.current_time() < 4
    assert server.count(RequestCode.UNREGISTER_CLIENT) == 1


async def test_cancelled_while_it_waits_for_room(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    server.replies[SEND] = silent
    outcomes: list[SendResult | Exception] = []
    async with producing(network, in_flight=1, send_timeout=5) as producer:
        await producer.send_soon(message("a"), outcomes.append)
        with trio.move_on_after(1) as scope:
            await producer.send_soon(message("b"), outcomes.append)
        assert scope.cancelled_caught
        server.replies[SEND] = sent
        await producer.send_soon(message("c"), outcomes.append)
    assert [type(outcome) for outcome in outcomes] == [RequestTimeout, SendResult]
    assert [bytes(command.body) for command in server.asked if command.code == SEND] == [b"a", b"c"]


async def test_instance_that_is_shared_goes_on(server: Server, network: Network, autojump_clock: Any) -> None:
    server.replies[SEND] = silent
    async with ClientInstance(NAMESRV, open_stream=network.open_stream) as instance:
        with trio.move_on_after(1):
            async with Producer("PG", instance=instance, send_timeout=60) as producer:
                await producer.send_soon(message())
        assert instance.pool.in_flight == 0
        server.replies[SEND] = sent
        async with Producer("Other", instance=instance) as other:
            assert (await other.send(message())).status is SendStatus.SEND_OK
        with pytest.raises(InvalidRequest, match="inside its `async with` block"):
            await producer.send_soon(message())


async def test_a_wait_for_room_ends_with_the_block(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    server.replies[SEND] = silent
    refusals: list[str] = []

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(5):
            async with producing(network, in_flight=1, send_timeout=60) as producer:

                async def one_more() -> None:
                    try:
                        await producer.send_soon(message())
                    except InvalidRequest as error:
                        refusals.append(str(error))

                await producer.send_soon(message())
                nursery.start_soon(one_more)
                nursery.start_soon(one_more)
                await trio.sleep_forever()
        nursery.cancel_scope.deadline = trio.current_time() + 60
    assert refusals == ["a producer sends only inside its `async with` block"] * 2


async def test_leaving_waits_for_the_end_of_cancelled_sends(
    server: Server, network: Network, autojump_clock: Any
) -> None:
    cleaned: list[float] = []

    async def callback(outcome: object) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            cleaned.append(trio.current_time())

    async with ClientInstance(NAMESRV, open_stream=network.open_stream) as instance:
        began = trio.current_time()
        with trio.move_on_after(1):
            async with Producer("PG", instance=instance) as producer:
                await producer.send_soon(message(), callback)
        assert [round(time - began) for time in cleaned] == [4]


def test_bound_that_lets_nothing_through() -> None:
    with pytest.raises(InvalidRequest, match="in_flight is 0: 1 or more is expected"):
        Producer(in_flight=0)


async def test_a_send_leaves_no_garbage_to_the_collector(server: Server, network: Network) -> None:
    async with producing(network) as producer:
        await producer.send(message())
        gc.collect()
        gc.disable()
        try:
            for _ in range(100):
                await producer.send_soon(message())
            await producer.send(message())
            await trio.testing.wait_all_tasks_blocked()
            assert gc.collect() < 100
        finally:
            gc.enable()
