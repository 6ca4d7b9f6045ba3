"""The least that a server on trio can do: take header and body of each frame, answer with fixed bytes. Prints its port; ends on SIGTERM."""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from functools import partial

import trio

READ_SIZE = 256 * 1024
HEAD_SIZE = 8
REPLY_SIZE = 330
REPLY = (REPLY_SIZE - 4).to_bytes(4, "big") + bytes(REPLY_SIZE - 4)
unpack_head = struct.Struct(">iI").unpack_from


async def serve(stream: trio.SocketStream) -> None:
    """One connection; a load that goes away in the middle of an answer is no error."""
    with suppress(trio.BrokenResourceError):
        await answer(stream)


async def answer(stream: trio.SocketStream) -> None:
    waiting = b""
    while data := await stream.receive_some(READ_SIZE):
        frames, waiting = split(waiting + data)
        if frames:
            await stream.send_all(b"".join([REPLY for _ in frames]))


def split(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Header and body of each whole frame, and what is left: what any server has to take out of its socket."""
    frames = []
    position, size = 0, len(data)
    while size - position >= HEAD_SIZE:
        length, mark = unpack_head(data, position)
        end = position + 4 + length
        if end > size:
            break
        body = position + HEAD_SIZE + (mark & 0xFFFFFF)
        frames.append((data[position + HEAD_SIZE : body], data[body:end]))
        position = end
    return frames, data[position:]


async def main() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        print(listeners[0].socket.getsockname()[1], flush=True)
        with trio.open_signal_receiver(15) as signals:
            async for _ in signals:
                nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
    sys.exit(0)
