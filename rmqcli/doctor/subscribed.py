"""Checks of what a group consumes: its topics and their queues, its settings on each broker."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from codec.bodies.config import SubscriptionGroupConfig
from codec.bodies.heartbeat import MessageModel
from codec.bodies.route import QueueData, TopicRouteData
from codec.codes import MASTER_ID, Perm
from codec.names import RETRY_PREFIX
from rmqcli.client.errors import topic_remedy
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.group_facts import Members
from rmqcli.render.text import listed


def topics(found: Members) -> Iterator[Finding]:
    """Every subscribed topic exists, and what is sent to it can be read."""
    for topic in sorted(found.absent):
        if not topic.startswith(RETRY_PREFIX):
            text = "is subscribed to, and does not exist"
            yield Finding(Status.FAIL, "topic", f"{found.group} {topic}", text, topic_remedy(topic))
    for topic, route in found.routes.items():
        for one in (*readable(topic, route), *_writable(topic, route)):
            yield one._replace(target=f"{found.group} {topic}")


def readable(topic: str, route: TopicRouteData) -> Iterator[Finding]:
    """Yield the brokers of a route from which consumers do not get what producers send."""
    if not any(_can_read(queues) for queues in route.queue_datas):
        fix = f"rmq topic update {topic} --perm rw --read-queues N"
        yield Finding(Status.FAIL, "topic", topic, "no queue can be read from", fix)
        return
    for queues in route.queue_datas:
        name = queues.broker_name
        if not _can_read(queues):
            fix = f"rmq topic update {topic} --perm rw -b {name}"
            yield Finding(Status.FAIL, "topic", topic, f"cannot be read on {name}", fix)
        elif queues.perm & Perm.WRITE and queues.write_queue_nums > queues.read_queue_nums:
            text = (
                f"{name} stores in {queues.write_queue_nums} queues, consumers read {queues.read_queue_nums}: "
                "messages in the others reach nobody"
            )
            fix = f"rmq topic update {topic} --read-queues {queues.write_queue_nums} -b {name}"
            yield Finding(Status.FAIL, "topic", topic, text, fix)


def _writable(topic: str, route: TopicRouteData) -> Iterator[Finding]:
    """Yield that nothing new comes; brokers need the permission to send failed messages again, too."""
    closed = sorted(queues.broker_name for queues in route.queue_datas if not queues.perm & Perm.WRITE)
    fix = f"rmq topic update {topic} --perm rw"
    if topic.startswith(RETRY_PREFIX):
        if closed:
            text = f"cannot be written on {listed(closed)}: messages that fail are not sent again"
            yield Finding(Status.FAIL, "topic", topic, text, fix)
    elif closed and len(closed) == len(route.queue_datas):
        yield Finding(Status.WARN, "topic", topic, "cannot be sent to: nothing new comes", fix)


def _can_read(queues: QueueData) -> bool:
    return bool(queues.perm & Perm.READ) and queues.read_queue_nums > 0


def settings(found: Members) -> Iterator[Finding]:
    """Yield the settings of the group let its clients consume, on all brokers alike."""
    for name, one in sorted(found.settings.items()):
        for status, text, fix in _troubles(found, name, one):
            yield Finding(status, "settings", found.group, f"{name}: {text}", fix)
    own = {name: replace(one, group_name="", attributes=None) for name, one in found.settings.items()}
    first = next(iter(own.values()), None)
    unlike = [name for name, one in own.items() if one != first]
    if unlike:
        text = f"the settings on {listed(unlike)} are not those on {next(iter(own))}"
        yield Finding(
            Status.WARN, "settings", found.group, text, f"compare them: rmq group settings {found.group}"
        )
    if found.settings and found.connection is not None:
        missing = sorted(set(found.answers) - set(found.settings) - set(found.unasked))
        if missing:
            text = f"{listed(missing)} has no settings of the group: failed messages are not sent again there"
            yield Finding(Status.WARN, "settings", found.group, text, f"rmq group create {found.group}")


def _troubles(
    found: Members, broker: str, one: SubscriptionGroupConfig
) -> Iterator[tuple[Status, str, str | None]]:
    """Yield what each field means for clients, if it means trouble."""
    update = f"rmq group update {found.group}"
    broadcasting = (
        found.connection is not None and found.connection.message_model == MessageModel.BROADCASTING
    )
    if not one.consume_enable:
        yield Status.FAIL, "the group must not consume", f"{update} --consume"
    if broadcasting and not one.consume_broadcast_enable:
        yield Status.FAIL, "the group must not broadcast, and its clients do", f"{update} --broadcast"
    if one.retry_queue_nums <= 0 and not broadcasting:
        text = "there is no retry queue: messages that fail are dropped"
        yield Status.FAIL, text, f"{update} --retry-queues 1"
    read = _retry_queues(found, broker)
    if read is not None and 0 < read < one.retry_queue_nums and not broadcasting:
        topic = RETRY_PREFIX + found.group
        text = f"failed messages go to {one.retry_queue_nums} queues of {topic}, consumers read {read}"
        yield (
            Status.FAIL,
            text,
            f"rmq topic update {topic} --read-queues {one.retry_queue_nums} "
            f"--write-queues {one.retry_queue_nums} -b {broker}",
        )
    if one.retry_max_times <= 0 and not broadcasting:
        yield Status.WARN, "no retries: the first failure makes a dead letter", f"{update} --retries 16"
    if not one.notify_consumer_ids_changed_enable:
        text = "clients are not told of each other: a rebalance takes up to 20 s"
        yield Status.WARN, text, f"{update} --notify"
    if one.broker_id != MASTER_ID and not _is_registered(found, broker, one.broker_id):
        text = f"clients are to read from broker id {one.broker_id}, which is not registered: they read from the master"
        yield Status.WARN, text, f"{update} --read-from 0"


def _retry_queues(found: Members, broker: str) -> int | None:
    """Return how many queues of its retry topic the group reads on a broker; None if it has no such topic."""
    route = found.routes.get(RETRY_PREFIX + found.group, TopicRouteData())
    return next((one.read_queue_nums for one in route.queue_datas if one.broker_name == broker), None)


def _is_registered(found: Members, broker: str, broker_id: int) -> bool:
    tables = [
        data.broker_addrs
        for route in found.routes.values()
        for data in route.broker_datas
        if data.broker_name == broker
    ]
    return not tables or any(broker_id in table for table in tables)
