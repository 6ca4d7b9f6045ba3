"""One connection: pairing, gathering, timeouts, losses, hostile peers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from rmqcli.client.errors import ConnectionFailed, ConnectionLost, InvalidRequest, RequestTimeout
from rmqcli.client.wire.link import MAX_QUEUED, Link
from rmqcli.client.wire.requests import command
from rmqcli.client.wire.streams import TcpStream, opened
from rmqcli.codec.codes import RPC_RESPONSE
from rmqcli.codec.errors import BodyError, TlsError
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import encode_frame
from tests.client.links import ADDRESS, Wire, ask
from tests.client.scripted import response

Connected = Callable[..., tuple[Link, Wire]]


def socket_pair() -> tuple[TcpStream, trio.SocketStream]:
    """A pair of streams; the first is of the type that a link uses."""
    ours, theirs = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair())
    return TcpStream(ours), theirs


@pytest.fixture(params=[memory_stream_pair, socket_pair])
def connected(request: pytest.FixtureRequest, nursery: trio.Nursery) -> Iterator[Connected]:
    """Starts a link, over either kind of stream."""
    ends = contextlib.ExitStack()

    def connect(**options: Any) -> tuple[Link, Wire]:
        ours, theirs = request.param()
        if isinstance(theirs, trio.SocketStream):
            ends.callback(theirs.socket.close)
        link = Link(ADDRESS, ours, **options)
        nursery.start_soon(link.run)
        return link, Wire(theirs)

    with ends:
        yield connect


async def test_replies_in_any_order_reach_their_requests(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, wire = connected()
    results: dict[int, Any] = {}
    async with trio.open_nursery() as callers:
        for number in range(100, 110):
            callers.start_soon(ask, link, results, number)
        asked = await wire.commands()
        for request in reversed(asked):
            await wire.stream.send_all(response(request.opaque, request.code + 1))
    assert {number: reply.code for number, reply in results.items()} == {n: n + 1 for n in range(100, 110)}


@pytest.mark.parametrize("connected", [memory_stream_pair], indirect=True)
async def test_requests_queued_together_are_sent_together(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, wire = connected()
    await wait_all_tasks_blocked()
    async with trio.open_nursery() as callers:
        for number in range(64):
            callers.start_soon(ask, link, {}, number)
        asked = await wire.commands()
        assert len(asked) == 64
        await wire.stream.send_all(b"".join(response(request.opaque) for request in asked))


async def test_requests_of_a_busy_writer_go_out_in_one_piece(
    nursery: trio.Nursery, autojump_clock: Any
) -> None:
    ours, theirs = lockstep_stream_pair()
    sizes: list[int] = []

    class Counting:
        async def send_all(self, data: bytes) -> None:
            sizes.append(len(data))
            await ours.send_all(data)

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            return bytes(await ours.receive_some(max_bytes))

        async def aclose(self) -> None:
            await ours.aclose()

    link = Link(ADDRESS, Counting())
    nursery.start_soon(link.run)
    for number in range(5):
        nursery.start_soon(ask, link, {}, number)
        await wait_all_tasks_blocked()
    assert len(sizes) == 1
    await theirs.receive_some()
    await wait_all_tasks_blocked()
    assert len(sizes) == 2
    assert sizes[1] == 4 * sizes[0]


async def test_no_time_is_left_to_connect() -> None:
    """A busy process can find the deadline past before it begins."""

    async def open_stream(host: str, port: int) -> Any:
        await trio.sleep_forever()

    with pytest.raises(ConnectionFailed, match="cannot connect to a:1: no answer within 0 s"):
        await opened(open_stream, "a:1", -0.5)


async def test_timeout_names_address_request_and_limit(connected: Connected, autojump_clock: Any) -> None:
    link, _ = connected()
    with pytest.raises(RequestTimeout, match=r"broker:10911 did not answer PULL_MESSAGE within 1\.5 s"):
        await link.request(command(11), 1.5)
    assert trio.current_time() == pytest.approx(1.5)


async def test_each_request_has_its_own_timeout(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, wire = connected()
    ended: dict[int, float] = {}

    async def timed(number: int, timeout: float) -> None:
        with pytest.raises(RequestTimeout):
            await link.request(command(number), timeout)
        ended[number] = trio.current_time()
        await wire.stream.send_all(response(10_000))  # the peer is not silent

    async with trio.open_nursery() as callers:
        for number, timeout in enumerate([5.0, 1.0, 3.0]):
            callers.start_soon(timed, number, timeout)
            await wait_all_tasks_blocked()
            await wire.stream.send_all(response(10_000))
    assert link.in_flight == 0
    assert ended[1] == pytest.approx(1.0)


async def test_late_reply_is_dropped_and_the_link_goes_on(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, wire = connected()
    results: dict[int, Any] = {}
    nursery.start_soon(ask, link, results, 1, 1.0)
    first = (await wire.commands())[0]
    await trio.sleep(0.5)
    await wire.stream.send_all(response(999))  # something was heard, so the link is alive
    await trio.sleep(1.0)
    assert isinstance(results[1], RequestTimeout)
    await wire.stream.send_all(response(first.opaque, 42))
    nursery.start_soon(ask, link, results, 2, 1.0)
    second = (await wire.commands())[0]
    await wire.stream.send_all(response(second.opaque, 43))
    await wait_all_tasks_blocked()
    assert results[2].code == 43


async def test_silent_peer_loses_the_link(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, _ = connected()
    results: dict[int, Any] = {}
    async with trio.open_nursery() as callers:
        callers.start_soon(ask, link, results, 1, 1.0)
        callers.start_soon(ask, link, results, 2, 60.0)
    assert isinstance(results[1], RequestTimeout)
    assert isinstance(results[2], ConnectionLost)
    assert trio.current_time() == pytest.approx(1.0)
    assert not link.is_open


async def test_loss_of_the_connection_ends_all_requests(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, wire = connected()
    results: dict[int, Any] = {}
    async with trio.open_nursery() as callers:
        for number in range(3):
            callers.start_soon(ask, link, results, number)
        await wire.commands()
        await wire.stream.aclose()
    assert [type(result) for result in results.values()] == [ConnectionLost] * 3
    with pytest.raises(ConnectionLost, match="closed by the peer"):
        await link.request(command(1), 1.0)


async def test_partial_frames_are_put_together(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, wire = connected()
    results: dict[int, Any] = {}
    async with trio.open_nursery() as callers:
        callers.start_soon(ask, link, results, 5)
        asked = (await wire.commands())[0]
        for byte in response(asked.opaque, 77):
            await wire.stream.send_all(bytes([byte]))
            await wait_all_tasks_blocked()
    assert results[5].code == 77


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x7f\xff\xff\xff" * 4,
        b"\x00\x00\x00\x01\x00",
        b"\x00\x00\x00\x08\x09\x00\x00\x02{}xx",
    ],
)
async def test_hostile_bytes_end_only_this_link(
    connected: Connected, nursery: trio.Nursery, garbage: bytes, autojump_clock: Any
) -> None:
    link, wire = connected()
    results: dict[int, Any] = {}
    async with trio.open_nursery() as callers:
        callers.start_soon(ask, link, results, 5)
        await wire.commands()
        await wire.stream.send_all(garbage)
    assert isinstance(results[5], ConnectionLost)
    assert "does not speak the remoting protocol" in str(results[5])


async def test_replies_before_the_garbage_still_count(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, wire = connected()
    results: dict[int, Any] = {}
    async with trio.open_nursery() as callers:
        callers.start_soon(ask, link, results, 5)
        asked = (await wire.commands())[0]
        await wire.stream.send_all(response(asked.opaque, 9) + b"\xff" * 64)
    assert results[5].code == 9


async def test_cancelled_request_is_forgotten(connected: Connected, autojump_clock: Any) -> None:
    link, wire = connected()
    with trio.move_on_after(0.5):
        await link.request(command(1), 10.0)
    assert link.in_flight == 0
    first = (await wire.commands())[0]
    await wire.stream.send_all(response(first.opaque))
    await wait_all_tasks_blocked()
    assert link.is_open


@pytest.mark.parametrize("together", [1, 7])
@pytest.mark.parametrize("end", ["timeout", "cancellation"])
async def test_requests_that_were_given_up_leave_no_waiter(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any, end: str, together: int
) -> None:
    link, wire = connected()
    results: dict[int, Any] = {}

    async def chatter() -> None:
        while True:  # a silent peer would cost the link
            await trio.sleep(0.5)
            await wire.stream.send_all(encode_frame(RemotingCommand(40, None, b"", 0)))

    nursery.start_soon(chatter)
    for number in range(5):
        with trio.move_on_after(1.0 if end == "cancellation" else 60.0):
            async with trio.open_nursery() as callers:
                for each in range(together):
                    callers.start_soon(ask, link, results, number * together + each, 2.0)
        assert link.in_flight == 0
    gave_up = 5 * together if end == "timeout" else 0
    assert [type(result) for result in results.values()] == [RequestTimeout] * gave_up
    nursery.start_soon(ask, link, results, 99)
    while (asked := (await wire.commands())[-1]).code != 99:
        pass
    await wire.stream.send_all(response(asked.opaque, 1))
    await wait_all_tasks_blocked()
    assert results[99].code == 1


async def test_oneway_returns_when_written(connected: Connected, autojump_clock: Any) -> None:
    link, wire = connected()
    await link.send_oneway(command(15), 1.0)
    received = (await wire.commands())[0]
    assert received.is_oneway
    assert received.code == 15
    assert link.in_flight == 0


async def test_oneway_to_a_peer_that_does_not_read_times_out(
    nursery: trio.Nursery, autojump_clock: Any
) -> None:
    ours, _theirs = lockstep_stream_pair()
    link = Link(ADDRESS, ours)
    nursery.start_soon(link.run)
    with pytest.raises(RequestTimeout):
        await link.send_oneway(command(15), 2.0)
    assert trio.current_time() == pytest.approx(2.0)
    assert link.is_open
    link.close()


async def test_requests_wait_while_too_much_is_queued(nursery: trio.Nursery, autojump_clock: Any) -> None:
    ours, theirs = lockstep_stream_pair()
    link = Link(ADDRESS, ours)
    nursery.start_soon(link.run)
    big = bytes(MAX_QUEUED + 1)
    results: dict[int, Any] = {}

    async def push_big() -> None:
        results[0] = await link.request(command(10, None, big), 60.0)

    nursery.start_soon(push_big)
    await wait_all_tasks_blocked()
    with pytest.raises(RequestTimeout):
        await link.request(command(11), 1.0)
    assert link.in_flight == 1
    nursery.start_soon(ask, link, results, 12, 30.0)
    await wait_all_tasks_blocked()
    protocol = Connection()
    asked: list[RemotingCommand] = []
    while len(asked) < 2:
        asked += protocol.receive(bytes(await theirs.receive_some(1 << 20)))
    await theirs.send_all(b"".join(response(request.opaque, request.code) for request in asked))
    await wait_all_tasks_blocked()
    assert [results[0].code, results[12].code] == [10, 12]


async def test_requests_of_the_peer_go_to_the_hook(connected: Connected, autojump_clock: Any) -> None:
    seen: list[int] = []

    def hook(link: Link, request: RemotingCommand) -> RemotingCommand | None:
        seen.append(request.code)
        return request.reply(0, "done") if request.code == 307 else None

    _, wire = connected(on_request=hook)
    for code in (40, 307):
        await wire.stream.send_all(encode_frame(RemotingCommand(code, None, b"", 70 + code)))
    reply = (await wire.commands())[0]
    assert seen == [40, 307]
    assert (reply.opaque, reply.flag, reply.remark) == (377, RPC_RESPONSE, "done")


async def test_request_that_no_frame_can_hold_is_the_callers_fault(
    connected: Connected, autojump_clock: Any
) -> None:
    link, _ = connected()
    with pytest.raises(InvalidRequest, match="SEND_MESSAGE cannot be sent"):
        await link.request(command(10, None, bytes(17 << 20)), 1.0)
    assert link.in_flight == 0
    assert link.is_open


async def test_close_reports_the_reason(
    connected: Connected, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    link, wire = connected()
    results: dict[int, Any] = {}
    async with trio.open_nursery() as callers:
        callers.start_soon(ask, link, results, 5)
        await wire.commands()
        link.close()
    assert str(results[5]) == "connection to broker:10911 lost: closed by this client"


class Broken:
    """A transport whose writes fail, or whose reads do."""

    def __init__(self, writing: BaseException | None, reading: BaseException | None) -> None:
        self.writing, self.reading = writing, reading

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.writing:
            raise self.writing

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if not self.reading:
            await trio.sleep_forever()
        raise self.reading or OSError

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (trio.BrokenResourceError("pipe"), "pipe"),
        (trio.ClosedResourceError(), "ClosedResourceError"),
        (TlsError("TLS: bad record"), "TLS: bad record"),
    ],
)
@pytest.mark.parametrize("reading", [True, False])
async def test_errors_of_the_transport_become_a_lost_connection(
    nursery: trio.Nursery, error: BaseException, text: str, reading: bool, autojump_clock: Any
) -> None:
    link = Link(ADDRESS, Broken(None, error) if reading else Broken(error, None))
    nursery.start_soon(link.run)
    results: dict[int, Any] = {}

    async def oneway() -> None:
        with pytest.raises(ConnectionLost, match=text):
            for _ in range(100):
                await link.send_oneway(command(15), 1.0)

    async with trio.open_nursery() as callers:
        callers.start_soon(ask, link, results, 1)
        callers.start_soon(oneway)
    assert isinstance(results[1], ConnectionLost)
    assert text in str(results[1])
    assert not link.is_open


async def test_unreadable_request_of_the_peer_gets_no_answer(
    connected: Connected, autojump_clock: Any
) -> None:
    def hook(link: Link, request: RemotingCommand) -> RemotingCommand | None:
        raise BodyError("unreadable")

    await no_answer(*connected(on_request=hook), RemotingCommand(220, None, b"{", 7))


async def test_request_without_a_hook_gets_no_answer(connected: Connected, autojump_clock: Any) -> None:
    await no_answer(*connected(), RemotingCommand(40, None, b"", 7))


async def no_answer(link: Link, wire: Wire, request: RemotingCommand) -> None:
    """Checks that the next bytes of the link are its next request."""
    await wire.stream.send_all(encode_frame(request))
    await wait_all_tasks_blocked()
    await link.send_oneway(command(15), 1.0)
    assert [received.code for received in await wire.commands()] == [15]
