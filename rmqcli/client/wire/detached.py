"""Coroutines that run without a trio task, because starting and waking a task costs half as much as a send.

The owner of a detached coroutine resumes it with `step`. It stops in two places: in `Link.request`, where it
yields the Call whose reply it waits for, and in `in_task`, where it needs a task to continue. A task can take
it over with `attached` at any stop, and runs it to its end.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from rmqcli.client.wire.reader import Call

T = TypeVar("T")


# One for each thread, because each may have a trio run with clients.
class _State(threading.local):
    detached = False  # while `step` runs


_state = _State()


def is_detached() -> bool:
    return _state.detached


def step(coroutine: Coroutine[Any, Any, Any]) -> Call | None:
    """Resume a coroutine. Return the Call that it waits for, None if it needs a task.

    Raises StopIteration with the value at its end, and its exception.
    """
    _state.detached = True
    try:
        call: Call | None = coroutine.send(None)
        return call
    finally:
        _state.detached = False


@types.coroutine
def in_task() -> Generator[None, None, None]:
    """Have a task take over, if the coroutine is detached, because the next steps wait in trio."""
    if _state.detached:
        yield


@types.coroutine
def stopped(call: Call) -> Generator[Call, None, None]:
    """Wait until the coroutine is resumed: the call is over, or a task has taken over."""
    try:
        yield call
    except BaseException:
        call.give_up(None)
        raise


@types.coroutine
def attached(coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Carry out a detached coroutine in the current task."""
    # `await` would refuse it, because its last step is still awaited.
    return (yield from coroutine)  # type: ignore[no-any-return]
