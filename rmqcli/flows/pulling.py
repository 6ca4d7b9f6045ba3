"""Reads what `rmq pull` asks for: the messages of a range that meet the conditions, in order of store time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from codec.message import MessageExt
from codec.message_queue import MessageQueue
from rmqcli.client import ClientError, PullConsumer
from rmqcli.flows.reading import Span, choose_queues, last_spans, open_range, reachable_spans, total
from rmqcli.flows.sql_reading import filtered
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.render.output import warn
from rmqcli.render.text import many

Bar = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""Shows progress towards a number of messages."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The messages to read. `last`: of a longer range without conditions, only so many messages at its end."""

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
    """The result of a read. `missing`: brokers that do not respond; `unread`: queues that were cut short."""

    messages: int = 0
    queues: int = 0
    missing: dict[str, ClientError] = field(default_factory=dict)
    unread: list[MessageQueue] = field(default_factory=list)


async def pull_range(
    consumer: PullConsumer, asked: Asked, take: Callable[[MessageExt], None], bar: Bar
) -> Pulled:
    """Call `take` with each message; raise the error of the brokers if none responds."""
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
