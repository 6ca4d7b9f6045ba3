"""Bytes of one connection: over a socket, or over any trio stream (TLS, in-memory streams).

A socket is written without waiting as long as the kernel accepts bytes: many buffers in one system call,
without copying memory views. `send_now` and `send_some` remove the bytes sent from the front of their list
and return their number.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol

import trio

from rmqcli.broker.net.turns import Pace

Buffer = bytes | memoryview

READ_SIZE = 256 * 1024
COALESCE_BYTES = 64 * 1024  # below this size a copy is cheaper than a vector of buffers
SHORT_READ_SIZE = 32 * 1024
"""Maximum number of bytes that are read outside of a turn."""
EAGER_BYTES = 16 * 1024
"""Minimum size of a read after which the next one does not wait for the socket to be readable, because more
data is probably there."""
SEND_SIZE = 256 * 1024
"""Maximum number of bytes that are sent at a time: the kernel copies them, and also does the receiver's work
if that is on the same machine.
"""
STREAM_WRITE_BYTES = 1024 * 1024
try:
    IOV_MAX = os.sysconf("SC_IOV_MAX")
except (AttributeError, OSError, ValueError):
    IOV_MAX = 1024


def read_buffer() -> memoryview:
    """Return a buffer that all sockets of one thread share for reading."""
    return memoryview(bytearray(READ_SIZE))


class Transport(Protocol):
    """The I/O of a session."""

    async def receive(self, pace: Pace | None = None) -> bytes:
        """Receive up to SHORT_READ_SIZE bytes, or READ_SIZE in a turn of `pace`; empty at the end of the
        stream. Raises OSError and trio's resource errors."""

    def send_now(self, buffers: list[Buffer]) -> int:
        """Send at most SEND_SIZE bytes without waiting."""

    async def send_some(self, buffers: list[Buffer]) -> int:
        """Wait until bytes can be sent, and send some."""

    async def close(self) -> None:
        """Close immediately. Unsent bytes are dropped."""


class SocketTransport:
    """A connected TCP socket, which this object owns and closes.

    It reads into `buffer`, READ_SIZE bytes that all connections of one thread share: allocating that much for
    each read costs far more than copying the bytes read.
    """

    def __init__(self, sock: socket.socket, buffer: memoryview) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._buffer = buffer
        self._short_buffer = buffer[:SHORT_READ_SIZE]
        self._eager = False

    async def receive(self, pace: Pace | None = None) -> bytes:
        if not self._eager:
            await self._readable(pace)
        elif pace is None:
            # Nothing below waits if there is data, so this is where other tasks run.
            await trio.lowlevel.checkpoint()
        else:
            await pace.next()
        buffer = self._short_buffer if pace is None else self._buffer
        while True:
            try:
                count = self._sock.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                await self._readable(pace)
                continue
            self._eager = count >= EAGER_BYTES
            return bytes(buffer[:count])

    async def _readable(self, pace: Pace | None) -> None:
        await trio.lowlevel.wait_readable(self._sock)
        if pace is not None:
            await pace.after_wait()

    def send_now(self, buffers: list[Buffer]) -> int:
        total = 0
        while buffers and total < SEND_SIZE:
            try:
                sent = self._send(buffers, SEND_SIZE - total)
            except (BlockingIOError, InterruptedError):
                break
            total += sent
            drop_front(buffers, sent)
        return total

    async def send_some(self, buffers: list[Buffer]) -> int:
        await trio.lowlevel.wait_writable(self._sock)
        return self.send_now(buffers)

    async def close(self) -> None:
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()

    def _send(self, buffers: list[Buffer], most: int) -> int:
        first = buffers[0]
        if len(buffers) == 1 or len(first) >= most:
            return self._sock.send(first if len(first) <= most else memoryview(first)[:most])
        vector = buffers[:IOV_MAX]
        return self._sock.sendmsg(vector if sum(map(len, vector)) <= most else front(vector, most))


class StreamTransport:
    """A transport over any trio stream. It sends only in `send_some`."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def receive(self, pace: Pace | None = None) -> bytes:
        if pace is not None:
            await pace.next()
        return bytes(await self._stream.receive_some(READ_SIZE))

    def send_now(self, _buffers: list[Buffer]) -> int:
        return 0

    async def send_some(self, buffers: list[Buffer]) -> int:
        chunk: list[Buffer] = []
        size = 0
        while buffers and size < STREAM_WRITE_BYTES:
            buffer = buffers.pop(0)
            chunk.append(buffer)
            size += len(buffer)
        await self._stream.send_all(b"".join(chunk))
        return size

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)


def front(buffers: list[Buffer], size: int) -> list[Buffer]:
    """Return the first `size` bytes of longer buffers; the last one is cut."""
    taken: list[Buffer] = []
    for buffer in buffers:
        if len(buffer) >= size:
            taken.append(memoryview(buffer)[:size])
            break
        taken.append(buffer)
        size -= len(buffer)
    return taken


def drop_front(buffers: list[Buffer], count: int) -> None:
    """Remove `count` bytes from the front; a partly sent buffer is replaced by a view of its remainder."""
    whole = 0
    for buffer in buffers:
        if len(buffer) > count:
            break
        count -= len(buffer)
        whole += 1
    del buffers[:whole]
    if count:
        buffers[0] = memoryview(buffers[0])[count:]


def coalesce(buffers: list[Buffer], size: int) -> None:
    """Join buffers of `size` bytes in total into one if that is cheaper to send."""
    if len(buffers) > 1 and size <= COALESCE_BYTES:
        buffers[:] = [b"".join(buffers)]
