from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from codec.message_queue import MessageQueue
from rmqcli.client import ConnectionLost, PullResult, PullStatus
from rmqcli.flows.errors import QueueNotFound, QueueNotPermitted
from rmqcli.flows.following import Printer, follow_and_print
from rmqcli.flows.reading import choose_queues, open_range, reachable_spans, select_queues, spans, total
from rmqcli.grammar.offset_range import parse_range
from rmqcli.render import Output
from tests.cli.fakes import FakeTopic
from tests.cli.messages import stored

Place = tuple[int, int]


async def read(topic: FakeTopic, text: str, expression: str = "*") -> list[Place]:
    wanted = parse_range(text, 0)
    found = await spans(topic, topic.queues, wanted)
    async with open_range(topic, found, wanted, expression) as messages:
        return [(message.queue_id, message.queue_offset) async for message in messages]


def filled(first: int = 0) -> FakeTopic:
    """Two queues; the times interleave: 0 10 20 … and 5 15 25 …"""
    topic = FakeTopic(2, first=first)
    for number in range(5):
        topic.put(0, number * 10)
        topic.put(1, number * 10 + 5)
    return topic


EVERYTHING = [(queue, offset) for offset in range(5) for queue in (0, 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", EVERYTHING),
        ("end", []),
        ("3", EVERYTHING[6:]),
        ("1:3", EVERYTHING[2:6]),
        (":1", EVERYTHING[:2]),
        ("-3", EVERYTHING[-3:]),
        ("-100", EVERYTHING),
        ("@20", EVERYTHING[4:]),
        ("@21", EVERYTHING[5:]),
        ("@10:30", EVERYTHING[2:6]),
        ("@:20", EVERYTHING[:4]),
        ("@44:45", []),
        ("@1000", []),
    ],
)
async def test_ranges_merged_by_store_time(text: str, expected: list[Place]) -> None:
    assert await read(filled(), text) == expected


async def test_offsets_that_do_not_begin_at_zero() -> None:
    assert await read(filled(first=7), "9:11") == [(0, 9), (1, 9), (0, 10), (1, 10)]


async def test_equal_times_at_the_border_are_all_inside() -> None:
    topic = FakeTopic(1)
    for time in (1, 2, 2, 2, 2, 3):
        topic.put(0, time)
    assert await read(topic, "@2:3") == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert await read(topic, "@2") == [(0, offset) for offset in range(1, 6)]
    assert await read(topic, "@:2") == [(0, 0)]


async def test_only_matching_tags() -> None:
    topic = FakeTopic(1)
    for number in range(10):
        topic.put(0, number, tags="B" if number in (4, 9) else "A")
    assert await read(topic, "start", "B") == [(0, 4), (0, 9)]


async def test_the_end_is_the_one_at_the_start() -> None:
    topic = filled()
    wanted = parse_range("start", 0)
    found = await spans(topic, topic.queues, wanted)
    assert total(found) == 10
    topic.put(0, 100)
    async with open_range(topic, found, wanted) as messages:
        assert len([message async for message in messages]) == 10


async def test_leaving_early_stops_reading() -> None:
    topic = FakeTopic(1, batch=1)
    for number in range(100):
        topic.put(0, number)
    wanted = parse_range("start", 0)
    async with open_range(topic, await spans(topic, topic.queues, wanted), wanted) as messages:
        assert (await anext(messages)).queue_offset == 0
    assert topic.pulls < 10


async def test_messages_that_went_away_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    topic = filled()
    wanted = parse_range("start", 0)
    found = await spans(topic, topic.queues[:1], wanted)
    topic.first = 3
    topic.stored[topic.queues[0]] = topic.stored[topic.queues[0]][3:]
    async with open_range(topic, found, wanted) as messages:
        assert [message.queue_offset async for message in messages] == [3, 4]
    assert capsys.readouterr().err == "rmq: orders@broker-a:0: messages 0 to 2 no longer exist\n"


@pytest.mark.parametrize("_attempt", range(16))
async def test_an_error_in_the_middle_is_never_lost(_attempt: int) -> None:
    """The reader and the task that failed are woken together, in any order."""
    topic = FakeTopic(1)
    topic.put(0, 0)
    wanted = parse_range("start", 0)
    found = await spans(topic, topic.queues, wanted)
    topic.errors = [ConnectionLost("127.0.0.1:1")]
    with pytest.raises(ExceptionGroup) as caught:
        async with open_range(topic, found, wanted) as messages:
            assert [message async for message in messages] == []
    assert isinstance(caught.value.exceptions[0], ConnectionLost)


async def test_a_broker_that_does_not_get_on_ends_the_reading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = filled()

    async def stuck(queue: MessageQueue, offset: int, *rest: object, **options: object) -> PullResult:
        await trio.lowlevel.checkpoint()
        return PullResult(PullStatus.NO_MATCHED_MSG, offset, 0, 5, [])

    monkeypatch.setattr(topic, "pull", stuck)
    assert await read(topic, "start") == []
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"rmq: orders@broker-a:{number}: no messages at offset 0, although the queue ended at 5"
        for number in (0, 1)
    ]


async def test_an_error_comes_out() -> None:
    topic = filled()
    topic.errors = [ConnectionLost("127.0.0.1:1")]
    with pytest.RaisesGroup(ConnectionLost):
        await read(topic, "start")


