"""Checks of the figures that a broker gives of itself (GET_BROKER_RUNTIME_INFO): does it keep up.

A figure that a broker does not give, as of another version, is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from codec.codes import MASTER_ID
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.survey import Reading, Seat, Survey
from rmqcli.render.text import duration, size

MIB = 1 << 20
BEHIND, FALLEN_BEHIND = 16 * MIB, 256 * MIB
"""Bytes that a slave is behind its master: a warning, and what Java's masters take for lost
(haSlaveFallbehindMax). Both are asked within a moment, in which megabytes may be stored."""
FUTURE_MS = 60_000
_DISK = "look at the disk of the broker and at its load"


class Limit(NamedTuple):
    """A figure that must not be above `above`; `text` has a place for it in `unit`s."""

    name: str
    above: int
    status: Status
    text: str
    unit: str
    fix: str


LIMITS = (
    Limit(
        "sendThreadPoolQueueHeadWaitTimeMills",
        200,
        Status.FAIL,
        "sends wait for {}: brokers refuse them after 200 ms (waitTimeMillsInSendQueue)",
        "ms",
        _DISK,
    ),
    Limit(
        "pullThreadPoolQueueHeadWaitTimeMills",
        5000,
        Status.WARN,
        "pulls wait for {}: brokers refuse them after 5 s (waitTimeMillsInPullQueue)",
        "ms",
        _DISK,
    ),
    Limit(
        "pageCacheLockTimeMills",
        1000,
        Status.FAIL,
        "a write takes {}: brokers refuse sends then (osPageCacheBusyTimeOutMills)",
        "ms",
        _DISK,
    ),
    Limit(
        "dispatchBehindBytes",
        BEHIND,
        Status.WARN,
        "{} of stored messages are in no queue yet: consumers do not get them",
        "bytes",
        _DISK,
    ),
    Limit(
        "timerReadBehind",
        60,
        Status.WARN,
        "messages of timers are {} late",
        "s",
        "look at the load of the broker, and at timerCongestNumEachLevel",
    ),
)
_FULL = {
    "send": ("sendThreadPoolQueueSize", "sendThreadPoolQueueCapacity"),
    "pull": ("pullThreadPoolQueueSize", "pullThreadPoolQueueCapacity"),
    "query": ("queryThreadPoolQueueSize", "queryThreadPoolQueueCapacity"),
    "end-transaction": ("EndTransactionQueueSize", "EndTransactionThreadPoolQueueCapacity"),
}


def keeps_up(survey: Survey) -> Iterator[Finding]:
    """Each broker takes what is sent, and makes it visible."""
    for seat, reading in readings(survey):
        for limit in LIMITS:
            value = number(reading.table, limit.name)
            if value is not None and value > limit.above:
                text = limit.text.format(_shown(value, limit.unit))
                yield Finding(limit.status, "load", str(seat), text, limit.fix)
        for what, names in _FULL.items():
            waiting, capacity = (number(reading.table, name) for name in names)
            if waiting and capacity and waiting >= capacity:
                text = f"the queue of {what} requests is full ({waiting:,}): more are refused"
                yield Finding(Status.FAIL, "load", str(seat), text, _DISK)
        if number(reading.table, "remainTransientStoreBufferNumbs") == 0:
            text = "no buffer of the transient store pool is free: brokers refuse sends then"
            yield Finding(Status.FAIL, "load", str(seat), text, _DISK)
        yield from _times(seat, reading)


def _shown(value: int, unit: str) -> str:
    if unit == "bytes":
        return size(value)
    return duration(value / 1000 if unit == "ms" else value)


def _times(seat: Seat, reading: Reading) -> Iterator[Finding]:
    accepts = number(reading.table, "startAcceptSendRequestTimeStamp")
    if accepts is not None and accepts > reading.after:
        text = f"refuses sends for another {duration((accepts - reading.after) / 1000)}"
        fix = "startAcceptSendRequestTimeStamp of the broker says when it begins"
        yield Finding(Status.FAIL, "load", str(seat), text, fix)
    first = number(reading.table, "earliestMessageTimeStamp")
    if first is not None and first > reading.after + FUTURE_MS:
        text = f"its first message is from {duration((first - reading.after) / 1000)} in the future"
        fix = "synchronize the clocks (NTP): searches by time and retention follow store times"
        yield Finding(Status.WARN, "clock", str(seat), text, fix)
    if seat.broker_id == MASTER_ID and reading.table.get("brokerActive") == "false":
        text = "is a master that is not active: delayed messages and transactions wait"
        yield Finding(
            Status.WARN, "load", str(seat), text, "look whether its controller or another master answers"
        )


def slaves(survey: Survey) -> Iterator[Finding]:
    """Each slave has what its master has, within BEHIND bytes; all of it if the master rests."""
    ends: dict[str, int] = {}
    resting: set[str] = set()
    for seat, reading in readings(survey):
        end = number(reading.table, "commitLogMaxOffset")
        if end is not None and seat.broker_id == MASTER_ID:
            ends[seat.broker_name] = end
            if _rests(reading.table):
                resting.add(seat.broker_name)
    for seat, reading in readings(survey):
        end, master = number(reading.table, "commitLogMaxOffset"), ends.get(seat.broker_name)
        if end is None or master is None or seat.broker_id == MASTER_ID:
            continue
        behind = master - end
        if behind < -BEHIND:
            text = f"has {size(-behind)} more than its master: what only the slave has is lost to consumers"
            fix = "stop both, keep copies, and compare: rmq inspect verify; the newer store may be the better master"
            yield Finding(Status.FAIL, "slave", str(seat), text, fix)
        elif behind > BEHIND:
            status = Status.FAIL if behind > FALLEN_BEHIND else Status.WARN
            fix = "look at its log and at the network to the HA port of its master"
            yield Finding(status, "slave", str(seat), f"is {size(behind)} behind its master", fix)
        elif behind > 0 and seat.broker_name in resting:
            text = f"is {size(behind)} behind its master, which has stored nothing for a minute"
            fix = "it does not copy: look at its log and at the network to the HA port of its master"
            yield Finding(Status.WARN, "slave", str(seat), text, fix)
        else:
            yield Finding(Status.OK, "slave", str(seat), f"is at most {size(BEHIND)} behind its master")


def _rests(table: Mapping[str, str]) -> bool:
    """Return whether a broker says that it stored nothing in the last minute: putTps of 10 s, 1 and 10 min."""
    rates = table.get("putTps", "").split()
    return len(rates) > 1 and all(re.fullmatch(r"0(\.0+)?", rate) for rate in rates[:2])


def readings(survey: Survey) -> Iterator[tuple[Seat, Reading]]:
    """Yield the brokers that gave their figures."""
    for seat in survey.seats:
        answer = survey.readings.get(seat.address)
        if isinstance(answer, Reading):
            yield seat, answer


def number(table: Mapping[str, str], name: str) -> int | None:
    """Return a figure, None if it is missing or no whole number."""
    text = table.get(name, "")
    return int(text) if text.isascii() and text.lstrip("-").isdigit() and len(text) < 20 else None
