"""Requests that arrive together: their replies are sent first, then deferred work runs."""

from __future__ import annotations

from collections.abc import Sequence

import trio.testing

from rmqcli.broker.net.dispatch import REPLIES_PER_WRITE, Barrier, RunHandler
from rmqcli.broker.net.limits import ServerLimits, SessionLimits
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import DirectReaders, encode_frame
from tests.broker.serving import ECHO, Wire, echo, request
from tests.broker.support import send_header


class Heard:
    def __init__(self, deeds: list[object]) -> None:
        self.deeds = deeds

    barrier: Barrier | None = None

    def begin_batch(self) -> None:
        self.deeds.append("begin")

    def end_batch(self) -> None:
        self.deeds.append("end")


async def _served(deeds: list[object], data: bytes, limits: ServerLimits | None = None) -> None:
    server = Server({ECHO: echo}, limits=limits, batches=Heard(deeds))
    await server.serve_transport(Wire(data, deeds))


async def test_a_batch_ends_after_its_replies_are_sent(mock_clock: trio.testing.MockClock) -> None:
    deeds: list[object] = []
    frames = [encode_frame(request(opaque=n)) for n in range(3)]
    replies = [len(encode_frame(echo(None, request(opaque=n)))) for n in range(3)]  # type: ignore[arg-type]
    await _served(deeds, b"".join(frames))
    assert deeds == ["begin", sum(replies), "end"]


async def test_a_long_batch_is_answered_in_parts(mock_clock: trio.testing.MockClock) -> None:
    deeds: list[object] = []
    await _served(deeds, encode_frame(request(opaque=1)) * (2 * REPLIES_PER_WRITE + 1))
    reply = len(encode_frame(echo(None, request(opaque=1))))  # type: ignore[arg-type]
    part = ["begin", REPLIES_PER_WRITE * reply, "end"]
    assert deeds == [*part, *part, "begin", reply, "end"]


async def test_a_wait_for_the_peer_is_outside_of_batches() -> None:
    """Above the limit the queue is sent, and the server may wait for the peer, after the batch has ended."""
    deeds: list[object] = []
    body = bytes(1000)
    await _served(
        deeds,
        encode_frame(request(opaque=1, body=body)) * 3,
        ServerLimits(session=SessionLimits(pause_bytes=1)),
    )
    size = len(encode_frame(echo(None, request(opaque=1, body=body))))  # type: ignore[arg-type]
    assert deeds == ["begin", size, "end"] * 3


async def test_a_direct_reader_gives_handlers_the_typed_header() -> None:
    header = send_header("T")
    seen = []

    def handler(_session: Session, command: RemotingCommand) -> None:
        seen.append(command.header)

    server = Server({310: handler}, direct=DirectReaders({310: SendMessageRequestHeaderV2}))
    frame = encode_frame(RemotingCommand(310, to_ext(header), opaque=1))
    await server.serve_transport(Wire(frame))
    assert seen == [header]


def reply_frame(command: RemotingCommand, remark: str) -> bytes:
    return encode_frame(command.reply(0, remark))


async def _in_runs(run: RunHandler, count: int) -> list[tuple[int, int, str | None]]:
    wire = Wire(b"".join(encode_frame(request(opaque=n)) for n in range(count)))
    server = Server({ECHO: echo}, runs={ECHO: run})
    await server.serve_transport(wire)
    return [(reply.opaque, reply.code, reply.remark) for reply in wire.replies()]


async def test_a_run_handles_what_it_accepts_and_the_rest_goes_one_by_one() -> None:
    offered = []

    def two_of_five(session: Session, commands: Sequence[RemotingCommand]) -> int:
        offered.append([command.opaque for command in commands])
        if len(offered) != 2:
            return 0
        session.queue_reply(b"".join(reply_frame(command, "run") for command in commands[:2]))
        return 2

    assert await _in_runs(two_of_five, 5) == [
        (0, 0, None),
        (1, 0, "run"),
        (2, 0, "run"),
        (3, 0, None),
        (4, 0, None),
    ]
    assert offered == [[0, 1, 2, 3, 4], [1, 2, 3, 4], [3, 4], [4]], "one that is alone, too"


async def test_an_error_in_a_run_fails_one_request() -> None:
    def failing(_session: Session, commands: Sequence[RemotingCommand]) -> int:
        if commands[0].opaque == 1:
            raise ZeroDivisionError("a bug")
        return 0

    assert await _in_runs(failing, 3) == [(0, 0, None), (1, 1, "ZeroDivisionError: a bug"), (2, 0, None)]
