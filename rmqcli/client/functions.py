"""Calls of application functions: async functions are awaited, plain ones run in a worker thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import trio


def is_async(function: Callable[..., Any]) -> bool:
    """True if the function is async, also behind a partial or as `__call__` of an object."""
    inner = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(type(inner), "__call__", None)  # noqa: B004  an object whose call is async
    )


async def called(
    function: Callable[..., Any],
    *arguments: object,
    abandon: bool = False,
    limiter: trio.CapacityLimiter | None = None,
) -> Any:
    """The result of the function; with `abandon`, a cancellation does not wait for the thread."""
    if is_async(function):
        return await function(*arguments)
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=abandon, limiter=limiter)
