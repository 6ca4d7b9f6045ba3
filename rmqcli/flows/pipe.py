"""Writes to a pipe and waits until the reader has read the data.

A pipe of one page is writable only when it is empty, so the system reports when the reader has read
everything. If other processes may write to the same pipe, its size is kept and it is polled instead. It is
not known what a reader does with the data that it has read.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import select
import stat
from importlib.util import find_spec
from time import perf_counter

import trio

PAGE = 4096
BUSY_WAIT = 0.001
"""Seconds to wait without running other tasks: switching tasks takes as long as five messages."""
POLL = 0.01  # seconds
WATCH = 0.5  # seconds; no event reports that the reader of an empty pipe has left


class Pipe:
    """The writing end of a pipe; only one task at a time may `put`. `is_page`: its capacity is one page."""

    def __init__(self, descriptor: int, *, is_page: bool) -> None:
        self._descriptor = descriptor
        self._is_page = is_page
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    @classmethod
    def of(cls, descriptor: int, others: int | None = None) -> Pipe | None:
        """Return the pipe of a descriptor, or None if it is not a pipe. `others`: a descriptor (standard
        error) that may share it.
        """
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISFIFO(status.st_mode) or find_spec("fcntl") is None:  # Windows cannot ask a pipe
                return None
            shared = others is not None and os.path.samestat(status, os.fstat(others))
        except OSError:  # closed
            return None
        return cls(descriptor, is_page=not shared and _resized(descriptor))

    async def put(self, data: bytes) -> None:
        """Write data and return when the reader has read all of it. Raise BrokenPipeError if the reader
        closed the pipe before.
        """
        await self._read()
        # The pipe is empty and holds at least a page, so no write blocks.
        for start in range(0, len(data), PAGE):
            os.write(self._descriptor, data[start : start + PAGE])
            await self._read()

    async def _read(self) -> None:
        if self._is_page:
            while not self._events(BUSY_WAIT):
                await trio.lowlevel.wait_writable(self._descriptor)
        else:
            await self._poll_until_read()
        # A reader that left after it had read everything did get the data.
        if self._events(0) & select.POLLERR and self._unread():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    async def _poll_until_read(self) -> None:
        soon = perf_counter() + BUSY_WAIT
        while self._unread() and not self._events(0) & select.POLLERR:
            if perf_counter() < soon:
                os.sched_yield()
            else:
                await trio.sleep(POLL)

    def _events(self, seconds: float) -> int:
        return next((events for _, events in self._poll.poll(seconds * 1000)), 0)

    def _unread(self) -> int:
        import fcntl
        import termios

        count = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, count)
        return count[0]

    async def reader_gone(self) -> None:
        """Wait until the pipe has no reader."""
        await reader_gone(self._descriptor)


async def reader_gone(descriptor: int) -> None:
    """Wait until a pipe has no reader; forever for any other file, and on Windows."""
    if not hasattr(select, "poll"):
        await trio.sleep_forever()
    poll = select.poll()
    poll.register(descriptor, 0)
    while not any(events & select.POLLERR for _, events in poll.poll(0)):  # noqa: ASYNC110  see WATCH
        await trio.sleep(WATCH)


def _resized(descriptor: int) -> bool:
    """Shrink the capacity to one page, and return True on success: only on Linux, if the pipe holds at most
    one page of data.
    """
    import fcntl

    resize = getattr(fcntl, "F_SETPIPE_SZ", None)
    with contextlib.suppress(OSError):
        return resize is not None and fcntl.fcntl(descriptor, resize, PAGE) == PAGE
    return False
