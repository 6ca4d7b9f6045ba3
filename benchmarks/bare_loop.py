"""The minimal server on trio: reads frames, replies with fixed bytes. Prints its port; ends on SIGTERM.

`count` only locates the frames; `take` also slices header and body, as every real server must.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import trio

READ_SIZE = 256 * 1024
HEAD_SIZE = 8
REPLY_SIZE = 330
REPLY = (REPLY_SIZE - 4).to_bytes(4, "big") + bytes(REPLY_SIZE - 4)
unpack_head = struct.Struct(">iI").unpack_from


async def serve(frames_of: Callable[[bytes], tuple[int, int]], stream: trio.SocketStream) -> None:
    """Serve one connection. A load that disconnects during a reply is not an error."""
    waiting = b""
    with suppress(trio.BrokenResourceError):
        while data := await stream.receive_some(READ_SIZE):
            waiting += data
            frames, end = frames_of(waiting)
            waiting = waiting[end:]
            if frames:
                await stream.send_all(REPLY * frames)


def count(data: bytes) -> tuple[int, int]:
    """Return the number of whole frames and the end of the last one."""
    position, frames, size = 0, 0, len(data)
    while size - position >= 4:
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if end > size:
            break
        position, frames = end, frames + 1
    return frames, position


def take(data: bytes) -> tuple[int, int]:
    """Like `count`, but slices header and body of each frame."""
    taken = []
    position, size = 0, len(data)
    while size - position >= HEAD_SIZE:
        length, mark = unpack_head(data, position)
        end = position + 4 + length
        if end > size:
            break
        body = position + HEAD_SIZE + (mark & 0xFFFFFF)
        taken.append((data[position + HEAD_SIZE : body], data[body:end]))
        position = end
    return len(taken), position


WAYS = {"count": count, "take": take}


async def main(how: str) -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            partial(trio.serve_tcp, partial(serve, WAYS[how]), 0, host="127.0.0.1")
        )
        print(listeners[0].socket.getsockname()[1], flush=True)
        with trio.open_signal_receiver(15) as signals:
            async for _ in signals:
                nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
    sys.exit(0)
