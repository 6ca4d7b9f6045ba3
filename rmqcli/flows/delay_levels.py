"""Finds the property that delays a message: the delay level of a duration, or a timer of 5.x.

The configuration of the brokers that may receive the message has their levels (`messageDelayLevel`), and
says whether they serve timers (`timerWheelEnable`, which brokers of 4.9 do not have). A broker that does
not return it (GET_BROKER_CONFIG) counts as one with the default levels and without timers, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import trio

from rmqcli.client import ClientError, Producer
from rmqcli.codec.bodies.config import decode_properties_text
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.store.delay_levels import DEFAULT_DELAY_LEVELS
from rmqcli.counts import many
from rmqcli.flows.errors import InvalidInput
from rmqcli.grammar.values import parse_duration_ms
from rmqcli.render.output import warn

PROPERTY = "messageDelayLevel"
KNOWN_LEVELS = len(DEFAULT_DELAY_LEVELS.split())
"""Levels that a broker has unless it is configured otherwise."""

TIMERS = "timerWheelEnable"

Table = tuple[str, ...]


class Delays(NamedTuple):
    """The delay levels of a broker, and whether it serves timers."""

    levels: Table
    has_timers: bool


async def delay_property(
    producer: Producer, topic: str, queues: Sequence[MessageQueue], wanted: int | str
) -> tuple[str, str]:
    """Return the property that delays a message by a duration, or by a level of this number, on the brokers of
    `queues` or of the topic: a level of exactly this duration, otherwise a timer.

    A number up to KNOWN_LEVELS is not looked up. Raise InvalidInput if a broker has neither.
    """
    if isinstance(wanted, int) and wanted <= KNOWN_LEVELS:
        return PropertyName.DELAY, str(wanted)
    brokers = await _brokers(producer, queues or await producer.message_queues(topic))
    levels = {broker: known.levels for broker, known in brokers.items()}
    if isinstance(wanted, int):
        check_level(levels, wanted)
        return PropertyName.DELAY, str(wanted)
    try:
        return PropertyName.DELAY, str(chosen_level(levels, wanted))
    except InvalidInput:
        if not brokers or not all(known.has_timers for known in brokers.values()):
            raise
    return PropertyName.TIMER_DELAY_MS, str(parse_duration_ms(wanted))


async def timer_property(
    producer: Producer, topic: str, queues: Sequence[MessageQueue], at_ms: int
) -> tuple[str, str]:
    """Return the property that has a message delivered at a time. Raise InvalidInput if a broker serves no
    timers."""
    brokers = await _brokers(producer, queues or await producer.message_queues(topic))
    without = [broker for broker, known in brokers.items() if not known.has_timers]
    if without:
        raise InvalidInput(
            f"--at: no timers on {', '.join(without)} ({TIMERS}): use --delay with one of its delay levels"
        )
    return PropertyName.TIMER_DELIVER_MS, str(at_ms)


def check_level(tables: Mapping[str, Table], level: int) -> None:
    """Raise InvalidInput if a broker has fewer levels: it would use its last one instead."""
    for broker, table in tables.items():
        if level > len(table):
            there = f"{broker} has {many(len(table), 'delay level')}: {', '.join(table)}"
            raise InvalidInput(f"--delay-level {level}: {there}")


async def _brokers(producer: Producer, queues: Sequence[MessageQueue]) -> dict[str, Delays]:
    brokers: dict[str, Delays] = {}

    async def read(queue: MessageQueue) -> None:
        brokers[queue.broker_name] = await _delays(producer, queue)

    one_each = {queue.broker_name: queue for queue in queues}
    async with trio.open_nursery() as nursery:
        for queue in one_each.values():
            nursery.start_soon(read, queue)
    return {broker: brokers[broker] for broker in sorted(one_each)}


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


async def _delays(producer: Producer, queue: MessageQueue) -> Delays:
    instance = producer.instance
    try:
        (master, *_) = await instance.broker_addresses(queue)
        reply = await instance.call(master, RequestCode.GET_BROKER_CONFIG)
        known = decode_properties_text(reply.body)
        return Delays(tuple(known[PROPERTY].split()), known.get(TIMERS) == "true")
    except (ClientError, CodecError, KeyError) as error:
        warn(f"{queue.broker_name} did not return its delay levels, assuming the default: {_reason(error)}")
        return Delays(tuple(DEFAULT_DELAY_LEVELS.split()), has_timers=False)


def _reason(error: Exception) -> str:
    return f"no {PROPERTY} in its configuration" if isinstance(error, KeyError) else str(error)
