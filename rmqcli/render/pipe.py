"""Writes to a pipe that end when the reader has taken what was written, not when it is somewhere in between.

A pipe of one page can be written to when it is empty, and only then: so the system tells when the reader is done with it. Where
others write to the same pipe, which must not wait, it stays as it is and is looked at again and again. Readers that buffer have what
they took, whatever they do with it; nobody can know that.
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
from time import perf_counter

import trio

__all__ = ["Pipe"]

PAGE = 4096
QUICK = 0.001
"""Seconds that a quick reader is waited for without other tasks: the way through the scheduler takes as long as five messages."""
LOOK = 0.01  # seconds
WATCH = 0.5  # seconds; nothing tells of a reader that leaves an empty pipe


class Pipe:
    """The writing end of a pipe. `put` may be used by one task at a time. `is_page`: it has one page."""

    def __init__(self, descriptor: int, *, is_page: bool) -> None:
        self._descriptor = descriptor
        self._is_page = is_page
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    @classmethod
    def of(cls, descriptor: int, others: int | None = None) -> Pipe | None:
        """None when it is no pipe. `others` is where those write (standard error) that may write to the same pipe."""
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISFIFO(status.st_mode):
                return None
            shared = others is not None and os.path.samestat(status, os.fstat(others))
        except OSError:  # closed
            return None
        return cls(descriptor, is_page=not shared and _resized(descriptor))

    async def put(self, data: bytes) -> None:
        """Returns when the reader has all of it; BrokenPipeError when it left before that."""
        await self._taken()
        for start in range(0, len(data), PAGE):
            os.write(self._descriptor, data[start : start + PAGE])
            await self._taken()

    async def _taken(self) -> None:
        if self._is_page:
            while not self._events(QUICK):
                await trio.lowlevel.wait_writable(self._descriptor)
        else:
            await self._looked_at()
        if self._events(0) & select.POLLERR and self._unread():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    async def _looked_at(self) -> None:
        soon = perf_counter() + QUICK
        while self._unread() and not self._events(0) & select.POLLERR:
            if perf_counter() < soon:
                os.sched_yield()
            else:
                await trio.sleep(LOOK)

    def _events(self, seconds: float) -> int:
        return next((events for _, events in self._poll.poll(seconds * 1000)), 0)

    def _unread(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, count)
        return count[0]

    async def reader_gone(self) -> None:
        """Waits until nobody reads any more."""
        while not self._events(0) & select.POLLERR:  # noqa: ASYNC110  the system has no event for it
            await trio.sleep(WATCH)


def _resized(descriptor: int) -> bool:
    """Whether the pipe has one page now; only Linux can do that, and only while no more than that waits in it."""
    resize = getattr(fcntl, "F_SETPIPE_SZ", None)
    with contextlib.suppress(OSError):
        return resize is not None and fcntl.fcntl(descriptor, resize, PAGE) == PAGE
    return False
