"""Finds the number of a delay level by its duration, or checks that a number exists, in the
`messageDelayLevel` of the brokers that may receive the message.

A broker that does not return its configuration (GET_BROKER_CONFIG) counts as one with the default levels,
with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio

from rmqcli.client import ClientError, Producer
from rmqcli.codec.bodies.config import decode_properties_text
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.store.delay_levels import DEFAULT_DELAY_LEVELS
from rmqcli.counts import many
from rmqcli.flows.errors import InvalidInput
from rmqcli.grammar.values import parse_duration_ms
from rmqcli.render.output import warn

PROPERTY = "messageDelayLevel"
KNOWN_LEVELS = len(DEFAULT_DELAY_LEVELS.split())
"""Levels that a broker has unless it is configured otherwise."""

Table = tuple[str, ...]


async def level_of(producer: Producer, topic: str, queues: Sequence[MessageQueue], wanted: int | str) -> int:
    """Return the level of exactly this duration, or of this number, on the brokers of `queues` or of the
    topic.

    A number up to KNOWN_LEVELS is not looked up. Raise InvalidInput if a broker does not have the level.
    """
    if isinstance(wanted, int) and wanted <= KNOWN_LEVELS:
        return wanted
    tables = await _tables(producer, queues or await producer.message_queues(topic))
    if isinstance(wanted, str):
        return chosen_level(tables, wanted)
    check_level(tables, wanted)
    return wanted


def check_level(tables: Mapping[str, Table], level: int) -> None:
    """Raise InvalidInput if a broker has fewer levels: it would use its last one instead."""
    for broker, table in tables.items():
        if level > len(table):
            there = f"{broker} has {many(len(table), 'delay level')}: {', '.join(table)}"
            raise InvalidInput(f"--delay-level {level}: {there}")


async def _tables(producer: Producer, queues: Sequence[MessageQueue]) -> dict[str, Table]:
    tables: dict[str, Table] = {}

    async def read(queue: MessageQueue) -> None:
        tables[queue.broker_name] = await _table(producer, queue)

    one_each = {queue.broker_name: queue for queue in queues}
    async with trio.open_nursery() as nursery:
        for queue in one_each.values():
            nursery.start_soon(read, queue)
    return {broker: tables[broker] for broker in sorted(one_each)}


def chosen_level(tables: Mapping[str, Table], delay: str) -> int:
    """Return the level. Raise InvalidInput if a broker has none of this duration, or if brokers number it
    differently.
    """
    wanted = parse_duration_ms(delay)
    found = {broker: _place(table, wanted) for broker, table in tables.items()}
    levels = set(found.values())
    if len(levels) > 1:
        each = ", ".join(f"{level or 'none'} on {broker}" for broker, level in found.items())
        raise InvalidInput(f"--delay {delay} is level {each}: choose one with --broker")
    level = levels.pop() if levels else None
    if level is None:
        there = ", ".join(dict.fromkeys(word for table in tables.values() for word in table))
        raise InvalidInput(f"--delay {delay}: no such delay level (available: {there})")
    return level


def _place(table: Table, wanted: int | None) -> int | None:
    lengths = [parse_duration_ms(word) for word in table]
    return lengths.index(wanted) + 1 if wanted in lengths else None


async def _table(producer: Producer, queue: MessageQueue) -> Table:
    instance = producer.instance
    try:
        (master, *_) = await instance.broker_addresses(queue)
        reply = await instance.call(master, RequestCode.GET_BROKER_CONFIG)
        return tuple(decode_properties_text(reply.body)[PROPERTY].split())
    except (ClientError, CodecError, KeyError) as error:
        warn(f"{queue.broker_name} did not return its delay levels, assuming the default: {_reason(error)}")
        return tuple(DEFAULT_DELAY_LEVELS.split())


def _reason(error: Exception) -> str:
    return f"no {PROPERTY} in its configuration" if isinstance(error, KeyError) else str(error)
