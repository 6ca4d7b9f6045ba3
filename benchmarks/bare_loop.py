"""The least that a server on trio can do: read frames, answer each with fixed bytes. Prints its port; ends on SIGTERM."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial

import trio

REPLY_SIZE = 330
REPLY = (REPLY_SIZE - 4).to_bytes(4, "big") + bytes(REPLY_SIZE - 4)


async def serve(stream: trio.SocketStream) -> None:
    """One connection; a load that goes away in the middle of an answer is no error."""
    with suppress(trio.BrokenResourceError):
        await answer(stream)


async def answer(stream: trio.SocketStream) -> None:
    waiting = b""
    while data := await stream.receive_some(262144):
        waiting += data
        position, count, size = 0, 0, len(waiting)
        while size - position >= 4:
            end = position + 4 + int.from_bytes(waiting[position : position + 4], "big")
            if end > size:
                break
            position, count = end, count + 1
        waiting = waiting[position:]
        if count:
            await stream.send_all(REPLY * count)


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
