"""The probe: a message to each master, read back, in a topic that is made for it and removed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import trio

from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.client import Admin, ClientError, Producer, PullConsumer, PullStatus
from rmqcli.doctor.finding import Finding, Status

PREFIX = "RMQ_PROBE_"
GROUP = "rmq-probe"
TRIES = 20  # pulls of a message that a broker does not show at once
PAUSE = 0.05  # seconds
CLEAN_SECONDS = 10.0


async def probe(admin: Admin, masters: Mapping[str, str]) -> list[Finding]:
    """Send to each of these masters, by name, and read back; the topic is removed even when cancelled."""
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
        return []  # it was never made
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
    """Return whether the message comes back; a queue entry may follow its message by some milliseconds."""
    async with PullConsumer(instance=admin.instance) as consumer:
        for _ in range(TRIES):
            result = await consumer.pull(queue, offset)
            if result.status is PullStatus.FOUND:
                return result.messages[0].msg_id == msg_id
            await trio.sleep(PAUSE)
    return False


def _failed(name: str, error: ClientError) -> Finding:
    return Finding(Status.FAIL, "probe", name, str(error), "see the lines of this broker above")
