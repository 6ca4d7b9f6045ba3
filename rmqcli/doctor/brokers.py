"""Checks of brokers: address, response, version, disk, clock, VIP port, masters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rmqcli.client import NotPermitted
from rmqcli.client.wire.pool import vip_address
from rmqcli.codec.codes import MASTER_ID
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.reaching import advice, is_local, kind_of, remedy_of
from rmqcli.doctor.survey import Reading, Seat, Survey
from rmqcli.render.text import duration, listed, size

# Checks of the figures that a broker reports about itself (GET_BROKER_RUNTIME_INFO): whether it keeps up.
#
# A figure that a broker does not report, for example because of its version, is not judged.

MIB = 1 << 20
BEHIND, FALLEN_BEHIND = 16 * MIB, 256 * MIB
"""Lag of a slave in bytes: the limit for a warning, and the limit from which Java's masters consider it lost
(haSlaveFallbehindMax). Master and slave are queried at slightly different times, between which megabytes may
be stored.
"""
FUTURE_MS = 60_000
_DISK = "look at the disk of the broker and at its load"


class Limit(NamedTuple):
    """A figure that must not exceed `above`; `text` has a placeholder for it, in `unit`s."""

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
    """Check that each broker accepts messages and makes them visible."""
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
    """Check that each slave has all data of its master up to BEHIND bytes, and all of it if the master is
    idle.
    """
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
    """Return True if a broker reports that it stored nothing in the last minute: putTps is over 10 s, 1 and
    10 min.
    """
    rates = table.get("putTps", "").split()
    return len(rates) > 1 and all(re.fullmatch(r"0(\.0+)?", rate) for rate in rates[:2])


def readings(survey: Survey) -> Iterator[tuple[Seat, Reading]]:
    """Yield the brokers that reported their figures."""
    for seat in survey.seats:
        answer = survey.readings.get(seat.address)
        if isinstance(answer, Reading):
            yield seat, answer


def number(table: Mapping[str, str], name: str) -> int | None:
    """Return a figure, None if it is missing or not a whole number."""
    text = table.get(name, "")
    # Up to 19 characters, as in Java's largest long.
    return int(text) if text.isascii() and text.lstrip("-").isdigit() and len(text) < 20 else None


DISK_WARN, DISK_FAIL = 0.75, 0.90
"""Share of the disk at which Java deletes early (diskMaxUsedSpaceRatio) and refuses messages
(`DefaultMessageStore.diskSpaceWarningLevelRatio`).
"""
SKEW_MS = 2000
UNREGISTERED = "start the brokers, or look whether their namesrvAddr lists this name server"
_UPTIME = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")


def brokers(survey: Survey) -> Iterator[Finding]:
    """Check that each broker responds at the address that it registered, and that none of those seen before
    is missing.
    """
    if survey.answered and not survey.seats:
        yield Finding(Status.FAIL, "broker", "", "no broker is registered", UNREGISTERED)
    for one in survey.gone:
        fix = "start it again; if it was removed on purpose: rmq check brokers --expect N, with those that remain"
        yield Finding(Status.FAIL, "broker", one.label, one.told(survey.now_ms), fix)
    for seat in survey.seats:
        answer = survey.readings[seat.address]
        if isinstance(answer, Reading):
            yield Finding(Status.OK, "broker", str(seat), f"answers in {answer.after - answer.before} ms")
        elif isinstance(answer, NotPermitted):
            yield Finding(Status.OK, "broker", str(seat), "answers")
        else:
            fix = remedy_of(answer, survey.views) or advice(seat.address)
            yield Finding(Status.FAIL, "broker", str(seat), str(answer), fix)


def addresses(survey: Survey) -> Iterator[Finding]:
    """Check that other machines can reach the address that a broker registered."""
    here = all(is_local(server) for server in survey.views)
    for seat in survey.seats:
        kind = kind_of(seat.address)
        if kind == "unspecified" or (kind == "loopback" and not here):
            text = f"announces {seat.address}, which other machines cannot reach"
            status = Status.FAIL if kind == "unspecified" else Status.WARN
            yield Finding(status, "address", seat.broker_name, text, advice(seat.address))
    yield from _shared(survey)


def _shared(survey: Survey) -> Iterator[Finding]:
    """Find brokers that registered the same address, of which clients reach only one, and names that belong
    to several clusters.
    """
    names: dict[str, set[str]] = {}
    for label, place in survey.places.items():
        names.setdefault(place.address, set()).add(label)
    for address, labels in sorted(names.items()):
        if len(labels) > 1:
            text = f"is announced by {listed(sorted(labels))}: clients reach one of them"
            fix = "give each broker an address and port of its own; a renamed one is forgotten after two minutes"
            yield Finding(Status.FAIL, "address", address, text, fix)
    clusters: dict[str, set[str]] = {}
    for cluster, members in survey.view.cluster_addr_table.items():
        for name in members:
            clusters.setdefault(name, set()).add(cluster)
    for name, found in sorted(clusters.items()):
        if len(found) > 1:
            text = f"is in the clusters {listed(sorted(found))}"
            yield Finding(
                Status.WARN, "address", name, text, "give the brokers of each cluster names of their own"
            )


def permission(survey: Survey) -> Iterator[Finding]:
    """Check that brokers serve administrative requests."""
    for seat in survey.seats:
        answer = survey.readings[seat.address]
        if isinstance(answer, NotPermitted):
            fix = "use an account with this permission; see plain_acl.yml of the broker"
            yield Finding(Status.FAIL, "permission", str(seat), str(answer), fix)


def versions(survey: Survey) -> Iterator[Finding]:
    """Check that all brokers have the same version."""
    found: dict[str, set[str]] = {}
    for seat, reading in readings(survey):
        found.setdefault(reading.table.get("brokerVersionDesc", "unknown"), set()).add(seat.broker_name)
    if len(found) == 1:
        yield Finding(Status.OK, "version", "", next(iter(found)))
    elif found:
        text = "; ".join(
            f"{version} on {', '.join(sorted(names))}" for version, names in sorted(found.items())
        )
        yield Finding(Status.WARN, "version", "", text, "run one version, except during an upgrade")


def disks(survey: Survey) -> Iterator[Finding]:
    """Check that the disk of each broker has space for messages."""
    for seat, reading in readings(survey):
        ratio = disk_ratio(reading.table)
        if ratio is None:
            yield Finding(Status.SKIP, "disk", str(seat), "the broker does not say")
            continue
        status = Status.FAIL if ratio >= DISK_FAIL else Status.WARN if ratio >= DISK_WARN else Status.OK
        fix = "free space, or lower fileReservedTime: a full broker deletes early and refuses messages"
        text = f"{ratio:.0%} of the disk is used"
        yield Finding(status, "disk", str(seat), text, None if status is Status.OK else fix)


def disk_ratio(table: Mapping[str, str]) -> float | None:
    """Return the used share of the fullest disk; None if the broker does not report it (it then sends -1)."""
    texts = [table.get(name, "") for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")]
    ratios = [ratio for ratio in map(_number, texts) if ratio is not None and ratio >= 0]
    return max(ratios, default=None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def clocks(survey: Survey) -> Iterator[Finding]:
    """Check that the clock of each broker agrees with that of this machine, within SKEW_MS."""
    for seat, reading in readings(survey):
        skew = skew_ms(reading)
        if skew is None:
            yield Finding(Status.SKIP, "clock", str(seat), "the broker does not say")
        elif abs(skew) <= SKEW_MS:
            yield Finding(Status.OK, "clock", str(seat), f"differs by at most {SKEW_MS // 1000} s")
        else:
            text = f"is {abs(skew) / 1000:.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"
            fix = "synchronize the clocks (NTP): times, delays and retention follow the broker's"
            yield Finding(Status.WARN, "clock", str(seat), text, fix)


def skew_ms(reading: Reading) -> int | None:
    """Return the minimum by which a broker's clock is ahead, negative if behind, 0 if it may be right.

    A broker reports its start time and its uptime in whole seconds, so its clock is known to within a second.
    """
    uptime = _UPTIME.search(reading.table.get("runtime", ""))
    boot = reading.table.get("bootTimestamp", "")
    if uptime is None or not boot.isdigit():
        return None
    days, hours, minutes, seconds = map(int, uptime.groups())
    earliest = int(boot) + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    if earliest > reading.after:
        return earliest - reading.after
    return min(0, earliest + 1000 - reading.before)


def masters(survey: Survey) -> Iterator[Finding]:
    """Check that each broker name has a master: without one, nothing can be sent to its queues."""
    for name in sorted({seat.broker_name for seat in survey.seats}):
        slaves = [seat.address for seat in survey.seats if seat.broker_name == name]
        if all(seat.broker_id != MASTER_ID for seat in survey.seats if seat.broker_name == name):
            fix = "start the master, or make a slave the master (brokerId=0)"
            text = f"only slaves are left ({', '.join(slaves)}): it can be read, but not sent to"
            yield Finding(Status.FAIL, "master", name, text, fix)


def vip_ports(survey: Survey) -> Iterator[Finding]:
    """Check that each master listens on its VIP port, where Java clients with a VIP channel send."""
    answering = set(survey.masters.values())
    for address, error in survey.vip.items():
        if address not in answering:
            continue
        if error is None:
            yield Finding(Status.OK, "VIP port", vip_address(address), "is open")
        else:
            text = "is closed: Java clients with sendMessageWithVIPChannel=true cannot send"
            fix = "leave the VIP channel of clients off (the default), or open the port"
            yield Finding(Status.WARN, "VIP port", vip_address(address), text, fix)
