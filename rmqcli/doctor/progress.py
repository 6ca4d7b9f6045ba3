"""Checks of a group's progress: queues that are stuck while messages wait, impossible offsets, failures.

A committed offset lags behind by seconds, and a topic that was quiet for an hour has one new message: neither
is a stuck consumer. So a queue counts as stuck for the time since its owner consumed anything from it, but
not longer than its next message has waited (GET_CONSUMER_RUNNING_INFO, QUERY_CONSUME_TIME_SPAN).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rmqcli.codec.bodies.heartbeat import ConsumeType
from rmqcli.codec.bodies.running import ProcessQueueInfo
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import RETRY_PREFIX
from rmqcli.doctor.finding import Finding, Status, named_queues
from rmqcli.doctor.group_facts import SLOW_MS, Members, is_divided, owners_of, reports, suspects, waiting_in
from rmqcli.render.text import duration, many

STUCK_MS = 120_000
"""A queue that is stuck for this long is a failure; for SLOW_MS, a warning. Java's clients rebuild a queue
that was not pulled for 120 s (ProcessQueue.PULL_MAX_IDLE_TIME).
"""
LOCK_MS = 60_000
"""An orderly client renews its locks every 20 s, and brokers release them after this time."""
FUTURE_MS = 60_000
FAILING = 0.5
"""The share of failures among consumed messages from which the check of a topic fails."""


class StandingStill(NamedTuple):
    """A queue in which messages wait and that has not moved for `ms`. `owner` is None if no client reports
    it.
    """

    queue: MessageQueue
    waiting: int
    ms: int
    owner: str | None
    held: ProcessQueueInfo | None


def standing_still(found: Members) -> list[StandingStill]:
    """Return the suspects whose next message also waits; `found.delays` has its age in ms."""
    owners = owners_of(found)
    still = []
    for queue in suspects(found):
        owner, held = owners.get(queue, (None, None))
        consumed = held.last_consume_timestamp if held is not None else 0
        idle = found.now_ms - consumed if consumed else found.delays.get(queue, 0)
        ms = min(idle, found.delays.get(queue, 0))
        if ms >= SLOW_MS:
            still.append(StandingStill(queue, waiting_in(found.offsets[queue], held), ms, owner, held))
    return still


def progress(found: Members) -> Iterator[Finding]:
    """Yield the problems with the progress of a group, or one finding that there are none."""
    if not is_divided(found):
        return
    still = () if found.connection is None else _still(found)  # another finding reports missing clients
    wrong = [*still, *_not_pulled(found), *_offsets(found), *_failures(found), *_locks(found)]
    if not wrong and found.connection is not None and found.offsets:
        owners = owners_of(found)
        waiting = (
            waiting_in(offsets, owners[queue][1] if queue in owners else None)
            for queue, offsets in found.offsets.items()
        )
        count = sum(waiting)
        text = f"{many(count, 'message')} to consume"
        if count and not reports(found):
            text += "; whether they move is unknown: no client reports its queues"
            yield Finding(Status.SKIP, "progress", found.group, text)
        else:
            yield Finding(Status.OK, "progress", found.group, f"no queue stands still; {text}")
    yield from wrong


def _still(found: Members) -> Iterator[Finding]:
    by_owner: dict[tuple[str, str | None], list[StandingStill]] = {}
    for one in standing_still(found):
        by_owner.setdefault((one.queue.topic, one.owner), []).append(one)
    for (topic, owner), queues in by_owner.items():
        longest = max(one.ms for one in queues)
        # without a report, it is unknown whether the queue moves slowly or not at all
        status = Status.FAIL if longest >= STUCK_MS and owner is not None else Status.WARN
        what = f"{named_queues([one.queue for one in queues])} {'has' if len(queues) == 1 else 'have'}"
        waiting = many(sum(one.waiting for one in queues), "message")
        text = f"{what} not moved for {duration(longest / 1000)}: {waiting} to consume, {_holder(found, owner, queues)}"
        yield Finding(status, "progress", f"{found.group} {topic}", text, _fix(found, owner, queues))


def _holder(found: Members, owner: str | None, queues: Sequence[StandingStill]) -> str:
    if owner is None and found.silent:
        return f"held by a client that does not report ({', '.join(found.silent)})"
    if owner is None:
        return "no client reports to hold them"
    held = [one.held for one in queues if one.held is not None]
    cached = sum(one.cached_msg_count + one.transaction_msg_count for one in held)
    pulled = max((one.last_pull_timestamp for one in held), default=0)
    since = f", last pulled {duration(max(0, found.now_ms - pulled) / 1000)} ago" if pulled else ""
    return f"held by {owner} with {cached:,} cached{since}"


def _fix(found: Members, owner: str | None, queues: Sequence[StandingStill]) -> str:
    if owner is None:
        return "look at the clients; rmq group clients names them"
    if any(
        one.held is not None and one.held.cached_msg_count + one.held.transaction_msg_count for one in queues
    ):
        return f"its listener hangs or fails: rmq group status {found.group} --stack shows where; restart that client"
    return "it does not pull: look whether it is suspended, and at its log; restart that client"


def _not_pulled(found: Members) -> Iterator[Finding]:
    """Yield queues without waiting messages whose owner does not pull: new messages will not be seen."""
    if found.connection is None or found.connection.consume_type != ConsumeType.CONSUME_PASSIVELY:
        return
    for client, state in found.states.items():
        ages = {
            queue: found.now_ms - held.last_pull_timestamp
            for queue, held in state.mq_table.items()
            if not held.droped
            and 0 < held.last_pull_timestamp <= found.now_ms - STUCK_MS
            and queue in found.offsets
            and not waiting_in(found.offsets[queue], held)
        }
        if ages:
            text = f"{named_queues(sorted(ages))} {'was' if len(ages) == 1 else 'were'} not pulled for "
            text += f"{duration(max(ages.values()) / 1000)} by {client}"
            fix = "look whether it is suspended, and at its log and clock; restart that client"
            yield Finding(Status.WARN, "progress", found.group, text, fix)


def _offsets(found: Members) -> Iterator[Finding]:
    subscribed = set() if found.connection is None else set(found.connection.subscription_table)
    beyond: dict[str, int] = {}
    ahead: dict[str, int] = {}
    for queue, offsets in found.offsets.items():
        if offsets.consumer_offset > offsets.broker_offset:
            gap = offsets.consumer_offset - offsets.broker_offset
            beyond[queue.topic] = beyond.get(queue.topic, 0) + gap
        if found.now_ms and offsets.last_timestamp > found.now_ms + FUTURE_MS:
            ahead[queue.topic] = max(ahead.get(queue.topic, 0), offsets.last_timestamp - found.now_ms)
    for topic, count in beyond.items():
        text = f"offsets are beyond the end: the next {many(count, 'message')} will be skipped"
        fix = f"rmq offsets reset {found.group} {topic} --to start, or --to end"
        status = Status.FAIL if topic in subscribed else Status.WARN
        yield Finding(status, "offsets", f"{found.group} {topic}", text, fix)
    lost: dict[str, list[MessageQueue]] = {}
    for queue in found.expired:
        lost.setdefault(queue.topic, []).append(queue)
    for topic, queues in lost.items():
        text = f"messages were deleted before they were consumed: {named_queues(queues)}"
        fix = "consumers go on with the first that is left; raise fileReservedTime, or look why they are late"
        status = Status.FAIL if topic in subscribed else Status.WARN
        yield Finding(status, "offsets", f"{found.group} {topic}", text, fix)
    for topic, ms in ahead.items():
        text = f"consumed messages were stored {duration(ms / 1000)} in the future"
        yield Finding(Status.WARN, "offsets", f"{found.group} {topic}", text, "synchronize the clocks (NTP)")


def _failures(found: Members) -> Iterator[Finding]:
    """Yield the messages that listeners failed to consume, by topic."""
    for topic, rates in _rates(found).items():
        failed, ok, hour = rates
        if not (failed or hour):
            continue
        target = f"{found.group} {topic}"
        fix = f"look at the logs of the clients, and at: rmq dlq list {found.group}"
        if failed:
            text = f"{failed:.2g} of {failed + ok:.2g} messages per second fail"
            status = Status.FAIL if failed >= FAILING * (failed + ok) else Status.WARN
            yield Finding(status, "failures", target, text, fix)
        else:
            yield Finding(
                Status.WARN, "failures", target, f"{many(hour, 'message')} failed in the last hour", fix
            )


def _rates(found: Members) -> Mapping[str, tuple[float, float, int]]:
    table: dict[str, tuple[float, float, int]] = {}
    for state in found.states.values():
        for topic, status in state.status_table.items():
            name = topic.removeprefix(RETRY_PREFIX + found.group) or "retries"
            failed, ok, hour = table.get(name, (0.0, 0.0, 0))
            table[name] = (
                failed + status.consume_failed_tps,
                ok + status.consume_ok_tps,
                hour + status.consume_failed_msgs,
            )
    return table


def _locks(found: Members) -> Iterator[Finding]:
    """Yield queues that an orderly client holds without the broker's lock, and does not consume."""
    if found.connection is None or found.connection.consume_type != ConsumeType.CONSUME_PASSIVELY:
        return
    for client, state in found.states.items():
        if state.properties.get("PROP_CONSUMEORDERLY") != "true":
            continue
        queues = [
            queue
            for queue, held in state.mq_table.items()
            if not held.droped
            and (not held.locked or 0 < held.last_lock_timestamp < found.now_ms - LOCK_MS)
            and (waiting_in(found.offsets[queue]) if queue in found.offsets else 0)
        ]
        if queues:
            text = f"{client} has no lock of {named_queues(queues)}, and consumes nothing there"
            fix = "wait for a rebalance (20 s); then look for another client that holds the locks"
            yield Finding(Status.WARN, "locks", found.group, text, fix)
