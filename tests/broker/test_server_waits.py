"""Requests whose work goes on after the handler has returned: it ends, even if the sender disconnects."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.broker.errors import NotReady
from rmqcli.broker.net.dispatch import Barrier, HandlerTable
from rmqcli.broker.net.handling import Reply, Request, serve
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.store.readiness import Readiness
from rmqcli.codec.codes import RPC_ONEWAY, RequestCode, ResponseCode
from rmqcli.codec.operations.name_server import GET_NAMESRV_CONFIG
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame
from tests.broker.serving import ECHO, LATER, Wire, echo, request
from tests.broker.store.support import inline


class Batches:
    barrier: Barrier | None = None

    def begin_batch(self) -> None:
        self.barrier = None

    def end_batch(self) -> None:
        """Nothing waits for the end of a batch."""


class Disk:
    """Needs `times` waits of a second before a request can be handled; `done` are the opaques of those."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.done: list[int] = []

    async def ready(self) -> None:
        await trio.sleep(1)
        self.times -= 1

    def handle(self, _session: Session, command: RemotingCommand) -> RemotingCommand:
        if self.times:
            raise NotReady(self.ready)
        self.done.append(command.opaque)
        return command.reply(0)


class Patient(Wire):
    """A sender that disconnects 10 s after its requests."""

    async def receive(self, pace: object = None) -> bytes:
        if not self.incoming[0]:
            await trio.sleep(10)
        return await super().receive(pace)


async def served(
    handlers: HandlerTable,
    *requests: RemotingCommand,
    batches: Batches | None = None,
    sender: type[Wire] = Wire,
    name: str = "broker",
) -> list[RemotingCommand]:
    """The replies to requests that came in one read; by default their sender disconnects at once."""
    wire = sender(b"".join(encode_frame(one) for one in requests))
    await Server(handlers, batches=batches, name=name).serve_transport(wire)
    return wire.replies()


@pytest.mark.parametrize("flag", [0, RPC_ONEWAY])
async def test_work_before_a_reply_is_done_for_a_sender_that_disconnects(
    autojump_clock: trio.testing.MockClock, flag: int
) -> None:
    batches, done = Batches(), []

    async def work() -> None:
        await trio.sleep(1)
        done.append("work")

    def handler(_session: Session, command: RemotingCommand) -> RemotingCommand | None:
        batches.barrier = work
        return None if command.is_oneway else command.reply(0)

    await served({LATER: handler, ECHO: echo}, request(LATER, flag=flag), request(ECHO), batches=batches)
    assert done == ["work"]


async def test_work_that_fails_is_the_reply(caplog: pytest.LogCaptureFixture) -> None:
    batches = Batches()

    async def work() -> None:
        raise ZeroDivisionError("oh")

    def handler(_session: Session, command: RemotingCommand) -> RemotingCommand:
        batches.barrier = work
        return command.reply(0)

    (reply,) = await served({LATER: handler}, request(LATER), batches=batches, name="name server")
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: oh")
    (line,) = caplog.messages
    assert line.startswith("name server: ") and line.endswith(": code 1005 failed")


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The garbage collector does not run."""
    gc.disable()
    yield
    gc.enable()


class Body:
    """What a request keeps in memory."""


async def test_a_request_that_waited_leaves_nothing_to_the_garbage_collector(
    autojump_clock: trio.testing.MockClock, no_collector: None
) -> None:
    disk, kept = Disk(2), []

    def handle(session: Session, command: RemotingCommand) -> RemotingCommand:
        body = Body()
        kept.append(weakref.ref(body))
        if disk.times:
            raise NotReady(disk.ready, in_order=True)
        return command.reply(0)

    await served({LATER: handle}, request(LATER, 5))
    assert [body() for body in kept] == [None, None, None]


async def test_reading_a_store_that_waits_leaves_nothing_to_the_garbage_collector(no_collector: None) -> None:
    kept, times = [], iter((1, 0))

    async def ready() -> None:
        """The disk is done at once."""

    def read() -> None:
        body = Body()
        kept.append(weakref.ref(body))
        if next(times):
            raise NotReady(ready)

    await Readiness(inline).when_ready(read)
    assert [body() for body in kept] == [None, None]


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_one_way_request_counts_however_often_it_needs_the_disk(
    autojump_clock: trio.testing.MockClock, times: int
) -> None:
    disk = Disk(times)
    await served({LATER: disk.handle}, request(LATER, 5, flag=RPC_ONEWAY))
    assert disk.done == [5]


async def test_work_that_was_wanted_before_the_disk_was_needed_ends_before_the_reply(
    autojump_clock: trio.testing.MockClock,
) -> None:
    batches, disk, worked = Batches(), Disk(2), []

    async def work() -> None:
        worked.append(disk.done[:])

    def handler(session: Session, command: RemotingCommand) -> RemotingCommand:
        if disk.times == 2:
            batches.barrier = work
        return disk.handle(session, command)

    replies = await served(
        {LATER: handler, ECHO: echo}, request(LATER, 1), request(ECHO, 2), batches=batches, sender=Patient
    )
    assert [reply.opaque for reply in replies] == [2, 1]
    assert worked == [[1]]


@pytest.mark.filterwarnings("error")
async def test_a_reply_that_nobody_waits_for_any_more_is_not_begun(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk, begun = Disk(1), []

    async def later() -> Reply[None, dict[str, str]]:
        begun.append("later")
        return Reply(body={})

    def handle(
        _context: None, asked: Request[None, None]
    ) -> Coroutine[Any, Any, Reply[None, dict[str, str]]]:
        disk.handle(asked.session, asked.command)
        return later()

    handler = serve(GET_NAMESRV_CONFIG, handle).bind(None)
    code = RequestCode.GET_NAMESRV_CONFIG
    assert await served({code: handler}, request(code, 3)) == []
    assert (disk.done, begun) == ([3], [])
