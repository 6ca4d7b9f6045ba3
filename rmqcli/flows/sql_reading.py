"""Reads the messages that match a SQL92 condition. Brokers evaluate it (`enablePropertyFilter`), unless one
of them does not support it, or it names columns, of which brokers know nothing: then it is evaluated here.

Every broker checks the condition first: a pull with an invalid one would return everything. A broker that
cannot be reached then checks it before its first pull.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

import trio

from codec.bodies.heartbeat import SubscriptionData
from codec.codes import ResponseCode
from codec.message_queue import MessageQueue
from rmqcli.client import UNREACHED, BrokerRefused, ClientError, PullConsumer, PullResult, PushConsumer
from rmqcli.client.group.subscription import check_at
from rmqcli.flows.errors import FilterNotSupported, InvalidInput
from rmqcli.flows.matching import (
    MatchingReader,
    Test,
    all_of,
    body_test,
    names_columns,
    where_condition,
    where_test,
)
from rmqcli.flows.reading import Reader

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

    Raise InvalidInput if `where` is no condition, or `grep` no pattern.
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
            pass  # a broker without SQL92, or with that of another version
    return _matching(consumer, [where_test(predicate), *tests]), tag, {}


def _matching(reader: Reader, tests: list[Test]) -> Reader:
    return MatchingReader(reader, all_of(tests)) if tests else reader


async def _checked(
    consumer: PullConsumer, queues: Sequence[MessageQueue], sql: str
) -> tuple[Reader, Mapping[MessageQueue, ClientError]]:
    """Return the reader of a condition that no broker refuses, and the queues of silent brokers."""
    reader = SqlReader(consumer)
    lost: dict[str, ClientError] = {}

    async def check(queue: MessageQueue) -> None:
        try:
            await reader.check(queue, sql)
        except UNREACHED as error:
            lost[queue.broker_name] = error

    try:
        async with trio.open_nursery() as nursery:
            for queue in {queue.broker_name: queue for queue in queues}.values():
                nursery.start_soon(check, queue)
    except* (FilterNotSupported, InvalidInput) as refusals:
        raise refusals.exceptions[0] from None
    return reader, {queue: lost[queue.broker_name] for queue in queues if queue.broker_name in lost}


async def entered(stack: AsyncExitStack, member: PushConsumer) -> None:
    """Enter a consumer whose condition the brokers check; raise an error if one refuses it."""
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
