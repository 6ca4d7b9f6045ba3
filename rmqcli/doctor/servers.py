"""Checks of name servers: whether they respond, agree, and know the topic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

import trio

from rmqcli.client import (
    UNREACHED,
    Admin,
    ClientError,
    NotFound,
    NotSupported,
    Producer,
    PullConsumer,
    PullStatus,
)
from rmqcli.client.errors import topic_remedy
from rmqcli.codec.bodies.route import ClusterInfo, TopicRouteData
from rmqcli.codec.codes import MASTER_ID, Perm
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.group_facts import readable
from rmqcli.doctor.reaching import NO_NAME_SERVER, is_local, remedy_of
from rmqcli.doctor.survey import Survey, seat_label
from rmqcli.render.text import listed

START = "is it running, and is this its address? name another with -n or a profile"


def name_servers(survey: Survey) -> Iterator[Finding]:
    """Check that each name server responds, and is a name server."""
    for server, view in survey.views.items():
        if isinstance(view, ClusterInfo):
            yield Finding(Status.OK, "name server", server, "answers")
        elif isinstance(view, NotSupported):
            yield Finding(
                Status.FAIL, "name server", server, "is a broker, not a name server", NO_NAME_SERVER
            )
        else:
            fix = remedy_of(view, [server, getattr(view, "address", server)]) or (
                _start(server) if isinstance(view, UNREACHED) else None
            )
            yield Finding(Status.FAIL, "name server", server, str(view), fix)


def _start(server: str) -> str:
    """Return the advice to start `rmq up`, for this machine only: it does not start a cluster elsewhere."""
    return f"{START}; start a broker here with: rmq up" if is_local(server) else START


def same_view(survey: Survey) -> Iterator[Finding]:
    """Check that all name servers know the same brokers at the same addresses; they do not replicate."""
    views = {server: _brokers(view) for server, view in survey.views.items() if isinstance(view, ClusterInfo)}
    if len(views) < 2:
        yield Finding(Status.SKIP, "same view", "", "one name server answers: nothing to compare")
        return
    every = set().union(*views.values())
    unknown = {server: sorted(every - known) for server, known in views.items() if every - known}
    if not unknown:
        yield Finding(Status.OK, "same view", "", f"all {len(views)} name servers know the same brokers")
    for server, missing in unknown.items():
        fix = "namesrvAddr of every broker must list all name servers"
        yield Finding(Status.FAIL, "same view", server, f"does not know {', '.join(missing)}", fix)


def _brokers(view: ClusterInfo) -> set[str]:
    return {
        f"{seat_label(name, broker_id)} {address}"
        for name, data in view.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    }


def route(survey: Survey) -> Iterator[Finding]:
    """Check that each name server has a route of the topic, with queues to send to and to read from."""
    if survey.topic is None or not survey.seats:
        return
    for server, found in survey.routes.items():
        if isinstance(found, TopicRouteData):
            yield from _judged(survey.topic, server, found)
            yield from _on_one_broker(survey, server, found)
        elif isinstance(found, NotFound):
            fix = topic_remedy(survey.topic)
            if survey.gone:
                fix = f"if a broker that is no longer registered had it, start that; else {fix}"
            yield Finding(Status.FAIL, "route", server, f"has no topic {survey.topic}", fix)
        else:
            yield Finding(Status.FAIL, "route", server, str(found))
    yield from _unlike(survey.topic, survey.routes)


def _unlike(topic: str, routes: Mapping[str, TopicRouteData | ClientError]) -> Iterator[Finding]:
    """Check that all name servers have the same route of a topic: clients query any of them."""
    found = {server: one for server, one in routes.items() if isinstance(one, TopicRouteData)}
    queues = {
        server: sorted(
            (one.broker_name, one.read_queue_nums, one.write_queue_nums, one.perm) for one in data.queue_datas
        )
        for server, data in found.items()
    }
    first = next(iter(queues), None)
    for server, own in queues.items():
        if first is not None and own != queues[first]:
            text = f"has other queues or permissions of topic {topic} than {first}"
            fix = "namesrvAddr of every broker must list all name servers; wait for a registration (30 s)"
            yield Finding(Status.FAIL, "route", server, text, fix)


def _on_one_broker(survey: Survey, server: str, found: TopicRouteData) -> Iterator[Finding]:
    """Find a topic that exists on only one broker: a topic created by its first message remains on the broker
    that got the message, because producers know no other broker.
    """
    holders = {data.broker_name: data.cluster for data in found.broker_datas}
    masters = {
        name
        for name, data in survey.view.broker_addr_table.items()
        if MASTER_ID in data.broker_addrs and data.cluster in holders.values()
    }
    others = sorted(masters - holders.keys())
    if len(holders) == 1 and others:
        text = (
            f"topic {survey.topic} is on {next(iter(holders))} only: nothing is sent to {', '.join(others)}"
        )
        fix = f"if the load shall be shared: rmq topic create {survey.topic} --if-missing"
        yield Finding(Status.WARN, "route", server, text, fix)


def _judged(topic: str, server: str, found: TopicRouteData) -> Iterator[Finding]:
    masters = {data.broker_name for data in found.broker_datas if MASTER_ID in data.broker_addrs}
    counts: Mapping[str, int] = {
        "sent to": sum(
            queues.write_queue_nums
            for queues in found.queue_datas
            if queues.perm & Perm.WRITE and queues.broker_name in masters
        ),
        "read from": sum(queues.read_queue_nums for queues in found.queue_datas if queues.perm & Perm.READ),
    }
    for what, count in counts.items():
        if not count:
            fix = f"rmq topic update {topic} --perm rw, or start the brokers that have it"
            yield Finding(Status.FAIL, "route", server, f"topic {topic} has no queue that can be {what}", fix)
    if counts["read from"]:
        for one in readable(topic, found):
            yield one._replace(check="route", target=server, text=f"topic {topic}: {one.text}")
    yield from _part_writable(topic, server, found, masters)
    if all(counts.values()):
        text = f"topic {topic}: {counts['sent to']} queues to send to, {counts['read from']} to read from"
        yield Finding(Status.OK, "route", server, text)


def _part_writable(
    topic: str, server: str, found: TopicRouteData, masters: Collection[str]
) -> Iterator[Finding]:
    """Yield the brokers that accept no messages for a topic while others do, or more than others, and orders
    that name other queues.
    """
    writable = {
        one.broker_name for one in found.queue_datas if one.perm & Perm.WRITE and one.write_queue_nums
    }
    closed = sorted({one.broker_name for one in found.queue_datas} - writable)
    if writable & set(masters) and closed:
        fix = f"rmq topic update {topic} --perm rw, or rmq broker undrain, if that is not meant"
        text = f"topic {topic} cannot be sent to on {listed(closed)}"
        yield Finding(Status.WARN, "route", server, text, fix)
    counts = {one.broker_name: one.write_queue_nums for one in found.queue_datas}
    shares = {name: counts[name] for name in sorted(writable & set(masters))}
    if len(set(shares.values())) > 1:
        most = max(shares, key=shares.__getitem__)
        (first, number), *others = shares.items()
        text = f"topic {topic} has {number} queues to send to on {first}, "
        text += f"{', '.join(f'{count} on {name}' for name, count in others)}: {most} gets "
        text += f"{shares[most] / sum(shares.values()):.0%} of the messages"
        fix = f"if the load shall be even: rmq topic update {topic} --read-queues N --write-queues N"
        yield Finding(Status.WARN, "route", server, text, fix)
    for part in filter(None, (found.order_topic_conf or "").split(";")):
        name, _, count = part.rpartition(":")
        if not count.isdigit() or int(count) > counts.get(name, 0):
            text = f"the order of topic {topic} names {part}, which has {counts.get(name, 0)} queues: sends there fail"
            yield Finding(Status.FAIL, "route", server, text, f"rmq topic order set {topic} BROKER:QUEUES")


PREFIX = "RMQ_PROBE_"
GROUP = "rmq-probe"
TRIES = 20  # pulls of a message that a broker does not return at once
PAUSE = 0.05  # seconds
CLEAN_SECONDS = 10.0


async def probe(admin: Admin, masters: Mapping[str, str]) -> list[Finding]:
    """Send to each of these masters, by name, and read the message back. The topic is removed even when
    cancelled.
    """
    if not masters:
        return [Finding(Status.SKIP, "probe", "", "no master answers")]
    topic = f"{PREFIX}{admin.instance.random.getrandbits(48):012x}"
    try:
        change = await admin.topics.create(topic, brokers=list(masters), read_queues=1, write_queues=1)
        found = [_failed(name, error) for name, error in change.failures.items()]
        async with trio.open_nursery() as nursery:
            for name in change.brokers:
                nursery.start_soon(_round_trip, admin, MessageQueue(topic, name, 0), found)
    except ClientError as error:
        found = [_failed("", error)]
    finally:
        with trio.move_on_after(CLEAN_SECONDS, shield=True):
            left = await _removed(admin, topic)
    return sorted(found, key=lambda finding: finding.target) + left


async def _removed(admin: Admin, topic: str) -> list[Finding]:
    try:
        failures = (await admin.topics.delete(topic)).failures
    except ClientError as error:
        with suppress(ClientError):
            await admin.topics.route(topic)
            return [_left(topic, str(error))]
        return []  # it was never created
    return [_left(topic, "; ".join(map(str, failures.values())))] if failures else []


def _left(topic: str, why: str) -> Finding:
    fix = f"remove it with: rmq topic delete {topic}"
    return Finding(Status.WARN, "probe", topic, f"could not be removed: {why}", fix)


async def _round_trip(admin: Admin, queue: MessageQueue, found: list[Finding]) -> None:
    name, began = queue.broker_name, trio.current_time()
    try:
        async with Producer(GROUP, instance=admin.instance) as producer:
            sent = await producer.send(Message(topic=queue.topic, body=b"probe"), queue=queue)
        seconds = trio.current_time() - began
        came = await _read(admin, queue, sent.queue_offset, sent.msg_id)
    except ClientError as error:
        found.append(_failed(name, error))
        return
    if not came:
        fix = "look at the broker's log: what it stores does not reach its queues"
        found.append(Finding(Status.FAIL, "probe", name, "sent, but cannot be read", fix))
        return
    total = (trio.current_time() - began) * 1000
    text = f"sent in {seconds * 1000:.0f} ms and read back, {total:.0f} ms in all"
    found.append(Finding(Status.OK, "probe", name, text))


async def _read(admin: Admin, queue: MessageQueue, offset: int, msg_id: str) -> bool:
    """Return True if the message comes back; a queue entry may follow its message by a few milliseconds."""
    async with PullConsumer(instance=admin.instance) as consumer:
        for _ in range(TRIES):
            result = await consumer.pull(queue, offset)
            if result.status is PullStatus.FOUND:
                return result.messages[0].msg_id == msg_id
            await trio.sleep(PAUSE)
    return False


def _failed(name: str, error: ClientError) -> Finding:
    return Finding(Status.FAIL, "probe", name, str(error), "see the lines of this broker above")