async def test_choosing_queues() -> None:
    topic = FakeTopic(3)
    assert await choose_queues(topic, "orders") == topic.queues
    assert await choose_queues(topic, "orders", "broker-a", 1) == topic.queues[1:2]
    with pytest.raises(QueueNotFound, match=r"topic orders has no queue on broker-b .available:"):
        await choose_queues(topic, "orders", "broker-b")
    with pytest.raises(QueueNotFound, match=r"no queue 7 on broker-b .available: broker-a: 0,1,2"):
        await choose_queues(topic, "orders", "broker-b", 7)


@pytest.mark.parametrize("kind", ["readable", "writable"])
def test_a_topic_without_queues(kind: str) -> None:
    with pytest.raises(QueueNotPermitted) as caught:
        select_queues([], "orders", None, None, kind=kind)
    assert str(caught.value) == f"topic orders has no {kind} queue; see: rmq topic route orders"


async def test_reading_a_topic_that_may_only_be_written() -> None:
    with pytest.raises(QueueNotPermitted, match="topic orders has no readable queue"):
        await choose_queues(FakeTopic(0), "orders")


async def follow(
    topic: FakeTopic, capfdbinary: pytest.CaptureFixture[bytes], *, count: int | None, idle: float | None
) -> bytes:
    printer = Printer(Output(), lambda message: b"%d:%d " % (message.queue_id, message.queue_offset), count)
    ends = await spans(topic, topic.queues, parse_range("end", 0))
    await follow_and_print(topic, "orders", ends, "*", printer, idle=idle)
    return capfdbinary.readouterr().out


async def test_follows_until_there_were_enough(
    capfdbinary: pytest.CaptureFixture[bytes], autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    topic = filled()

    async def write() -> None:
        for number in range(10):
            await trio.sleep(100)
            topic.put(number % 2, 1000 + number)

    nursery.start_soon(write)
    assert await follow(topic, capfdbinary, count=3, idle=None) == b"0:5 1:5 0:6 "
    assert trio.current_time() < 310


async def test_ends_when_nothing_comes(
    capfdbinary: pytest.CaptureFixture[bytes], autojump_clock: MockClock
) -> None:
    start = trio.current_time()
    assert await follow(filled(), capfdbinary, count=None, idle=20) == b""
    assert trio.current_time() - start == pytest.approx(20)


async def test_a_new_queue_is_followed_too(
    capfdbinary: pytest.CaptureFixture[bytes], autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    topic = FakeTopic(1)

    async def grow() -> None:
        await trio.sleep(5)
        topic.queues.append(MessageQueue("orders", "broker-b", 0))
        topic.stored[topic.queues[1]] = [stored(queue_id=9, queue_offset=0)]

    nursery.start_soon(grow)
    assert await follow(topic, capfdbinary, count=1, idle=None) == b"9:0 "


async def test_of_a_broker_that_was_away_only_what_came_since(
    capfdbinary: pytest.CaptureFixture[bytes], autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    topic = FakeTopic(1)
    back, empty = (MessageQueue("orders", name, 0) for name in ("broker-b", "broker-c"))

    async def come_back() -> None:
        await trio.sleep(5)
        topic.queues += [back, empty]
        times = (10, 20, 30, 40)
        topic.stored[back] = [
            stored(queue_id=7, queue_offset=offset, store_timestamp=time) for offset, time in enumerate(times)
        ]
        topic.stored[empty] = [stored(queue_id=8, queue_offset=0, store_timestamp=10)]

    nursery.start_soon(come_back)
    printer = Printer(Output(), lambda message: b"%d:%d " % (message.queue_id, message.queue_offset))
    await follow_and_print(topic, "orders", [], "*", printer, since_ms=30, idle=60)
    assert capfdbinary.readouterr().out == b"7:2 7:3 "


class LateTopic(FakeTopic):
    """The broker of queue 1 comes up after 100 s."""

    async def max_offset(self, queue: MessageQueue) -> int:
        if queue.queue_id == 1 and trio.current_time() < 100:
            raise ConnectionLost("127.0.0.1:1")
        return await super().max_offset(queue)


async def test_a_broker_that_is_not_there_at_the_beginning_is_followed_from_when_it_is(
    capfdbinary: pytest.CaptureFixture[bytes], autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    topic = LateTopic(2)
    topic.put(0, 1)
    topic.put(1, 2)
    found, absent = await reachable_spans(topic, topic.queues, parse_range("end", 0))
    assert ([span.queue.queue_id for span in found], [queue.queue_id for queue in absent]) == ([0], [1])
    with pytest.raises(ConnectionLost):
        await spans(topic, topic.queues, parse_range("end", 0))
    with pytest.raises(ConnectionLost):
        await reachable_spans(topic, topic.queues[1:], parse_range("end", 0))

    async def write() -> None:
        await trio.sleep(150)
        topic.put(1, 3)

    nursery.start_soon(write)
    printer = Printer(Output(), lambda message: b"%d:%d " % (message.queue_id, message.queue_offset), 1)
    await follow_and_print(topic, "orders", found, "*", printer, absent=list(absent))
    out, err = capfdbinary.readouterr()
    assert (out, err.decode().count("retrying")) == (b"1:1 ", 1)


async def test_a_lost_broker_is_said_once_and_tried_again(
    capfdbinary: pytest.CaptureFixture[bytes], autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    topic = FakeTopic(1)
    topic.errors = [ConnectionLost("127.0.0.1:1")] * 5
    printer = Printer(Output(), lambda message: b"%d " % message.queue_offset, 1)
    ends = await spans(topic, topic.queues, parse_range("end", 0))
    topic.put(0, 1)
    await follow_and_print(topic, "orders", ends, "*", printer)
    out, err = capfdbinary.readouterr()
    assert out == b"0 "
    assert err.decode().count("retrying") == 1
