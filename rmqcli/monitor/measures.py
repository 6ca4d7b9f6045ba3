"""Measurements of the checks. Each queries all brokers at once; if some are lost, it returns the results of
the others. Raises NoNameServer and NotFound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rmqcli.client import Admin, ClientError, Producer
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import BROADCASTING, lag_of, stored
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.codes import MASTER_ID
from rmqcli.codec.message import DLQ_PREFIX
from rmqcli.doctor.brokers import disk_ratio
from rmqcli.doctor.group_facts import is_divided, lagging, members_of
from rmqcli.doctor.progress import standing_still
from rmqcli.doctor.survey import LostBroker, seat_label
from rmqcli.monitor.verdict import Figure, Measure, Measured, State
from rmqcli.plans.brokers import own_queues, ping, queues_of

LAG = Measure("lag", "lag", "rmq_group_lag_messages", "highest lag", "group")
BROKERS = Measure(
    "brokers", "lost", "rmq_brokers_lost", "brokers that do not answer:", lost_state=State.CRITICAL
)
DISK = Measure("disk", "used", "rmq_broker_disk_used_percent", "fullest disk", "broker", "%")
STUCK = Measure("stuck", "still", "rmq_group_stuck_seconds", "longest standstill", "group", "s")
DLQ = Measure("dlq", "dead", "rmq_group_dead_letters", "most dead letters", "group")
SEND = Measure("send", "send", "rmq_send_milliseconds", "slowest send", "broker", "ms", State.CRITICAL)
PING_SIZE = 16  # bytes

Failures = dict[str, ClientError]


def _measured(figures: Sequence[Figure], failures: Mapping[str, ClientError]) -> Measured:
    return Measured(figures, {name: str(error) for name, error in failures.items()})


async def lag(admin: Admin, groups: Collection[str], topic: str | None = None) -> Measured:
    """Return the number of stored messages that each group has not consumed, for the named groups or for all.

    A group whose offset is beyond the end of a queue (its topic was created again) has no lag, but counts as
    a loss. The same applies to a broadcasting group, if it is named.
    """
    failures: Failures = {}
    names = list(groups) or await admin.groups.names(failures=failures)
    found, errors = await gather(names, lambda name: _lag_of(admin, name, topic, failures, bool(groups)))
    if errors and not found:
        raise next(iter(errors.values()))
    figures = [Figure(value, name) for name, (value, _) in found.items() if value is not None]
    unknown = {name: f"lag unknown: {why}" for name, (_, why) in found.items() if why is not None}
    passed = {} if groups else {name: why for name, why in unknown.items() if why.endswith(BROADCASTING)}
    lost = {name: str(error) for name, error in (failures | errors).items()}
    lost |= {name: why for name, why in unknown.items() if name not in passed}
    return Measured(figures, lost, notes=_told(passed))


def _told(passed: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each group that a check of all groups skips."""
    return tuple(f"{name}: {why}" for name, why in passed.items())


async def _lag_of(
    admin: Admin, group: str, topic: str | None, failures: Failures, must_be: bool
) -> tuple[int | None, str | None]:
    connection = await admin.clients.connected(group, failures)
    if connection is not None and connection.message_model == MessageModel.BROADCASTING:
        return None, BROADCASTING
    stats = await admin.offsets.stats_on(group, topic, connection, failures)
    if topic is None and connection is not None:
        stats = await admin.offsets.with_subscribed(group, stats, connection, failures)
    if must_be and not stats.offset_table:
        await admin.groups.check_known(group, failures)
        raise admin.offsets.none_committed(group, topic, failures)
    return lag_of(stats)


async def brokers(admin: Admin, expected: int = 0, gone: Sequence[LostBroker] = ()) -> Measured:
    """Return the number of registered brokers that do not respond, and the number of missing ones: compared
    with the expected number, or else those registered before (`gone`) and missing masters.
    """
    found = await admin.brokers.summaries()
    lost = {f"{one.broker_name} {one.address}": str(one.error) for one in found if one.error is not None}
    silent = len(lost)
    if expected and len(found) >= expected:
        return Measured([Figure(silent)], lost, counted=True)
    lost |= {one.label: one.told(admin.instance.now_ms()) for one in gone}
    headless = {one.broker_name for one in found} - {
        one.broker_name for one in found if one.broker_id == MASTER_ID
    }
    lost |= dict.fromkeys(headless - lost.keys(), "has no master, only slaves are left")
    missing = len(lost) - silent
    if expected:
        missing = expected - len(found)
        lost[""] = f"{len(found)} of {expected} brokers are registered"
    return Measured([Figure(silent + missing)], lost, counted=True)


