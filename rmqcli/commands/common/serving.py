"""Code shared by `rmq up`, `rmq broker` and `rmq namesrv`: logs, the line that announces readiness, a clean
stop.

SIGINT and SIGTERM stop the server cleanly with exit code 0; a second signal stops it at once. Every mapped
file and every connection needs a file descriptor, so a server raises its limit to the maximum. Its threads
share one heap.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import TypeVar

import trio

from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.logs import Escaped, OneLine
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.render import Output
from rmqcli.render.text import tsv_line

T = TypeVar("T")

COLLECT_AFTER = 500, 3, 3_000
"""Thresholds of the garbage collector's generations: scanning a thousand objects takes 0.3 ms, during which
all tasks wait.
"""
TASKS = 16
"""The tasks after which the collector runs. A connection is one or two tasks, with some fifty objects."""
SWITCH_SECONDS = 0.001
"""The longest time for which a worker thread makes the event loop wait; Python's default is 5 ms."""
M_ARENA_MAX = -8
STDIN = 0
READ_BYTES = 4096
# Errors of binding to another machine's address, and of looking up an unknown name.
_NOT_LOCAL = (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_NODATA, socket.EAI_AGAIN)


async def opened(
    stack: AsyncExitStack, server: AbstractAsyncContextManager[T], what: str, address: str, option: str
) -> T:
    """Open a server until the stack ends. If it cannot listen on "host:port", explain why and name the option
    that selects another port.
    """
    try:
        return await stack.enter_async_context(server)
    except OSError as error:
        reasons = {errno.EADDRINUSE: "the port is in use", errno.EACCES: "permission denied"}
        if error.errno in _NOT_LOCAL:
            reason = "not an address of this machine; use 127.0.0.1 for local clients only, 0.0.0.0 for all"
        elif error.errno in reasons:
            reason = f"{reasons[error.errno]}; choose another port with {option} (0: any free port)"
        else:
            raise
        raise CommandError(f"{what} cannot listen on {address}: {reason}") from error


def announce(settings: Settings, fields: Mapping[str, str], text: str) -> None:
    """Print and flush a line that announces that the servers accept connections."""
    output = Output()
    if settings.json:
        output.json(dict(fields))
    else:
        output.line(text if settings.terminal else tsv_line(fields.values()))
    output.flush()


def log_to_stderr(settings: Settings) -> None:
    """Log warnings and errors in one line each; with `-v`, log everything of rmq, with modules and tracebacks."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.verbose:
        handler.setFormatter(Escaped("rmq: %(name)s: %(message)s"))
    else:
        handler.setFormatter(OneLine("rmq: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    if settings.verbose:
        # Not of all libraries: hpack logs each header of a call, including its signature.
        logging.getLogger("rmqcli").setLevel(logging.DEBUG)


class Stop:
    """Set by the first signal, or by the end of standard input; the second signal cancels."""

    def __init__(self) -> None:
        self.event = trio.Event()

    async def watch(
        self, scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Wait for signals forever."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                if self.event.is_set():
                    scope.cancel()
                self.event.set()

    async def watch_stdin(self) -> None:
        """Wait for the end of standard input. What comes before it is discarded."""
        with suppress(OSError):  # closed from the start
            while True:
                with suppress(PermissionError):  # epoll refuses files and /dev/null, which never wait
                    await trio.lowlevel.wait_readable(STDIN)
                if not os.read(STDIN, READ_BYTES):
                    break
                await trio.lowlevel.checkpoint()
        self.event.set()


class CollectAfterTasks(trio.abc.Instrument):
    """Makes the garbage collector scan the objects of the latest tasks.

    The collector counts objects created minus objects freed. If as many connections end as begin, its count
    hardly rises, and it finally scans all objects at once.
    """

    def __init__(self) -> None:
        self._spawned = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self._spawned += 1
        if self._spawned % TASKS == 0:
            gc.collect(1)


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    # macOS reports a hard limit that it does not grant
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def share_one_heap() -> None:
    """Make all threads allocate from one heap (arena) of glibc's malloc.

    Otherwise, each worker thread would get a separate arena and keep a megabyte of freed memory there.
    Threads that run Python take turns anyway, so they do not compete for the arena. Other C libraries lack
    this option (mallopt(3)).
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def run_until_stopped(start: Callable[[AsyncExitStack], Awaitable[None]], *, until_eof: bool = False) -> None:
    """Start servers, which announce themselves and end with the stack, and stop them at a signal; with
    `until_eof`, also at the end of standard input.
    """

    async def main() -> None:
        raise_descriptor_limit()
        share_one_heap()
        stop = Stop()
        async with trio.open_nursery() as nursery:
            await nursery.start(stop.watch, nursery.cancel_scope)
            if until_eof:
                nursery.start_soon(stop.watch_stdin)
            async with AsyncExitStack() as stack:
                await start(stack)
                gc.freeze()  # long-lived objects: keep the collector from scanning them while requests wait
                gc.set_threshold(*COLLECT_AFTER)
                trio.lowlevel.add_instrument(CollectAfterTasks())
                sys.setswitchinterval(SWITCH_SECONDS)
                await stop.event.wait()
            nursery.cancel_scope.cancel()

    run_async(main)
