"""The reader of a connection over a socket: no byte is lost and no task waits in vain, whichever is cancelled
or late.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rmqcli.client.errors import ConnectionLost, RequestTimeout
from rmqcli.client.wire.link import Link
from rmqcli.client.wire.reader import ALONE_BEFORE, FIRST_PERIOD, LOOKS, PAUSE, TRIAL
from rmqcli.client.wire.requests import command
from rmqcli.client.wire.streams import TcpStream
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame
from tests.client.links import ADDRESS, Wire, ask
from tests.client.scripted import response
from tests.client.tasks import CancelAt, tasks

BACKGROUND = "background"
PEER_REQUEST = encode_frame(RemotingCommand(40, None, b"", 7))


class Watched(TcpStream):
    """`readers`: who read, each time. `looks`: how often there was nothing to read. `waits`: for bytes.

    `took` is told of each read whether no wait came before it.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self.readers: list[str] = []
        self.looks = self.waits = 0
        self.took: Callable[[bool], None] = lambda _: None
        self._waited = False
        self._wait_readable = self.wait_readable
        self.wait_readable = partial(self._counted)

    async def _counted(self) -> None:
        self.waits += 1
        self._waited = True
        await self._wait_readable()

    def read_now(self, max_bytes: int) -> bytes | None:
        data = super().read_now(max_bytes)
        if data is None:
            self.looks += 1
            return None
        name = trio.lowlevel.current_task().name
        self.readers.append(BACKGROUND if name.endswith("Link._read") else name)
        self.took(not self._waited)
        self._waited = False
        return data


