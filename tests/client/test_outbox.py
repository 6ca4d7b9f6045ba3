"""The writes of a connection: at once, early, together; complete and in order whatever the socket accepts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from rmqcli.client.wire.link import TOGETHER, Outbox
from rmqcli.client.wire.streams import TcpStream
from tests.support import PATIENCE


@contextmanager
def connected() -> Iterator[tuple[TcpStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        yield TcpStream(trio.SocketStream(trio.socket.from_stdlib_socket(ours))), theirs


def received(theirs: socket.socket) -> bytes:
    parts = []
    try:
        while part := theirs.recv(1 << 20):
            parts.append(part)
    except BlockingIOError:
        pass
    return b"".join(parts)


async def running(nursery: trio.Nursery, stream: Any) -> Outbox:
    outbox = Outbox(stream)
    nursery.start_soon(outbox.run)
    await wait_all_tasks_blocked()
    return outbox


async def test_a_frame_that_is_alone_is_out_before_put_returns(nursery: trio.Nursery) -> None:
    with connected() as (stream, theirs):
        outbox = await running(nursery, stream)
        outbox.put(b"alone", alone=True)
        assert received(theirs) == b"alone"
        assert await outbox.wait_sent() is None
        nursery.cancel_scope.cancel()


async def test_of_many_frames_every_few_are_out_before_the_rest_is_made(nursery: trio.Nursery) -> None:
    with connected() as (stream, theirs):
        outbox = await running(nursery, stream)
        for number in range(TOGETHER + 2):
            assert received(theirs) == (b"x" * TOGETHER if number == TOGETHER else b"")
            outbox.put(b"x")
        await wait_all_tasks_blocked()
        assert received(theirs) == b"xx"
        nursery.cancel_scope.cancel()


async def test_the_rest_behind_a_full_socket_follows_whole_and_in_order(nursery: trio.Nursery) -> None:
    with connected() as (stream, theirs):
        outbox = await running(nursery, stream)
        frames = [bytes([number]) * 100_000 for number in range(40)]
        ended: list[object] = []

        async def oneway() -> None:
            ended.append(await outbox.wait_sent())

        for frame in frames:
            outbox.put(frame, alone=True)
        nursery.start_soon(oneway)
        await wait_all_tasks_blocked()
        assert not ended
        got = theirs.recv(1 << 20)
        frames.append(b"put while the writer is in the middle of another, with room again")
        outbox.put(frames[-1], alone=True)
        with trio.fail_after(PATIENCE):
            while not ended or len(got) < sum(map(len, frames)):
                got += received(theirs)
                await trio.lowlevel.checkpoint()
        assert got == b"".join(frames)
        assert ended == [None]
        nursery.cancel_scope.cancel()


async def test_a_wait_ends_when_frames_go_out_early(nursery: trio.Nursery) -> None:
    with connected() as (stream, theirs):
        outbox = Outbox(stream)
        outbox.put(b"queued before the writer runs")
        ended: list[object] = []

        async def oneway() -> None:
            ended.append(await outbox.wait_sent())

        nursery.start_soon(oneway)
        await wait_all_tasks_blocked()
        assert (ended, received(theirs)) == ([], b"")
        nursery.start_soon(outbox.run)
        await wait_all_tasks_blocked()
        assert (ended, received(theirs)) == ([None], b"queued before the writer runs")
        nursery.cancel_scope.cancel()


async def test_a_wait_ends_when_a_later_frame_takes_others_along(nursery: trio.Nursery) -> None:
    with connected() as (stream, theirs):
        outbox = Outbox(stream)
        with trio.CancelScope() as writer:
            writer.cancel()
            await outbox.run()
        outbox.put(b"first")
        ended: list[object] = []

        async def oneway() -> None:
            ended.append(await outbox.wait_sent())

        nursery.start_soon(oneway)
        await wait_all_tasks_blocked()
        outbox.put(b", second", alone=True)
        await wait_all_tasks_blocked()
        assert (ended, received(theirs)) == ([None], b"first, second")


async def test_a_broken_socket_is_found_by_the_writer(nursery: trio.Nursery) -> None:
    with connected() as (stream, theirs):
        outbox = Outbox(stream)
        errors: list[BaseException] = []

        async def run() -> None:
            try:
                await outbox.run()
            except trio.BrokenResourceError as error:
                errors.append(error)

        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        theirs.close()
        outbox.put(b"to nobody", alone=True)
        await wait_all_tasks_blocked()
        assert len(errors) == 1
        assert stream.send_now(b"more") == 0


async def test_whoever_waits_hears_why_nothing_more_goes_out() -> None:
    with connected() as (stream, _):
        outbox = Outbox(stream)
        outbox.put(bytes(9 << 20))
        said: list[object] = []

        async def oneway() -> None:
            said.append(await outbox.wait_sent())

        async def blocked() -> None:
            await outbox.wait_for_room()
            said.append("room")

        async with trio.open_nursery() as inner:
            inner.start_soon(oneway)
            inner.start_soon(blocked)
            await wait_all_tasks_blocked()
            assert outbox.is_full
            outbox.release("lost")
        assert sorted(map(str, said)) == ["lost", "room"]
        assert not outbox.is_full


async def test_a_stream_waits_again_when_another_reader_took_the_bytes(nursery: trio.Nursery) -> None:
    with connected() as (stream, theirs):
        twin = TcpStream(trio.SocketStream(stream._stream.socket.dup()))
        got: list[bytes] = []

        async def read(one: TcpStream) -> None:
            got.append(await one.receive_some())

        nursery.start_soon(read, stream)
        nursery.start_soon(read, twin)
        await wait_all_tasks_blocked()
        for sent in (b"first", b"second"):
            theirs.send(sent)
            await wait_all_tasks_blocked()
        assert got == [b"first", b"second"]
        await twin.aclose()
