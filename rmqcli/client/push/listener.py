"""Listeners of push consumers, their contexts and results.

A listener receives a list of messages of one queue and a context. An async function runs in the tasks of the
consumer, a plain one in worker threads, at most `consumers` at once. An exception is logged, and the messages
are consumed again later.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Any

import trio

from codec.message import MessageExt
from codec.message_queue import MessageQueue
from rmqcli.client.functions import is_async


class ConsumeResult(Enum):
    """Java `ConsumeConcurrentlyStatus`."""

    SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class OrderlyResult(Enum):
    """Java `ConsumeOrderlyStatus`. COMMIT and ROLLBACK: for contexts with `auto_commit` set to False."""

    SUCCESS = "SUCCESS"
    SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


class ConsumeContext:
    """The context of one call.

    `ack_index`: index of the last message that succeeded, when not all did. `delay_level` of the retry: with
    0 the broker decides (3 + times consumed), -1 makes a dead letter at once.
    """

    __slots__ = ("ack_index", "delay_level", "queue")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.delay_level = 0
        self.ack_index = sys.maxsize


class OrderlyContext:
    """One call. `suspend_time`: seconds until the queue continues after SUSPEND (None: the setting)."""

    __slots__ = ("auto_commit", "queue", "suspend_time")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.auto_commit = True
        self.suspend_time: float | None = None


ConcurrentListener = Callable[
    [list[MessageExt], ConsumeContext], ConsumeResult | Awaitable[ConsumeResult | None] | None
]
OrderlyListener = Callable[
    [list[MessageExt], OrderlyContext], OrderlyResult | Awaitable[OrderlyResult | None] | None
]
Call = Callable[[list[MessageExt], Any], Awaitable[Any]]


def callable_listener(listener: Callable[..., Any], limiter: trio.CapacityLimiter) -> Call:
    """Return the listener as an async function."""
    if is_async(listener):
        return listener
    # The consumer waits `grace` seconds for a thread; a longer one must not delay its end
    return partial(trio.to_thread.run_sync, listener, abandon_on_cancel=True, limiter=limiter)
