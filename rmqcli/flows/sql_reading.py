"""Reads the messages that match a SQL92 condition. Brokers evaluate it (`enablePropertyFilter`), unless one
of them does not support that, or the condition names columns, which brokers do not know: then it is evaluated
here.

Every broker checks the condition first, because a pull with an invalid one would return everything. A broker
that cannot be reached at that time checks it before its first pull.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from rmqcli.client import UNREACHED, BrokerRefused, ClientError, PullConsumer, PullResult
from rmqcli.client.group.settings import check_at
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.flows.errors import FilterNotSupported, InvalidInput
from rmqcli.flows.reading import (
    MatchingReader,
    Reader,
    Span,
    Test,
    all_of,
    body_test,
    choose_queues,
    last_spans,
    names_columns,
    open_range,
    reachable_spans,
    total,
    where_condition,
    where_test,
)
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import PushConsumer

SQL92 = "SQL92"
_NOT_SUPPORTED = "does not support consumer to filter message"


class SqlReader:
    """A `Reader` whose expressions are SQL92 conditions."""

    def __init__(self, consumer: PullConsumer) -> None:
        self._consumer = consumer
        self._checked: set[str] = set()
        self.message_queues = consumer.message_queues
        self.min_offset = consumer.min_offset
        self.max_offset = consumer.max_offset
        self.search_offset = consumer.search_offset

    async def check(self, queue: MessageQueue, sql: str) -> None:
        """Check the condition once per broker; raise an error if the broker refuses it."""
        if queue.broker_name in self._checked:
            return
        instance = self._consumer.instance
        (address, *_) = await instance.broker_addresses(queue)
        subscription = SubscriptionData(topic=queue.topic, sub_string=sql, expression_type=SQL92)
        try:
            await check_at(instance, address, self._consumer.group, subscription)
        except BrokerRefused as error:
            raise _refusal(error, queue.broker_name) from error
        self._checked.add(queue.broker_name)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_nums: int = 32,
        expression: str = "",
        *,
        suspend: float = 0.0,
    ) -> PullResult:
        """Pull as `PullConsumer.pull` does."""
        await self.check(queue, expression)
        return await self._consumer.pull(
            queue, offset, max_nums, expression, suspend=suspend, expression_type=SQL92
        )


async def filtered(
    consumer: PullConsumer,
    queues: Sequence[MessageQueue],
    tag: str,
    where: str | None,
    grep: str | None = None,
) -> tuple[Reader, str, Mapping[MessageQueue, ClientError]]:
    """Return the reader, the expression to pull with, and the queues whose broker cannot be reached.

    Raise InvalidInput if `where` is not a valid condition or `grep` not a valid pattern.
    """
    tests = [] if grep is None else [body_test(grep)]
    if where is None:
        return _matching(consumer, tests), tag, {}
    predicate = where_condition(where)
    if not names_columns(predicate):
        try:
            reader, lost = await _checked(consumer, queues, where)
            return _matching(reader, tests), where, lost
        except (FilterNotSupported, InvalidInput):
            pass  # a broker without SQL92, or with another version of it
    return _matching(consumer, [where_test(predicate), *tests]), tag, {}


def _matching(reader: Reader, tests: list[Test]) -> Reader:
    return MatchingReader(reader, all_of(tests)) if tests else reader


async def _checked(
    consumer: PullConsumer, queues: Sequence[MessageQueue], sql: str
) -> tuple[Reader, Mapping[MessageQueue, ClientError]]:
    """Return the reader of a condition that no broker refuses, and the queues of unreachable brokers."""
    reader = SqlReader(consumer)
    lost: dict[str, ClientError] = {}

    async def check(queue: MessageQueue) -> None:
        try:
            await reader.check(queue, sql)
        except UNREACHED as error:
            lost[queue.broker_name] = error

    refusals: BaseExceptionGroup[FilterNotSupported | InvalidInput] | None = None
    try:
        async with trio.open_nursery() as nursery:
            for queue in {queue.broker_name: queue for queue in queues}.values():
                nursery.start_soon(check, queue)
    except* (FilterNotSupported, InvalidInput) as group:
        refusals = group
    if refusals is not None:
        # Within except*, Python 3.11.2 would put it into another group.
        raise refusals.exceptions[0] from None
    return reader, {queue: lost[queue.broker_name] for queue in queues if queue.broker_name in lost}


async def entered(stack: AsyncExitStack, member: PushConsumer) -> None:
    """Enter a consumer whose condition the brokers check. Raise an error if one refuses it."""
    try:
        await stack.enter_async_context(member)
    except BrokerRefused as error:
        brokers = member.instance.routes.brokers.items()
        named = (name for name, table in brokers if error.address in table.values())
        raise _refusal(error, next(named, error.address)) from error


def _refusal(error: BrokerRefused, broker: str) -> Exception:
    if error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        return InvalidInput(f"--where: {error.remark or 'the broker rejected the condition'}")
    if _NOT_SUPPORTED in error.remark:
        text = f"{broker} filters by tags only: set enablePropertyFilter=true in its broker.conf"
        return FilterNotSupported(text)
    return error


Bar = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""Shows progress towards a number of messages."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The messages to read. `last`: only this many messages at the end, if the range is longer and there are
    no conditions.
    """

    topic: str
    wanted: OffsetRange
    broker: str | None = None
    queue: int | None = None
    tag: str = "*"
    where: str | None = None
    grep: str | None = None
    count: int | None = None
    last: int | None = None


@dataclass(slots=True)
class Pulled:
    """The result of a read. `missing`: brokers that do not respond; `unread`: queues whose reading ended
    early.
    """

    messages: int = 0
    queues: int = 0
    missing: dict[str, ClientError] = field(default_factory=dict)
    unread: list[MessageQueue] = field(default_factory=list)


async def pull_range(
    consumer: PullConsumer, asked: Asked, take: Callable[[MessageExt], None], bar: Bar
) -> Pulled:
    """Call `take` with each message. Raise the error of the brokers if none responds."""
    done = Pulled()
    queues = await choose_queues(consumer, asked.topic, asked.broker, asked.queue)
    reader, expression, lost = await filtered(consumer, queues, asked.tag, asked.where, asked.grep)
    found, failures = await reachable_spans(reader, queues, asked.wanted, lost)
    done.missing = {queue.broker_name: error for queue, error in failures.items()}
    done.queues = len(found)
    found, wanted = _shortened(found, asked)
    with bar(asked.count or total(found)) as advance:
        async with open_range(reader, found, wanted, expression, done.unread) as messages:
            async for message in messages:
                take(message)
                advance(1)
                done.messages += 1
                if done.messages == asked.count:
                    break
    return done


def _shortened(found: list[Span], asked: Asked) -> tuple[list[Span], OffsetRange]:
    if asked.last is None or total(found) <= asked.last:
        return found, asked.wanted
    warn(f"the last {asked.last} of {many(total(found), 'message')}; -o start shows all")
    return last_spans(found, asked.last), OffsetRange(last=asked.last)