def with_gone(found: Measured, gone: Sequence[LostBroker], now_ms: int) -> Measured:
    """Add the brokers that are no longer registered to the losses: their figures are missing."""
    return replace(found, lost={**found.lost, **{one.label: one.told(now_ms) for one in gone}})


async def disk(admin: Admin, names: Collection[str] = ()) -> Measured:
    """Return the used part of the fullest disk of each broker, in percent."""
    if names:
        await admin.brokers.masters(brokers=names)  # NotFound for an unknown one
    summaries = await admin.brokers.summaries()
    found = {
        seat_label(one.broker_name, one.broker_id): one
        for one in summaries
        if not names or one.broker_name in names
    }
    lost = {label: str(one.error) for label, one in found.items() if one.error is not None}
    ratios = {label: disk_ratio(one.runtime) for label, one in found.items() if one.runtime is not None}
    silent = {name: "does not say" for name, ratio in ratios.items() if ratio is None}
    figures = [Figure(round(ratio * 100, 1), name) for name, ratio in ratios.items() if ratio is not None]
    return Measured(figures, lost | silent)


async def stuck(admin: Admin, groups: Collection[str] = ()) -> Measured:
    """Return the longest time in seconds for which a queue of each group has not moved while messages wait, 0
    if all queues move.

    Without names, the groups with running clients and messages to consume. For a client that does not report
    its queues, the time for which the next message has waited counts.
    """
    failures: Failures = {}
    names = list(groups) or await lagging(admin, await admin.brokers.masters(), failures)
    found, errors = await gather(names, lambda name: members_of(admin, name, failures))
    for name in groups:
        if name in found and found[name].connection is None and not found[name].offsets:
            await admin.groups.check_known(name, failures)
    chosen = {name: one for name, one in found.items() if groups or one.connection is not None}
    still = {
        name: max((queue.ms for queue in standing_still(one)), default=0)
        for name, one in chosen.items()
        if is_divided(one)
    }
    figures = [Figure(round(ms / 1000), name) for name, ms in still.items()]
    found_out = _measured(figures, failures | errors)
    why = f"progress unknown: {BROADCASTING}"
    unknown = {name: why for name, one in chosen.items() if not is_divided(one)}
    if groups:
        return replace(found_out, lost={**found_out.lost, **unknown})
    return replace(found_out, notes=_told(unknown))


async def dlq(admin: Admin, groups: Collection[str] = ()) -> Measured:
    """Return the number of messages in the dead-letter topics of the named groups, or of all.

    Every broker must respond to a request, because the name server alone also lists topics of brokers that
    hang.
    """
    failures: Failures = {}
    silent = {
        seat_label(one.broker_name, one.broker_id): one.error
        for one in await admin.brokers.summaries()
        if one.error is not None
    }
    topics = {name for name in await admin.topics.names() if name.startswith(DLQ_PREFIX)}
    for name in groups:
        if DLQ_PREFIX + name not in topics:
            await admin.groups.check_known(name, failures)
    wanted = sorted(groups or (name.removeprefix(DLQ_PREFIX) for name in topics))

    async def count(group: str) -> int:
        if DLQ_PREFIX + group not in topics:
            return 0
        return stored(await admin.topics.stats(DLQ_PREFIX + group, failures=failures))

    found, errors = await gather(wanted, count)
    return _measured([Figure(value, name) for name, value in found.items()], silent | failures | errors)


async def send(admin: Admin, names: Collection[str] = (), topic: str | None = None) -> Measured:
    """Return the time of a send to each master, in milliseconds; a send that fails is critical."""
    masters = await admin.brokers.masters(brokers=names)
    if topic is not None:
        await admin.topics.route(topic)  # a producer would create it
    async with Producer("rmq-check", instance=admin.instance) as producer:
        queues = own_queues(list(masters)) if topic is None else await queues_of(producer, topic)
        chosen = {name: queues[name] for name in masters if name in queues}
        found = await ping(producer, chosen, count=1, size=PING_SIZE)
    lost = {name: str(one.error) for name, one in found.items() if one.error is not None}
    lost |= {name: "has no queue that can be sent to" for name in masters if name not in chosen}
    figures = [Figure(round(one.times[0], 3), name) for name, one in found.items() if one.times]
    return Measured(figures, lost)
