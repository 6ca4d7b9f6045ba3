"""Writes to a pipe that end when the reader has taken what was written, not when it is somewhere in between.

A pipe of one page can be written to when it is empty, and only then: so the page is told when the reader is done with it. Readers
that buffer have what they took, whatever they do with it; nobody can know that.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import stat
import termios

import trio

__all__ = ["Pipe"]

PAGE = 4096
QUICK_MS = 1
"""How long a quick reader is waited for without other tasks: the way through the scheduler takes as long as five messages."""
WATCH = 0.5  # seconds; nothing tells of a reader that leaves an empty pipe


class Pipe:
    """The writing end of a pipe. `put` may be used by one task at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    @classmethod
    def of(cls, descriptor: int, others: int | None = None) -> Pipe | None:
        """None when it is no pipe, the system cannot do this, or `others` (standard error) goes to the same pipe: what is written
        there must find room."""
        resize = getattr(fcntl, "F_SETPIPE_SZ", None)
        with contextlib.suppress(OSError, ValueError):
            status = os.fstat(descriptor)
            shared = others is not None and os.path.samestat(status, os.fstat(others))
            if stat.S_ISFIFO(status.st_mode) and resize is not None and not shared:
                fcntl.fcntl(descriptor, resize, PAGE)
                return cls(descriptor)
        return None

    async def put(self, data: bytes) -> None:
        """Returns when the reader has all of it; BrokenPipeError when it left before that."""
        await self._taken()
        for start in range(0, len(data), PAGE):
            os.write(self._descriptor, data[start : start + PAGE])
            await self._taken()

    async def _taken(self) -> None:
        while not (events := self._events(QUICK_MS)):
            await trio.lowlevel.wait_writable(self._descriptor)
        if events & select.POLLERR and self._unread():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def _events(self, milliseconds: int) -> int:
        return next((events for _, events in self._poll.poll(milliseconds)), 0)

    def _unread(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, count)
        return count[0]

    async def reader_gone(self) -> None:
        """Waits until nobody reads any more."""
        while not self._events(0) & select.POLLERR:  # noqa: ASYNC110  the system has no event for it
            await trio.sleep(WATCH)
