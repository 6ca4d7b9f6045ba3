"""Calls of application functions, async or plain, and of one function for many items."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

import trio

from rmqcli.codec.message_queue import MessageQueue

Item = TypeVar("Item")
ErrorT = TypeVar("ErrorT", bound=BaseException)
BETWEEN = ("rmqcli.", "trio.", "outcome.")
"""Modules whose frames are between a task and a function of the application."""


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if the function is async, even if it is wrapped by a partial or is the `__call__` of an
    object.
    """
    inner = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(type(inner), "__call__", None)  # noqa: B004  an object whose call is async
    )


async def called(function: Callable[..., Any], *arguments: object, abandon: bool = False) -> Any:
    """Call a function; a plain one runs in a thread. With `abandon`, a cancellation does not wait for it."""
    if is_async(function):
        return await function(*arguments)
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=abandon)


def from_the_application(error: ErrorT) -> ErrorT:
    """Begin the traceback of an error of `called` with the application's frames; a thread adds ten others."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(BETWEEN):
        trace = trace.tb_next
    # An error of the client itself has no other frames.
    return error if trace is None else error.with_traceback(trace)


async def for_each(function: Callable[[Item], Awaitable[object]], items: Iterable[Item]) -> None:
    """Call the function for all items concurrently."""
    async with trio.open_nursery() as nursery:
        for item in items:
            nursery.start_soon(function, item)


async def for_each_broker(
    function: Callable[[list[MessageQueue]], Awaitable[object]], queues: Iterable[MessageQueue]
) -> None:
    """Call the function concurrently with the queues of each broker."""
    name = attrgetter("broker_name")
    await for_each(function, [list(group) for _, group in groupby(sorted(queues, key=name), name)])
