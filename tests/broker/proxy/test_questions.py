"""Requests of an administrator that a gRPC client answers by Telemetry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.handlers.relay import RELAY_SECONDS
from rmqcli.broker.proxy.clients import MOST_QUESTIONS
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.client import Admin, BrokerRefused, PullConsumer
from rmqcli.codec.bodies.running import CMResult
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code
from tests.broker.proxy.calls import (
    Stub,
    Telemetry,
    cluster_with_grpc,
    connected,
    message,
    of_consumer,
    topic,
)

GROUP = "billing"
CLIENT = "client-1"


async def consuming(stub: Stub) -> Telemetry:
    """The stream of a consumer that is registered."""
    told = await stub.telemetry(of_consumer(GROUP, "orders"))
    assert (await told.next()).status.code == Code.OK
    return told


async def stored(stub: Stub, cluster: MemoryCluster) -> MessageExt:
    """A message in the store, as a tool knows it."""
    await stub("SendMessage", messages=[message("orders", b"paid", tag="t", keys=["k"])])
    async with PullConsumer(**cluster.client()) as consumer:
        for queue in await consumer.message_queues("orders"):
            if found := (await consumer.pull(queue, 0)).messages:
                return found[0]
    raise AssertionError


def status(code: int, text: str = "") -> Any:
    return messages.Status(code=code, message=text)


def result(nonce: str, code: int, text: str = "") -> dict[str, Any]:
    return {
        "status": status(code, text),
        "verify_message_result": messages.VerifyMessageResult(nonce=nonce),
    }


def stack(nonce: str, text: str) -> dict[str, Any]:
    return {"thread_stack_trace": messages.ThreadStackTrace(nonce=nonce, thread_stack_trace=text)}


class Asking:
    """A question that runs in the background."""

    def __init__(self, nursery: trio.Nursery, ask: Callable[[], Awaitable[Any]]) -> None:
        self.answer: Any = None
        self.refusal: BrokerRefused | None = None
        self.done = trio.Event()
        nursery.start_soon(self._run, ask)

    async def _run(self, ask: Callable[[], Awaitable[Any]]) -> None:
        try:
            self.answer = await ask()
        except BrokerRefused as error:
            self.refusal = error
        self.done.set()

    async def refused(self) -> str:
        await self.done.wait()
        assert self.refusal is not None, self.answer
        return str(self.refusal)


def asking_for_stack(nursery: trio.Nursery, admin: Admin) -> Asking:
    return Asking(nursery, lambda: admin.clients.running_info(GROUP, CLIENT, jstack=True))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Code.OK, CMResult.CR_SUCCESS),
        (Code.FAILED_TO_CONSUME_MESSAGE, CMResult.CR_LATER),
        (Code.MESSAGE_CORRUPTED, CMResult.CR_RETURN_NULL),
    ],
)
async def test_a_client_consumes_one_message(
    nursery: trio.Nursery, autojump_clock: MockClock, code: Code, expected: CMResult
) -> None:
    async with cluster_with_grpc() as cluster, Admin(**cluster.client()) as admin:
        stub = await connected(nursery, cluster)
        told = await consuming(stub)
        sent = await stored(stub, cluster)
        asking = Asking(nursery, lambda: admin.clients.consume_directly(GROUP, CLIENT, sent))
        command = (await told.next()).verify_message_command
        assert (command.message.body, command.message.topic) == (b"paid", topic("orders"))
        assert (command.message.system_properties.tag, [*command.message.system_properties.keys]) == (
            "t",
            ["k"],
        )
        await trio.sleep(2)
        await told.send(**result(command.nonce, code))
        await asking.done.wait()
        assert (asking.answer.consume_result, asking.answer.remark) == (expected, "from gRPC client")
        assert asking.answer.spent_time_mills == pytest.approx(2000, abs=10)


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        (Code.VERIFY_FIFO_MESSAGE_UNSUPPORTED, ResponseCode.NO_PERMISSION),
        (Code.NOT_IMPLEMENTED, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_client_that_cannot_is_heard(
    nursery: trio.Nursery, autojump_clock: MockClock, code: Code, refused: ResponseCode
) -> None:
    async with cluster_with_grpc() as cluster, Admin(**cluster.client()) as admin:
        stub = await connected(nursery, cluster)
        told = await consuming(stub)
        sent = await stored(stub, cluster)
        asking = Asking(nursery, lambda: admin.clients.consume_directly(GROUP, CLIENT, sent))
        command = (await told.next()).verify_message_command
        await told.send(**result(command.nonce, code, "not here"))
        assert f"answered with status {code}: not here" in await asking.refused()
        assert asking.refusal is not None
        assert asking.refusal.code == refused


async def test_a_client_reports_its_threads(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """Wrong nonces, answers of another kind and second answers change nothing; a long trace is taken."""
    async with cluster_with_grpc() as cluster, Admin(**cluster.client()) as admin:
        stub = await connected(nursery, cluster)
        told = await consuming(stub)
        for text in ("main\n\tat work", "x" * 600_000):
            asking = asking_for_stack(nursery, admin)
            nonce = (await told.next()).print_thread_stack_trace_command.nonce
            await told.send(**stack(nonce + "0", "of nobody"))
            await told.send(**result(nonce, Code.OK))
            await told.send(status=status(Code.OK), **stack(nonce, text))
            await told.send(**stack(nonce, "again"))
            await asking.done.wait()
            assert asking.answer.jstack == text
        told_twice = await consuming(stub)
        assert told_twice.number != told.number, "the client is still served"


async def test_what_a_client_does_not_report_is_refused(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster, Admin(**cluster.client()) as admin:
        await consuming(await connected(nursery, cluster))
        with pytest.raises(BrokerRefused, match="reports only its thread stack"):
            await admin.clients.running_info(GROUP, CLIENT)


async def test_a_silent_client_is_reported_in_time(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """The answer of a question that is over goes to nobody, and the next question is asked."""
    async with cluster_with_grpc() as cluster, Admin(**cluster.client()) as admin:
        told = await consuming(await connected(nursery, cluster))
        began = trio.current_time()
        asking = [asking_for_stack(nursery, admin) for _ in range(MOST_QUESTIONS)]
        nonces = [(await told.next()).print_thread_stack_trace_command.nonce for _ in asking]
        assert f"has not answered {MOST_QUESTIONS} " in await asking_for_stack(nursery, admin).refused()
        for one in asking:
            assert f"{CLIENT} did not answer code 307 in 10 s" in await one.refused()
        assert trio.current_time() - began == pytest.approx(RELAY_SECONDS, abs=0.2)
        await told.send(**stack(nonces[0], "late"))
        again = asking_for_stack(nursery, admin)
        nonce = (await told.next()).print_thread_stack_trace_command.nonce
        assert nonce not in nonces
        await told.send(**stack(nonce, "now"))
        await again.done.wait()
        assert again.answer.jstack == "now"


@pytest.mark.parametrize("how", ["ends", "is replaced", "disconnects", "says goodbye"])
async def test_a_client_whose_stream_ends_is_reported_at_once(
    nursery: trio.Nursery, autojump_clock: MockClock, how: str
) -> None:
    async with cluster_with_grpc() as cluster, Admin(**cluster.client()) as admin:
        stub = await connected(nursery, cluster)
        told = await consuming(stub)
        asking = asking_for_stack(nursery, admin)
        await told.next()
        began = trio.current_time()
        if how == "ends":
            stub.client.h2.end_stream(told.number)
            await stub.client.flush()
        elif how == "is replaced":
            await consuming(stub)
        elif how == "disconnects":
            await stub.client.stream.aclose()
        else:
            await stub("NotifyClientTermination", group=topic(GROUP))
            stub.client.h2.reset_stream(told.number)
            await stub.client.flush()
        assert f"{CLIENT} ended its telemetry stream before" in await asking.refused()
        assert trio.current_time() - began < 1


async def test_a_client_without_a_stream_is_not_asked(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with cluster_with_grpc() as cluster, Admin(**cluster.client()) as admin:
        stub = await connected(nursery, cluster)
        told = await consuming(stub)
        stub.client.h2.end_stream(told.number)
        await stub.client.flush()
        await trio.sleep(1)
        assert "has no telemetry stream" in await asking_for_stack(nursery, admin).refused()
