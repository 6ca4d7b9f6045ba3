"""Bytes in and out of one connection: a socket, or any trio stream (TLS, in-memory streams of tests).

A socket is written without waiting whenever the kernel takes the bytes, many buffers in one system call, memory views
uncopied. `send_now` and `send_some` remove what was sent from the front of the list they are given and return how many
bytes that was.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol

import trio

__all__ = ["Buffer", "SocketTransport", "StreamTransport", "Transport", "read_buffer"]

Buffer = bytes | memoryview

READ_SIZE = 256 * 1024
COALESCE_BYTES = 64 * 1024  # below this one copy is cheaper than a vector of buffers
EAGER_BYTES = 16 * 1024
"""A peer that sent as much at once has more on the way: the next read does without asking the kernel whether there is."""
STREAM_WRITE_BYTES = 1024 * 1024
try:
    IOV_MAX = os.sysconf("SC_IOV_MAX")
except (OSError, ValueError):
    IOV_MAX = 1024


def read_buffer() -> memoryview:
    """What the sockets of one thread read into."""
    return memoryview(bytearray(READ_SIZE))


class Transport(Protocol):
    """What a session needs of its connection."""

    async def receive(self) -> bytes:
        """Some bytes, at most READ_SIZE; empty at the end of the stream. Raises OSError or trio's resource errors."""

    def send_now(self, buffers: list[Buffer]) -> int:
        """Sends what can be sent without waiting."""

    async def send_some(self, buffers: list[Buffer]) -> int:
        """Waits until at least some bytes could be sent."""

    async def close(self) -> None:
        """Closes at once; bytes not sent yet are lost."""


class SocketTransport:
    """A connected, non-blocking TCP socket; owned from here on.

    `buffer` is what it reads into, READ_SIZE bytes shared by all connections of one thread: a fresh block of that size
    for each read costs far more than the copy of what was read.
    """

    def __init__(self, sock: socket.socket, buffer: memoryview) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._buffer = buffer
        self._eager = False

    async def receive(self) -> bytes:
        if self._eager:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(self._sock)
        while True:
            try:
                count = self._sock.recv_into(self._buffer)
            except (BlockingIOError, InterruptedError):
                await trio.lowlevel.wait_readable(self._sock)
                continue
            self._eager = count >= EAGER_BYTES
            return bytes(self._buffer[:count])

    def send_now(self, buffers: list[Buffer]) -> int:
        total = 0
        while buffers:
            try:
                sent = self._send(buffers)
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

    def _send(self, buffers: list[Buffer]) -> int:
        if len(buffers) == 1:
            return self._sock.send(buffers[0])
        vector = buffers[:IOV_MAX]
        return self._sock.sendmsg(vector)


class StreamTransport:
    """Any trio stream. Nothing is ever sent without waiting."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def receive(self) -> bytes:
        return bytes(await self._stream.receive_some(READ_SIZE))

    def send_now(self, _buffers: list[Buffer]) -> int:
        return 0

    async def send_some(self, buffers: list[Buffer]) -> int:
        taken: list[Buffer] = []
        size = 0
        while buffers and size < STREAM_WRITE_BYTES:
            buffer = buffers.pop(0)
            taken.append(buffer)
            size += len(buffer)
        await self._stream.send_all(b"".join(taken))
        return size

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)


def drop_front(buffers: list[Buffer], count: int) -> None:
    """Removes `count` bytes from the front; a buffer that was sent in part stays as a view of its rest."""
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
    """Joins many small buffers, `size` bytes in all, into one."""
    if len(buffers) > 1 and size <= COALESCE_BYTES:
        buffers[:] = [b"".join(buffers)]
