"""Translated offsets of a group: none of its messages is skipped, and copies give the exact place."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rmqcli.client import Producer, PullConsumer
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.copying.positions import Translated, translated
from rmqcli.copying.progress import Job
from tests.copying.conftest import Pair, Script


async def moved(pair: Pair, positions: dict[int, int], *, margin_ms: int = 0) -> dict[int, Translated]:
    """Return the translated offsets by number of the queue."""
    known = {MessageQueue("orders", "broker-a", number): at for number, at in positions.items()}
    async with PullConsumer(**pair.source.client()) as source, PullConsumer(**pair.target.client()) as target:
        found = await translated(source, target, known, "copies", margin_ms=margin_ms)
    return {one.queue.queue_id: one for one in found}


async def left(pair: Pair, found: dict[int, Translated]) -> list[MessageExt]:
    """Return the messages of the target that the group would consume."""
    queues = await pair.read(pair.target, "copies")
    return [
        one
        for number, messages in queues.items()
        for one in messages
        if one.queue_offset >= found[number].offset
    ]


async def to_consume(pair: Pair, positions: dict[int, int]) -> set[bytes]:
    """Return the bodies that the group has not consumed in the source."""
    queues = await pair.read(pair.source, "orders")
    return {
        one.body
        for number, messages in queues.items()
        for one in messages
        if one.queue_offset >= positions[number]
    }


async def native(pair: Pair, count: int) -> None:
    """Send messages to the target that are no copies."""
    async with Producer("p", **pair.target.client()) as producer:
        for number in range(count):
            queue = MessageQueue("copies", "broker-a", number % 4)
            await producer.send(Message.of("copies", b"native %d" % number), queue=queue)


POSITIONS = {0: 0, 1: 7, 2: 14, 3: 15}
"""The start, the middle, the last message and the end of a queue."""


async def test_copies_give_the_exact_place(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.fill()
    await pair.copy(expression="even")
    found = await moved(pair, POSITIONS)
    assert all(one.source == MessageQueue("orders", "broker-a", number) for number, one in found.items())
    assert {number: one.at for number, one in found.items()} == POSITIONS
    wanted = {body for body in await to_consume(pair, POSITIONS) if int(body.split()[1]) // 4 % 2 == 0}
    bodies = [one.body for one in await left(pair, found)]
    assert len(bodies) == len(wanted) > 0
    assert set(bodies) == wanted


async def test_new_messages_of_the_target_are_not_skipped(autojump_clock: MockClock, pair: Pair) -> None:
    """Producers have moved before the copy has finished, and the group has consumed all of the source."""
    await pair.fill()
    await pair.copy()
    await native(pair, 8)
    await pair.fill(8)
    await pair.copy(resume=True)
    ends = dict.fromkeys(range(4), 17)
    bodies = [one.body for one in await left(pair, await moved(pair, ends))]
    assert sorted(body for body in bodies if body.startswith(b"native")) == [
        b"native %d" % n for n in range(8)
    ]


async def test_copies_out_of_order(autojump_clock: MockClock, pair: Pair) -> None:
    """A second copy of message 2, stored late, is no reason to skip the messages before it."""
    await pair.fill(40)
    await pair.copy()
    (early,) = [one for one in (await pair.read(pair.target, "copies"))[1] if one.queue_offset == 2]
    async with Producer("p", **pair.target.client()) as producer:
        again = Message.of("copies", early.body, properties=early.properties)
        await producer.send(again, queue=MessageQueue("copies", "broker-a", 1))
    await pair.fill(40, first=40)
    await pair.copy(resume=True)
    for at in (3, 9, 10, 11, 15):
        positions = dict.fromkeys(range(4), at)
        assert await to_consume(pair, positions) <= {
            one.body for one in await left(pair, await moved(pair, positions))
        }


async def test_the_time_decides_elsewhere(autojump_clock: MockClock, pair: Pair, script: Script) -> None:
    """Producers have sent to both, a little earlier to the target, and to other queues."""
    async with Producer("p", **pair.source.client()) as one, Producer("q", **pair.target.client()) as other:
        for number in range(40):
            message = Message.of("copies", b"body %d" % number)
            await other.send(message, queue=MessageQueue("copies", "broker-a", number * 7 % 4))
            await trio.sleep(1)
            message = Message.of("orders", b"body %d" % number)
            await one.send(message, queue=MessageQueue("orders", "broker-a", number % 4))
    for at in (0, 3, 9, 10):
        positions = dict.fromkeys(range(4), at)
        found = await moved(pair, positions, margin_ms=2000)
        assert all(one.source is None for one in found.values())
        bodies = {one.body for one in await left(pair, found)}
        assert await to_consume(pair, positions) <= bodies
        assert len(bodies) <= 40 - 4 * at + 8


async def test_messages_distributed_by_key(autojump_clock: MockClock, pair: Pair) -> None:
    """No queue has the copies of one queue alone: the time decides."""
    await pair.fill()
    await pair.copy(job=Job(pair.source.namesrv, "orders", "target:9876", "copies", "hash"))
    found = await moved(pair, POSITIONS)
    assert all(one.source is None for one in found.values())
    assert await to_consume(pair, POSITIONS) <= {one.body for one in await left(pair, found)}


async def test_marks_of_another_cluster(autojump_clock: MockClock, pair: Pair) -> None:
    """The source has a broker of the same name, but other messages."""
    await pair.fill()
    await pair.copy()
    pair.source, pair.target = pair.target, pair.source
    known = {MessageQueue("copies", "broker-a", 0): 3}
    async with PullConsumer(**pair.source.client()) as source, PullConsumer(**pair.target.client()) as target:
        found = await translated(source, target, known, "orders", margin_ms=0)
    assert all(one.source is None for one in found)
