"""Reading a queue with retries: a number of tries in a row, with growing waits (seconds)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import trio

from rmqcli.client import ClientError, InvalidRequest, NotFound, NotPermitted
from rmqcli.export.from_topic.batches import BATCH_MESSAGES, QueueRange, read_some

TRIES = 4
FIRST_WAIT = 0.5
_HOPELESS = (InvalidRequest, NotFound, NotPermitted)

T = TypeVar("T")


class QueueEnd(NamedTuple):
    """The end of a queue: all of `wanted` before offset `reached` is exported; `error` says why not all, `lost`
    what was removed while it was read.
    """

    wanted: QueueRange
    reached: int
    error: ClientError | None = None
    lost: tuple[str, ...] = ()


def first_error(error: BaseException) -> BaseException:
    """Return one error of a group: callers expect a plain one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of the first try that succeeds; raise the last ClientError if none does."""
    wait = FIRST_WAIT
    for _ in range(TRIES - 1):
        try:
            return await attempt()
        except _HOPELESS:
            raise
        except ClientError:
            await trio.sleep(wait)
            wait *= 2
    return await attempt()


async def read_queue(
    client: Any,
    wanted: QueueRange,
    take: Callable[[Any], Awaitable[None]],
    batch_messages: int = BATCH_MESSAGES,
) -> QueueEnd:
    """Pass the record batches of a range to `take`."""
    lost: list[str] = []
    end, offset = wanted.begin, wanted.begin
    following: int | None = offset
    while following is not None:
        offset = following

        async def step(offset: int = offset) -> tuple[Any, int | None]:
            return await read_some(client, wanted, offset, batch_messages, lost=lost.append)

        try:
            batch, following = await patiently(step)
        except ClientError as error:
            return QueueEnd(wanted, end, error, tuple(lost))
        await take(batch)
        end = reached(wanted, end, batch, following)
    return QueueEnd(wanted, end, lost=tuple(lost))


def reached(wanted: QueueRange, before: int, batch: Any, following: int | None) -> int:
    """Return where a resumed export continues: for an end in time, and where the broker had no more although
    the range goes on (a slave lags behind), after the last message.
    """
    if wanted.end_time is None and following is not None:
        return following
    return batch["queue_offset"][-1].as_py() + 1 if batch.num_rows else before