class Line:
    """A link over a socket, and the peer's end."""

    def __init__(self, nursery: trio.Nursery) -> None:
        ours, self.theirs = socket.socketpair()
        self.stream = Watched(trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
        self.asked: list[tuple[int, str]] = []
        self.link = Link(ADDRESS, self.stream, self._hear)
        self.wire = Wire(trio.SocketStream(trio.socket.from_stdlib_socket(self.theirs)))
        nursery.start_soon(self.link.run)

    def _hear(self, _: Link, request: RemotingCommand) -> None:
        self.asked.append((request.code, trio.lowlevel.current_task().name))

    async def answer(self, count: int = 1) -> None:
        """Answers requests with their own codes."""
        while count:
            for request in await self.wire.commands():
                await self.wire.stream.send_all(response(request.opaque, request.code))
                count -= 1

    async def one_by_one(self, count: int) -> None:
        """Requests of one task, each sent right after the reply to the one before."""

        async def ask_all() -> None:
            for number in range(count):
                assert (await self.link.request(command(number), 3.0)).code == number

        async with trio.open_nursery() as both:
            both.start_soon(self.answer, count)
            both.start_soon(ask_all, name="asker")
        self.stream.readers.clear()


@pytest.fixture
def line(nursery: trio.Nursery) -> Iterator[Line]:
    line = Line(nursery)
    with contextlib.closing(line.wire.stream.socket):
        yield line


async def reading(line: Line, nursery: trio.Nursery, results: dict[int, Any], number: int = 1) -> None:
    """A request whose own task reads, sent but not answered."""
    await line.one_by_one(ALONE_BEFORE + 1)
    nursery.start_soon(ask, line.link, results, number, name="asker")
    await wait_all_tasks_blocked()


async def test_requests_one_by_one_are_read_by_their_own_task(line: Line, autojump_clock: Any) -> None:
    await wait_all_tasks_blocked()
    async with trio.open_nursery() as both:
        both.start_soon(line.answer, 10)
        for number in range(10):
            assert (await line.link.request(command(number), 3.0)).code == number
    first = line.stream.readers[:ALONE_BEFORE]
    assert first == [BACKGROUND] * ALONE_BEFORE
    assert BACKGROUND not in line.stream.readers[ALONE_BEFORE:]


async def until_looking(line: Line, clock: MockClock) -> None:
    """Requests one by one, until the link has found polling to be quicker."""
    line.stream.took = lambda looked: clock.jump(1e-5 if looked else 1e-3)
    await line.one_by_one(ALONE_BEFORE + FIRST_PERIOD + TRIAL)
    line.stream.waits = line.stream.looks = 0


async def test_replies_are_looked_for_where_that_is_quicker(line: Line, mock_clock: MockClock) -> None:
    await until_looking(line, mock_clock)
    await line.one_by_one(10)
    assert line.stream.waits == 0
    assert 0 < line.stream.looks < 10 * LOOKS


async def test_a_reply_that_looks_do_not_find_is_waited_for(
    line: Line, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    results: dict[int, Any] = {}
    await until_looking(line, mock_clock)
    nursery.start_soon(ask, line.link, results, 5, name="asker")
    await wait_all_tasks_blocked()
    assert (line.stream.looks, line.stream.waits, results) == (LOOKS, 1, {})
    await line.answer()
    await wait_all_tasks_blocked()
    assert results[5].code == 5


@pytest.mark.parametrize("by", ["cancellation", "the end of the link"])
async def test_a_call_is_over_between_two_looks(line: Line, by: str, mock_clock: MockClock) -> None:
    results: dict[int, Any] = {}
    await until_looking(line, mock_clock)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as both:
            both.start_soon(ask, line.link, results, 1, name="asker")
            while not line.stream.looks:
                await trio.lowlevel.checkpoint()
            {"cancellation": scope.cancel, "the end of the link": line.link.close}[by]()
    assert line.stream.looks < LOOKS
    assert [type(answer) for answer in results.values()] == ([ConnectionLost] if by != "cancellation" else [])
    assert not line.link.in_flight


async def test_requests_together_are_read_by_the_background(
    line: Line, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    results: dict[int, Any] = {}
    await line.one_by_one(ALONE_BEFORE + 1)
    for _ in range(5):
        async with trio.open_nursery() as callers:
            for number in range(4):
                callers.start_soon(ask, line.link, results, number)
            await wait_all_tasks_blocked()
            await line.answer(4)
    assert {number: reply.code for number, reply in results.items()} == {n: n for n in range(4)}
    assert line.stream.readers[1:] == [BACKGROUND] * (len(line.stream.readers) - 1)


async def test_the_background_reads_again_after_a_pause(line: Line, autojump_clock: Any) -> None:
    await line.one_by_one(10)
    await line.wire.stream.send_all(PEER_REQUEST)
    await trio.sleep(2.5 * PAUSE)
    assert len(line.asked) == 1
    assert line.stream.readers == [BACKGROUND]


async def test_a_peer_that_leaves_an_idle_link_is_noticed(line: Line, autojump_clock: Any) -> None:
    await line.one_by_one(10)
    await line.wire.stream.aclose()
    await trio.sleep(3 * PAUSE)
    assert not line.link.is_open


async def test_a_request_of_the_peer_is_handled_at_once_by_the_background(
    line: Line, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    results: dict[int, Any] = {}
    await reading(line, nursery, results)
    await line.wire.stream.send_all(PEER_REQUEST)
    await wait_all_tasks_blocked()
    [(code, task)] = line.asked
    assert (code, task.endswith("Link._read"), line.stream.readers) == (40, True, ["asker"])
    await line.answer()
    await wait_all_tasks_blocked()
    assert results[1].code == 1


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
async def test_a_late_caller_is_answered_in_any_order(
    line: Line, nursery: trio.Nursery, order: list[int], autojump_clock: Any
) -> None:
    results: dict[int, Any] = {}
    await reading(line, nursery, results, 0)
    for number in (1, 2):
        nursery.start_soon(ask, line.link, results, number)
        await wait_all_tasks_blocked()
    asked: list[RemotingCommand] = []
    while len(asked) < 3:
        asked += await line.wire.commands()
    for place, number in enumerate(order, 1):
        await line.wire.stream.send_all(response(asked[number].opaque, number))
        await wait_all_tasks_blocked()
        assert sorted(results) == sorted(order[:place])
    assert line.stream.readers[0] == "asker"
    assert line.link.in_flight == 0


async def test_a_cancelled_reader_loses_no_byte_of_others(
    line: Line, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    results: dict[int, Any] = {}
    await line.one_by_one(ALONE_BEFORE + 1)
    scope = trio.CancelScope()

    async def cancelled() -> None:
        with scope:
            await line.link.request(command(1), 3.0)

    nursery.start_soon(cancelled, name="asker")
    await wait_all_tasks_blocked()
    nursery.start_soon(ask, line.link, results, 2)
    await wait_all_tasks_blocked()
    asked = await line.wire.commands()
    whole = response(asked[0].opaque) + response(asked[1].opaque, 2)
    await line.wire.stream.send_all(whole[:-5])
    await wait_all_tasks_blocked()
    scope.cancel()
    await wait_all_tasks_blocked()
    assert line.link.in_flight == 1
    await line.wire.stream.send_all(whole[-5:])
    await wait_all_tasks_blocked()
    assert results[2].code == 2
    assert line.stream.readers == ["asker", BACKGROUND]


async def test_a_reader_whose_time_is_up_ends_then_and_the_link_goes_on(
    line: Line, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await line.one_by_one(ALONE_BEFORE + 1)
    results: dict[int, Any] = {}
    nursery.start_soon(ask, line.link, results, 1, 1.0, name="asker")
    await trio.sleep(0.5)
    await line.wire.stream.send_all(response(999))  # the peer is not silent
    await trio.sleep(0.49)
    assert not results
    await trio.sleep(0.02)
    assert isinstance(results[1], RequestTimeout)
    assert line.link.is_open
    [late] = await line.wire.commands()
    await line.wire.stream.send_all(response(late.opaque, 1))
    await line.one_by_one(3)


async def test_a_silent_peer_loses_the_link_of_a_reader(
    line: Line, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await line.one_by_one(ALONE_BEFORE + 1)
    with pytest.raises(RequestTimeout):
        await line.link.request(command(1), 1.0)
    assert not line.link.is_open


async def test_a_writer_that_waits_goes_on_when_the_reader_is_called_off(
    line: Line, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    results: dict[int, Any] = {}
    await line.one_by_one(ALONE_BEFORE + 1)
    nursery.start_soon(ask, line.link, results, 1, 1.0, name="asker")
    await wait_all_tasks_blocked()
    body = bytes(range(256)) * 16384
    nursery.start_soon(line.link.send_oneway, command(15, None, body), 9.0)
    await trio.sleep(0.5)
    await line.wire.stream.send_all(response(999))
    await trio.sleep(0.6)
    assert isinstance(results[1], RequestTimeout)
    got: list[RemotingCommand] = []
    while len(got) < 2:
        got += await line.wire.commands()
    assert got[1].body == body
    assert line.link.is_open


@pytest.mark.parametrize("tail", [b"", b"\x00\x00", b"\xff" * 64])
async def test_a_reader_gets_the_bytes_before_the_end(
    line: Line, nursery: trio.Nursery, tail: bytes, autojump_clock: Any
) -> None:
    results: dict[int, Any] = {}
    await reading(line, nursery, results)
    nursery.start_soon(ask, line.link, results, 2)
    await wait_all_tasks_blocked()
    asked = await line.wire.commands()
    await line.wire.stream.send_all(response(asked[0].opaque, 1) + tail)
    await line.wire.stream.aclose()
    await wait_all_tasks_blocked()
    assert results[1].code == 1
    assert isinstance(results[2], ConnectionLost)
    assert not line.link.is_open


Ending = Callable[[Line], None]


def cut(line: Line) -> None:
    line.theirs.shutdown(socket.SHUT_WR)


def garbage(line: Line) -> None:
    line.theirs.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def close(line: Line) -> None:
    line.link.close()


@pytest.mark.parametrize(
    ("ending", "text"),
    [(cut, "closed by the peer"), (garbage, "does not speak"), (close, "closed by this client")],
)
async def test_a_reader_hears_why_the_link_is_lost(
    line: Line, nursery: trio.Nursery, ending: Ending, text: str, autojump_clock: Any
) -> None:
    results: dict[int, Any] = {}
    await reading(line, nursery, results)
    ending(line)
    await wait_all_tasks_blocked()
    assert isinstance(results[1], ConnectionLost)
    assert text in str(results[1])
    assert line.stream._stream.socket.fileno() == -1


class Turns(trio.abc.Instrument):
    """Counts the steps of all tasks, and of the background."""

    def __init__(self) -> None:
        self.all = self.of_background = 0

    def before_task_step(self, task: Any) -> None:
        self.all += 1
        self.of_background += task.name.endswith("Link._read")


@contextlib.contextmanager
def turns() -> Iterator[Turns]:
    counted = Turns()
    trio.lowlevel.add_instrument(counted)
    yield counted
    trio.lowlevel.remove_instrument(counted)


async def test_a_long_wait_costs_no_turns(line: Line, nursery: trio.Nursery, autojump_clock: Any) -> None:
    await reading(line, nursery, {})
    with turns() as counted:
        await trio.sleep(2.0)
    assert counted.all < 10


async def test_after_a_long_wait_the_background_is_back(
    line: Line, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await reading(line, nursery, {})
    await trio.sleep(2.0)
    await line.answer()
    await line.wire.stream.send_all(PEER_REQUEST)
    await trio.sleep(2.5 * PAUSE)
    assert len(line.asked) == 1


async def test_the_background_takes_no_turns_while_requests_follow_each_other(
    line: Line, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await reading(line, nursery, {})
    await trio.sleep(2.0)
    await line.answer()
    with turns() as counted:
        await line.one_by_one(20)
    assert counted.of_background < 5


async def test_a_moment_between_requests_does_not_count_as_a_pause(line: Line, autojump_clock: Any) -> None:
    await line.one_by_one(ALONE_BEFORE + 1)
    for number in range(20):
        async with trio.open_nursery() as both:
            both.start_soon(line.answer)
            await line.link.request(command(number), 3.0)
        await trio.sleep(PAUSE * 0.9)
    assert BACKGROUND not in line.stream.readers


async def test_a_closed_stream_touches_no_file_that_has_its_number(
    nursery: trio.Nursery, autojump_clock: Any
) -> None:
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    stream = TcpStream(trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
    with theirs:
        await stream.aclose()
    other, end = socket.socketpair()
    with other, end:
        assert number in {other.fileno(), end.fileno()}
        mine, far = (other, end) if other.fileno() == number else (end, other)
        nursery.start_soon(trio.lowlevel.wait_readable, mine)
        await wait_all_tasks_blocked()
        stream.call_off()
        await wait_all_tasks_blocked()
        assert stream.send_now(b"lost") == 0
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"lost")
        far.send(b"for the other")
        with pytest.raises(trio.ClosedResourceError):
            stream.read_now(100)
        await wait_all_tasks_blocked()
        assert mine.recv(100) == b"for the other"
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(100)


async def test_cancelled_at_any_step_a_conversation_leaves_a_link_that_works(autojump_clock: Any) -> None:
    """Requests of both ends, alone and together, cancelled at every step."""
    before = tasks()
    for step in range(1, 1000):
        async with trio.open_nursery() as nursery:
            line = Line(nursery)
            with contextlib.closing(line.wire.stream.socket):
                reached = await _conversation(line, step)
                with trio.fail_after(30):
                    await line.one_by_one(4)
                assert line.link.in_flight == 0
                await line.wire.stream.send_all(PEER_REQUEST)
                heard = len(line.asked)
                await trio.sleep(3 * PAUSE)
                assert len(line.asked) == heard + 1
                nursery.cancel_scope.cancel()
        assert tasks() == before
        if not reached:
            assert step > 25
            return


async def _conversation(line: Line, step: int) -> bool:
    """True if the step came before its end."""
    scope = trio.CancelScope()
    cancel = CancelAt(scope, step)

    async def peer() -> None:
        while True:
            for request in await line.wire.commands():
                await line.wire.stream.send_all(PEER_REQUEST + response(request.opaque, request.code))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer)
        await wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(cancel)
        with scope:
            for number in range(4):
                await line.link.request(command(number), 3.0)
            async with trio.open_nursery() as together:
                for number in range(3):
                    together.start_soon(line.link.request, command(number), 3.0)
            await line.link.request(command(9), 3.0)
        trio.lowlevel.remove_instrument(cancel)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return scope.cancelled_caught
