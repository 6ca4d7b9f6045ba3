"""Outages: requests to a broker that is away are retried a number of times; a topic that is gone is an error
at once.

A broker or name server that does not respond is away. So is a broker that is not registered with the name
servers: when it stops, its topics vanish from the routes, and when it starts, it registers them again. A
topic or queue is gone if its broker is registered, but does not have it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, TypeVar, cast

import trio

from rmqcli.client import (
    Admin,
    ClientError,
    ClientInstance,
    InvalidRequest,
    NotFound,
    NotPermitted,
    PullConsumer,
)
from rmqcli.codec.errors import CodecError
from rmqcli.counts import many
from rmqcli.export.errors import ExportError
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rmqcli.export.spark_source.options import ReadOptions, WriteOptions


RETRIES = 60
RETRY_INTERVAL_MS = 1000
"""Together with RETRIES, long enough for brokers to register again with a restarted name server (30 s)."""
FIRST_RETRIES = 3

T = TypeVar("T")


class Outage(ExportError):
    """A broker or name server was away for longer than the options allow.

    The query can be started again without losing messages.
    """


class BrokerAway(ClientError):
    """A broker is not registered with the name servers."""

    def __init__(self, brokers: Collection[str]) -> None:
        names = ", ".join(sorted(brokers)) or "no broker"
        super().__init__(f"{names} is {'not ' if brokers else ''}registered with the name servers")


@asynccontextmanager
async def opened(options: ReadOptions) -> AsyncIterator[PullConsumer]:
    assert options.client is not None
    async with ClientInstance(**options.client.arguments) as instance:
        yield PullConsumer(options.group, instance=instance)


async def reading(
    options: ReadOptions, attempt: Callable[[PullConsumer], Awaitable[T]], brokers: Collection[str] = ()
) -> T:
    """Return the result of `attempt` with a consumer, in as many attempts as `options` allow.

    `brokers` are known to have the queues. If there are none, this is the first contact: then FIRST_RETRIES
    suffice, and one registered broker is enough to conclude that a topic that is not found is gone. Raises
    Outage, and other ClientErrors of `attempt`.
    """

    async def once() -> T:
        async with opened(options) as consumer:
            return await attempt(consumer)

    retries = options.retries if brokers else min(options.retries, FIRST_RETRIES)
    return await _outlasting(options, retries, once, brokers)


async def writing(options: WriteOptions, attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `attempt`, in as many attempts as `options` allow.

    Raises the errors of `reading`.
    """
    return await _outlasting(options, options.retries, attempt, ())


async def _outlasting(
    options: ReadOptions | WriteOptions,
    retries: int,
    attempt: Callable[[], Awaitable[T]],
    brokers: Collection[str],
) -> T:
    is_there = False
    for left in range(retries, -1, -1):
        try:
            return await attempt()
        except (InvalidRequest, NotPermitted):
            raise
        except ClientError as error:
            reason = await _away(options, brokers) if isinstance(error, NotFound) else error
            # A missing broker may have registered since, with all its topics: the next attempt shows it.
            if reason is None and (is_there or not left):
                raise
            is_there = reason is None
            if reason is not None and not left:
                raise _outage(options, reason, retries) from error
            if reason is not None and left == retries:
                warn(f"{reason}; trying again for {_seconds(options, retries):g} s")
        await trio.sleep(0 if is_there else options.retry_interval_ms / 1000)
    raise AssertionError("the last attempt returns or raises")


async def _away(options: ReadOptions | WriteOptions, brokers: Collection[str]) -> ClientError | None:
    """Return the error of a cluster in which something is away, or None if everything is there."""
    try:
        missing = set(brokers) - (registered := await registered_brokers(options.client))
    except ClientError as error:
        return error
    return BrokerAway(missing) if missing or not registered else None


async def registered_brokers(client: Any) -> set[str]:
    """Return the names of the brokers known to the name servers. Raises ClientError."""
    async with ClientInstance(**client.arguments) as instance:
        return set((await Admin(instance=instance).brokers.cluster_info()).broker_addr_table)


def _outage(options: ReadOptions | WriteOptions, reason: ClientError, retries: int) -> Outage:
    return Outage(
        f"{reason}; {many(retries, 'more attempt')} in {_seconds(options, retries):g} s did not help "
        "(fetchOffset.numRetries, fetchOffset.retryIntervalMs); no offset was skipped: start the query again"
    )


def _seconds(options: ReadOptions | WriteOptions, retries: int) -> float:
    return retries * options.retry_interval_ms / 1000


# Errors without a traceback: Spark shows the output of its Python workers, with the informative line last.
#
# A worker that meets an error prints it and ends. If it is one of ours, Spark is told to print only the error
# (SPARK_HIDE_TRACEBACK), which names the cause and the remedy; set that variable to nothing to see tracebacks.

_WORKER = (
    *("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER_FACTORY_SECRET"),
    *("PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH"),
)
"""One of these variables is set in the processes that Spark starts."""
_HIDE = "SPARK_HIDE_TRACEBACK"

Function = TypeVar("Function", bound=Callable[..., Any])


@contextmanager
def plain_errors() -> Iterator[None]:
    try:
        yield
    except (ClientError, CodecError, ExportError, OSError):
        if any(name in os.environ for name in _WORKER):
            os.environ.setdefault(_HIDE, "1")
        raise


def plainly(function: Function) -> Function:
    """Make a function, or generator function, that Spark calls raise such errors without a traceback."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with plain_errors():
            return function(*arguments, **named)

    @wraps(function)
    def generate(*arguments: Any, **named: Any) -> Any:
        with plain_errors():
            return (yield from function(*arguments, **named))

    return cast(Function, generate if isgeneratorfunction(function) else call)
