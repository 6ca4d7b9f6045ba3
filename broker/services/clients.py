"""Removal of clients that disconnect or stop sending heartbeats from their groups (Java
`ClientHousekeepingService`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import trio

from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.handling import command_of
from rmqcli.broker.net.turns import FIRST_STEPS, Job
from rmqcli.broker.tables import Channel
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.clients import NotifyConsumerIdsChangedRequestHeader
from rmqcli.codec.operations.clients import NOTIFY_CONSUMER_IDS_CHANGED

if TYPE_CHECKING:
    from rmqcli.broker.context import BrokerContext
    from rmqcli.broker.net.session import Session


CLIENT_EXPIRY_MS = 120_000
SCAN_SECONDS = 10


def notify_group(broker: BrokerContext, group: str) -> None:
    """Notify every client of a group to rebalance now, including the one that caused the change."""
    config = broker.groups.get(group)
    if not broker.config.notify_consumer_ids_changed_enable or (
        config is not None and not config.notify_consumer_ids_changed_enable
    ):
        return
    if group in broker.notifying:
        # The job that notifies the group begins once more when it is done.
        broker.notifying[group] = True
        return
    members = _notify_members(broker, group)
    if not _is_done(members):
        broker.notifying[group] = False
        broker.jobs.start(members)


def _notify_members(broker: BrokerContext, group: str) -> Job:
    header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group)
    again = True
    while again:
        online = broker.consumers.get(group)
        for channel in list(online.channels) if online is not None else ():
            channel.oneway(command_of(NOTIFY_CONSUMER_IDS_CHANGED, header, None))
            yield
        again = broker.notifying.pop(group, False)
        if again:
            broker.notifying[group] = False


def _is_done(job: Job) -> bool:
    """Do the first steps of a job. Return True if there are no more."""
    return sum(1 for _ in islice(job, FIRST_STEPS)) < FIRST_STEPS


def left_group(broker: BrokerContext, group: str) -> None:
    """Notify the other clients of a group that lost one; remove the filters of a group without clients."""
    if broker.consumers.get(group) is None:
        broker.filters.unregister(group)
    notify_group(broker, group)


def client_closed(broker: BrokerContext, session: Session) -> None:
    """Drop the held pulls of a connection that ended, and remove its clients from their groups."""
    broker.holds.drop_session(session)
    broker.new_offsets.drop_session(session)
    broker.created.pop(session, None)
    broker.jobs.begin(_leave(broker, session))


def _leave(broker: BrokerContext, session: Session) -> Job:
    for group in broker.producers.groups_of(session):
        broker.producers.unregister(group, session)
        yield
    for group in broker.consumers.groups_of(session):
        if broker.consumers.unregister(group, session):
            left_group(broker, group)
        yield


def watch_session(broker: BrokerContext, session: Session) -> None:
    """Call `client_closed` when a connection ends. Call this before the connection enters a table."""
    if session in broker.watched:
        return
    broker.watched.add(session)

    def closed() -> None:
        broker.watched.discard(session)
        client_closed(broker, session)

    session.on_close(closed)


def steady_ms() -> int:
    """Return the time of trio's monotonic clock, for clients and queue locks that expire."""
    return int(trio.current_time() * 1000)


def expire_clients(broker: BrokerContext) -> Job:
    """Remove clients without a heartbeat for 120 s and close their connections, in steps."""
    before = steady_ms() - CLIENT_EXPIRY_MS
    silent: dict[Channel, None] = {}
    for _, channel in (yield from broker.producers.expire(before)):
        silent[channel] = None
    for group, channel in (yield from broker.consumers.expire(before)):
        silent[channel] = None
        left_group(broker, group)
        yield
    for channel in silent:
        channel.close()
        yield


async def watch_clients(broker: BrokerContext) -> None:
    """Expire clients every 10 s until cancelled."""
    while True:
        await trio.sleep(SCAN_SECONDS)
        await broker.turns.run(expire_clients(broker))


MOST_CREATED = 8192


def count_created(broker: BrokerContext, session: Session, undo: Callable[[], object]) -> None:
    """Count a topic or group that a request has created. If there are too many, call `undo` and raise
    Refusal."""
    count = broker.created.get(session, 0) + 1
    if count > MOST_CREATED:
        undo()
        remark = f"a connection can create {MOST_CREATED} topics and groups by using them"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    watch_session(broker, session)
    broker.created[session] = count
