"""What the server does with requests that came together: replies first, then what could wait for them."""

from __future__ import annotations

import trio

from broker.server import REPLIES_PER_WRITE, Server, ServerLimits
from broker.session import Session, SessionLimits
from codec.frame import DirectReader, RemotingCommand, encode_frame
from codec.headers import SendMessageRequestHeaderV2, to_ext
from tests.broker.serving import ECHO, echo, request


class Wire:
    """A transport that remembers what was written, in one list with what others did."""

    def __init__(self, deeds: list[object], data: bytes) -> None:
        self.deeds = deeds
        self.incoming = [data, b""]

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.incoming.pop(0)

    def send_now(self, buffers: list[bytes | memoryview]) -> int:
        size = sum(map(len, buffers))
        self.deeds.append(size)
        buffers.clear()
        return size

    async def send_some(self, buffers: list[bytes | memoryview]) -> int:
        await trio.lowlevel.checkpoint()
        return self.send_now(buffers)

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()


class Heard:
    def __init__(self, deeds: list[object]) -> None:
        self.deeds = deeds

    def begin_batch(self) -> None:
        self.deeds.append("begin")

    def end_batch(self) -> None:
        self.deeds.append("end")


async def _served(deeds: list[object], data: bytes, limits: ServerLimits | None = None) -> None:
    server = Server({ECHO: echo}, limits=limits, batches=Heard(deeds))
    session = server._session(Wire(deeds, data), ("127.0.0.1", 1), ("127.0.0.1", 2))
    await server._run(session)


async def test_the_end_of_a_batch_is_told_when_its_replies_are_on_the_way() -> None:
    deeds: list[object] = []
    frames = [encode_frame(request(opaque=n)) for n in range(3)]
    replies = [len(encode_frame(echo(None, request(opaque=n)))) for n in range(3)]  # type: ignore[arg-type]
    await _served(deeds, b"".join(frames))
    assert deeds == ["begin", sum(replies), "end"]


async def test_a_long_batch_is_answered_in_parts() -> None:
    deeds: list[object] = []
    await _served(deeds, encode_frame(request(opaque=1)) * (2 * REPLIES_PER_WRITE + 1))
    reply = len(encode_frame(echo(None, request(opaque=1))))  # type: ignore[arg-type]
    part = ["begin", REPLIES_PER_WRITE * reply, "end"]
    assert deeds == [*part, *part, "begin", reply, "end"]


async def test_nobody_waits_inside_a_batch() -> None:
    """Over the mark what is there is sent, and if need be the peer waited for: the batch has ended before."""
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
    header = SendMessageRequestHeaderV2(
        producer_group="g",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
    )
    seen = []

    def handler(_session: Session, command: RemotingCommand) -> None:
        seen.append(command.header)

    reader = DirectReader(310, SendMessageRequestHeaderV2)
    server = Server({310: handler}, direct={reader.beginning: reader})
    frame = encode_frame(RemotingCommand(310, to_ext(header), opaque=1))
    await server._run(server._session(Wire([], frame), ("127.0.0.1", 1), ("127.0.0.1", 2)))
    assert seen == [header]
