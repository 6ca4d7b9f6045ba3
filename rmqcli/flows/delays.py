"""Finds the property that delays a message: a timer of 5.x, or the delay level of a duration.

The configuration of the brokers that may receive the message has their levels (`messageDelayLevel`), and
shows whether they serve timers (`timerWheelEnable`, which brokers of 4.9 do not have) and of which length. A
broker that does not return it (GET_BROKER_CONFIG) counts as one with the default levels and, if its version
is 5.0 or later, with timers; a warning says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import trio

from rmqcli.client import ClientError, Producer
from rmqcli.codec.bodies.config import decode_properties_text
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.store.delay_levels import DEFAULT_DELAY_LEVELS
from rmqcli.codec.versions import V5_0_0
from rmqcli.counts import many
from rmqcli.flows.errors import InvalidInput
from rmqcli.grammar.values import parse_duration_ms
from rmqcli.render.output import warn
from rmqcli.render.text import duration

LEVELS = "messageDelayLevel"
HAS_TIMERS = "timerWheelEnable"
LONGEST_TIMER = "timerMaxDelaySec"
DEFAULT_LONGEST_SECONDS = 3 * 86400

KNOWN_LEVELS = len(DEFAULT_DELAY_LEVELS.split())
"""Levels that a broker has unless it is configured otherwise."""

Table = tuple[str, ...]


class Delays(NamedTuple):
    """The delay levels of a broker, and the longest delay of a timer in ms; None if it serves no timers."""

    levels: Table = tuple(DEFAULT_DELAY_LEVELS.split())
    longest: int | None = None


Brokers = Mapping[str, Delays]


async def delay_property(
    producer: Producer, topic: str, queues: Sequence[MessageQueue], delay: str
) -> tuple[str, str]:
    """Return the property that delays a message by a duration on the brokers of `queues` or of the topic: a
    timer, otherwise a level of exactly this duration. Raise InvalidInput if a broker has neither.
    """
    brokers = await delays_of(producer, topic, queues)
    wanted = parse_duration_ms(delay) or 0
    problem = timer_problem(brokers, wanted)
    if problem is None:
        return PropertyName.TIMER_DELAY_MS, str(wanted)
    return PropertyName.DELAY, str(chosen_level(_tables(brokers), delay, problem))


async def time_property(
    producer: Producer, topic: str, queues: Sequence[MessageQueue], at: str, at_ms: int
) -> tuple[str, str]:
    """Return the property that has a message delivered at a time. Raise InvalidInput if a broker does not
    serve such a timer."""
    brokers = await delays_of(producer, topic, queues)
    problem = timer_problem(brokers, at_ms - producer.instance.now_ms())
    if problem is None:
        return PropertyName.TIMER_DELIVER_MS, str(at_ms)
    remedy = "" if _with_timers(brokers) else f"; use --delay with a delay level: {_listed(_tables(brokers))}"
    raise InvalidInput(f"--at {at}: {problem}{remedy}")


async def level_property(
    producer: Producer, topic: str, queues: Sequence[MessageQueue], level: int
) -> tuple[str, str]:
    """Return the property of a delay level. Raise InvalidInput if a broker has fewer levels; numbers up to
    KNOWN_LEVELS are not looked up.
    """
    if level > KNOWN_LEVELS:
        check_level(_tables(await delays_of(producer, topic, queues)), level)
    return PropertyName.DELAY, str(level)


def timer_problem(brokers: Brokers, wanted: int) -> str | None:
    """Return the reason why a broker does not serve a timer of this length in ms; None if all do."""
    without = [broker for broker, known in brokers.items() if known.longest is None]
    if without:
        return f"no timers on {', '.join(without)}"
    for broker, known in brokers.items():
        if known.longest is not None and wanted > known.longest:
            return f"longer than the {duration(known.longest / 1000)} of {broker} ({LONGEST_TIMER})"
    return None if brokers else "no broker"


def check_level(tables: Mapping[str, Table], level: int) -> None:
    """Raise InvalidInput if a broker has fewer levels: it would use its last one instead."""
    for broker, table in tables.items():
        if level > len(table):
            there = f"{broker} has {many(len(table), 'delay level')}: {', '.join(table)}"
            raise InvalidInput(f"--delay-level {level}: {there}")


def chosen_level(tables: Mapping[str, Table], delay: str, problem: str) -> int:
    """Return the level. Raise InvalidInput if a broker has none of this duration, or if brokers number it
    differently; `problem` is the reason why it is not a timer.
    """
    wanted = parse_duration_ms(delay)
    found = {broker: _place(table, wanted) for broker, table in tables.items()}
    levels = set(found.values())
    if len(levels) > 1:
        each = ", ".join(f"{level or 'none'} on {broker}" for broker, level in found.items())
        raise InvalidInput(f"--delay {delay}: {problem}; it is level {each}: choose one with --broker")
    level = levels.pop() if levels else None
    if level is None:
        raise InvalidInput(f"--delay {delay}: {problem}, and no such delay level ({_listed(tables)})")
    return level


def _listed(tables: Mapping[str, Table]) -> str:
    return ", ".join(dict.fromkeys(word for table in tables.values() for word in table))


def _place(table: Table, wanted: int | None) -> int | None:
    lengths = [parse_duration_ms(word) for word in table]
    return lengths.index(wanted) + 1 if wanted in lengths else None


def _with_timers(brokers: Brokers) -> Collection[str]:
    return [broker for broker, known in brokers.items() if known.longest is not None]


def _tables(brokers: Brokers) -> dict[str, Table]:
    return {broker: known.levels for broker, known in brokers.items()}


async def delays_of(producer: Producer, topic: str, queues: Sequence[MessageQueue] = ()) -> dict[str, Delays]:
    """Return the delays of the brokers of `queues` or of the topic."""
    brokers: dict[str, Delays] = {}

    async def read(queue: MessageQueue) -> None:
        brokers[queue.broker_name] = await _delays(producer, queue)

    one_each = {queue.broker_name: queue for queue in queues or await producer.message_queues(topic)}
    async with trio.open_nursery() as nursery:
        for queue in one_each.values():
            nursery.start_soon(read, queue)
    return {broker: brokers[broker] for broker in sorted(one_each)}


async def _delays(producer: Producer, queue: MessageQueue) -> Delays:
    instance, version = producer.instance, 0
    try:
        (master, *_) = await instance.broker_addresses(queue)
        reply = await instance.call(master, RequestCode.GET_BROKER_CONFIG, ok=None)
        if reply.code == ResponseCode.SUCCESS:
            return _configured(decode_properties_text(reply.body))
        version, reason = reply.version, reply.remark or f"code {reply.code}"
    except (ClientError, CodecError) as error:
        reason = str(error)
    except KeyError:
        reason = f"no {LEVELS} in its configuration"
    warn(
        f"{queue.broker_name} did not return its delays, assuming the default: {reason.partition(chr(10))[0]}"
    )
    return Delays(longest=DEFAULT_LONGEST_SECONDS * 1000 if version >= V5_0_0 else None)


def _configured(known: Mapping[str, str]) -> Delays:
    text = known.get(LONGEST_TIMER, "")
    seconds = int(text) if text.isdecimal() else DEFAULT_LONGEST_SECONDS
    return Delays(tuple(known[LEVELS].split()), seconds * 1000 if known.get(HAS_TIMERS) == "true" else None)
