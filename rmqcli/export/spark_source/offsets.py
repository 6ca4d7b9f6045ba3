"""Offsets of queues as values and as JSON, `{"topic":{"broker-a":{"0":23}}}`, for options and checkpoints.

In options, -2 is the earliest and -1 the latest offset. Spark compares strings, so equal offsets must have
equal strings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqcli.codec.message_queue import MessageQueue

EARLIEST = -2
LATEST = -1
Offsets = dict[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class Position:
    """The begin or end of a read: at `time` in all queues, or by `times`, `offsets`, or `everywhere`."""

    everywhere: int = EARLIEST
    time: int | None = None
    times: Mapping[MessageQueue, int] = field(default_factory=dict)
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)


def queues_to_json(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Nest offsets by topic, broker name and queue id, in order."""
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets):
        brokers = nested.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def queues_from_json(nested: Any) -> Offsets:
    """Read nested JSON. Raises ValueError, TypeError or AttributeError if it has another form."""
    found: Offsets = {}
    for topic, brokers in nested.items():
        for broker, numbers in brokers.items():
            for number, offset in numbers.items():
                if isinstance(offset, bool) or not isinstance(offset, int) or offset < EARLIEST:
                    raise ValueError(f"{offset!r} is not an offset")
                found[MessageQueue(topic, broker, int(number))] = offset
    return found


def behind_latest(source: Mapping[str, str]) -> dict[str, float]:
    """Return the lag of a stream: the three metrics that Kafka's source reports, from a source in a progress
    report.

    A source without both offsets, as before the first batch, has no metrics.
    """
    if not source["endOffset"] or not source["latestOffset"]:
        return {}
    end, latest = (queues_from_json(json.loads(source[name])) for name in ("endOffset", "latestOffset"))
    lags = [max(0, offset - end.get(queue, 0)) for queue, offset in latest.items()] or [0]
    return {
        "avgOffsetsBehindLatest": sum(lags) / len(lags),
        "maxOffsetsBehindLatest": max(lags),
        "minOffsetsBehindLatest": min(lags),
    }


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Return ends for at most `most` messages, divided in proportion to those waiting in each queue."""
    waiting = {queue: max(0, offset - start.get(queue, offset)) for queue, offset in end.items()}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    shares = {queue: most * count // total for queue, count in waiting.items()}
    # Rounding remainders go to the queues that lost most, so that small queues also progress.
    rest = most - sum(shares.values())
    losers = sorted(waiting, key=lambda queue: (-(most * waiting[queue] % total), waiting[queue], queue))
    for queue in losers[:rest]:
        shares[queue] += 1
    return {queue: start[queue] + shares[queue] if waiting[queue] else end[queue] for queue in end}
