"""Ranges and following, on the in-memory cluster and its virtual clock."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli import broker
from rmqcli.broker.testing.in_memory import LOST, Lost
from rmqcli.client import Admin, ConnectionFailed, ConnectionLost, Producer, PullConsumer
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.flows.errors import QueueNotFound, QueueNotPermitted
from rmqcli.flows.following import Printer, follow_and_print
from rmqcli.flows.reading import choose_queues, open_range, reachable_spans, select_queues, spans, total
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.render import Output

Place = tuple[int, int]
Trouble = Callable[[RemotingCommand], RemotingCommand | Lost | None]
TOPIC = "orders"


class Site:
    """A topic of a cluster whose brokers return at most two messages for each pull.

    `trouble` answers or loses requests of a code. Times are milliseconds since the site was opened.
    """

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.trouble: dict[int, Trouble] = {}
        self.cluster: broker.MemoryCluster
        self.admin: Admin
        self.producer: Producer
        self.reader: PullConsumer
        self.begin = 0
        self.times: dict[int, list[int]] = defaultdict(list)

    async def on_request(self, _: str, request: RemotingCommand) -> RemotingCommand | Lost | None:
        self.asked[request.code] += 1
        trouble = self.trouble.get(request.code)
        return None if trouble is None else trouble(request)

    async def create(self, queues: int, **settings: Any) -> None:
        await self.admin.topics.create(TOPIC, read_queues=queues, write_queues=queues, **settings)

    async def queues(self) -> list[MessageQueue]:
        return await self.reader.message_queues(TOPIC)

    async def put(self, queue_id: int, time: int | None = None, *, tags: str = "A") -> None:
        """Store one message, at `time` or now."""
        if time is not None:
            await trio.sleep((self.begin + time - self.cluster.now_ms()) / 1000)
        queue = MessageQueue(TOPIC, "broker-a", queue_id)
        await self.producer.send(Message.of(TOPIC, b"x", tags=tags), queue=queue)
        self.times[queue_id].append(self.cluster.now_ms())

    def search_as_java(self, request: RemotingCommand) -> RemotingCommand:
        """Find any message of a millisecond, here the last, else the neighbor behind or before."""
        fields = request.ext_fields or {}
        times, wanted = self.times[int(fields["queueId"])], int(fields["timestamp"])
        equal = [place for place, time in enumerate(times) if time == wanted]
        later = [place for place, time in enumerate(times) if time > wanted]
        found = equal[-1] if equal else later[0] if later else max(0, len(times) - 1)
        return request.reply(0, None, {"offset": str(found)})

    async def fill(self) -> None:
        """Store five messages in each of two queues; the times interleave: 0 10 20 … and 5 15 25 …"""
        for number in range(5):
            await self.put(0, number * 10)
            await self.put(1, number * 10 + 5)

    def range(self, text: str) -> OffsetRange:
        """Return the range; its times count from the opening of the site."""
        if text.startswith("@"):
            text = re.sub(r"\d+", lambda match: str(self.begin + int(match[0])), text)
        return parse_range(text, 0)

    async def read(self, text: str, expression: str = "*") -> list[Place]:
        wanted = self.range(text)
        found = await spans(self.reader, await self.queues(), wanted)
        async with open_range(self.reader, found, wanted, expression) as messages:
            return [(message.queue_id, message.queue_offset) async for message in messages]


@asynccontextmanager
async def site(queues: int = 2, **settings: Any) -> AsyncIterator[Site]:
    found = Site()
    async with (
        broker.embedded_in_memory(
            on_request=found.on_request, max_transfer_count_on_message_in_memory=2, **settings
        ) as cluster,
        Admin(**cluster.client()) as found.admin,
        Producer(**cluster.client()) as found.producer,
        PullConsumer(**cluster.client()) as found.reader,
    ):
        found.cluster = cluster
        await found.create(queues)
        found.begin = cluster.now_ms()
        yield found


@asynccontextmanager
async def filled() -> AsyncIterator[Site]:
    async with site() as found:
        await found.fill()
        yield found


def pulled(code: int, following: int) -> Trouble:
    """Answer every pull below the offset `following` (0: every pull) with `code`; reading continues there."""

    def answer(request: RemotingCommand) -> RemotingCommand | None:
        offset = int((request.ext_fields or {})["queueOffset"])
        if following and offset >= following:
            return None
        header = {"nextBeginOffset": following or offset, "minOffset": following, "maxOffset": 5}
        texts = {name: str(value) for name, value in header.items()}
        return request.reply(code, None, {"suggestWhichBrokerId": "0"} | texts)

    return answer


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
async def test_ranges_merged_by_store_time(
    autojump_clock: MockClock, text: str, expected: list[Place]
) -> None:
    async with filled() as found:
        assert await found.read(text) == expected
        found.trouble[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = found.search_as_java
        assert await found.read(text) == expected


async def test_offsets_that_do_not_begin_at_zero(autojump_clock: MockClock) -> None:
    async with filled() as found:
        found.trouble[RequestCode.GET_MIN_OFFSET] = lambda request: request.reply(0, None, {"offset": "3"})
        assert await found.read("start") == EVERYTHING[6:]
        assert await found.read("2:4") == EVERYTHING[6:8]


async def test_equal_times_at_the_border_are_all_inside(autojump_clock: MockClock) -> None:
    async with site(1) as found:
        for time in (1, 2, 2, 2, 2, 3):
            await found.put(0, time)
        search: Trouble = found.search_as_java
        for trouble in (None, search):
            found.trouble = {} if trouble is None else {RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: trouble}
            assert await found.read("@2:3") == [(0, 1), (0, 2), (0, 3), (0, 4)]
            assert await found.read("@2") == [(0, offset) for offset in range(1, 6)]
            assert await found.read("@:2") == [(0, 0)]


async def test_only_matching_tags(autojump_clock: MockClock) -> None:
    async with site(1) as found:
        for number in range(10):
            await found.put(0, tags="B" if number in (4, 9) else "A")
        assert await found.read("start", "B") == [(0, 4), (0, 9)]


async def test_the_end_is_the_one_at_the_start(autojump_clock: MockClock) -> None:
    async with filled() as site:
        wanted = parse_range("start", 0)
        found = await spans(site.reader, await site.queues(), wanted)
        assert total(found) == 10
        await site.put(0, 100)
        async with open_range(site.reader, found, wanted) as messages:
            assert len([message async for message in messages]) == 10


async def test_leaving_early_stops_reading(autojump_clock: MockClock) -> None:
    async with site(1) as here:
        for _ in range(100):
            await here.put(0)
        wanted = parse_range("start", 0)
        found = await spans(here.reader, await here.queues(), wanted)
        async with open_range(here.reader, found, wanted) as messages:
            assert (await anext(messages)).queue_offset == 0
            await trio.sleep(1)
        assert here.asked[RequestCode.PULL_MESSAGE] < 10


async def test_messages_that_went_away_are_named(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with filled() as here:
        wanted = parse_range("start", 0)
        found = await spans(here.reader, (await here.queues())[:1], wanted)
        here.trouble[RequestCode.PULL_MESSAGE] = pulled(ResponseCode.PULL_OFFSET_MOVED, 3)
        async with open_range(here.reader, found, wanted) as messages:
            assert [message.queue_offset async for message in messages] == [3, 4]
    assert capsys.readouterr().err == "rmq: orders@broker-a:0: messages 0 to 2 no longer exist\n"


def cutting(here: Site) -> Trouble:
    def cut(_: RemotingCommand) -> Lost:
        here.cluster.cut(here.cluster.broker_address)
        return LOST

    return cut


@pytest.mark.parametrize("_attempt", range(16))
async def test_an_error_in_the_middle_is_never_lost(autojump_clock: MockClock, _attempt: int) -> None:
    """The reader and the task that failed are woken together, in any order."""
    async with site(1) as here:
        await here.put(0)
        wanted = parse_range("start", 0)
        found = await spans(here.reader, await here.queues(), wanted)
        here.trouble[RequestCode.PULL_MESSAGE] = cutting(here)
        with pytest.raises(ExceptionGroup) as caught:
            async with open_range(here.reader, found, wanted) as messages:
                assert [message async for message in messages] == []
        assert isinstance(caught.value.exceptions[0], ConnectionLost)


async def test_a_broker_that_does_not_get_on_ends_the_reading(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with filled() as found:
        found.trouble[RequestCode.PULL_MESSAGE] = pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, 0)
        assert await found.read("start") == []
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"rmq: orders@broker-a:{number}: no messages at offset 0, although the queue ended at 5"
        for number in (0, 1)
    ]


async def test_an_error_comes_out(autojump_clock: MockClock) -> None:
    async with filled() as found:
        found.trouble[RequestCode.PULL_MESSAGE] = cutting(found)
        with pytest.RaisesGroup(ConnectionLost, ConnectionLost):
            await found.read("start")


async def test_choosing_queues(autojump_clock: MockClock) -> None:
    async with site(3) as found:
        queues = [MessageQueue(TOPIC, "broker-a", number) for number in range(3)]
        assert await choose_queues(found.reader, TOPIC) == queues
        assert await choose_queues(found.reader, TOPIC, "broker-a", 1) == queues[1:2]
        with pytest.raises(QueueNotFound, match=r"topic orders has no queue on broker-b .available:"):
            await choose_queues(found.reader, TOPIC, "broker-b")
        with pytest.raises(QueueNotFound, match=r"no queue 7 on broker-b .available: broker-a: 0,1,2"):
            await choose_queues(found.reader, TOPIC, "broker-b", 7)


@pytest.mark.parametrize("kind", ["readable", "writable"])
def test_a_topic_without_queues(kind: str) -> None:
    with pytest.raises(QueueNotPermitted) as caught:
        select_queues([], TOPIC, None, None, kind=kind)
    assert str(caught.value) == f"topic orders has no {kind} queue; see: rmq topic route orders"


async def test_reading_a_topic_that_may_only_be_written(autojump_clock: MockClock) -> None:
    async with site() as found:
        await found.create(2, perm=2)
        with pytest.raises(QueueNotPermitted, match="topic orders has no readable queue"):
            await choose_queues(found.reader, TOPIC)


def printer(count: int | None = None) -> Printer:
    return Printer(Output(), lambda message: b"%d:%d " % (message.queue_id, message.queue_offset), count)


async def follow(found: Site, *, count: int | None = None, idle: float | None = None) -> None:
    ends = await spans(found.reader, await found.queues(), parse_range("end", 0))
    await follow_and_print(found.reader, [TOPIC], ends, "*", printer(count), idle=idle)


async def test_follows_until_there_were_enough(
    autojump_clock: MockClock, capfdbinary: pytest.CaptureFixture[bytes], nursery: trio.Nursery
) -> None:
    async with filled() as found:
        start = trio.current_time()

        async def write() -> None:
            for number in range(3):
                await trio.sleep(100)
                await found.put(number % 2)

        nursery.start_soon(write)
        await follow(found, count=3)
        assert trio.current_time() - start < 310
    assert capfdbinary.readouterr().out == b"0:5 1:5 0:6 "


async def test_ends_when_nothing_comes(
    autojump_clock: MockClock, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with filled() as found:
        start = trio.current_time()
        await follow(found, idle=20)
        assert trio.current_time() - start == pytest.approx(20)
    assert capfdbinary.readouterr().out == b""


async def test_a_new_queue_is_followed_too(
    autojump_clock: MockClock, capfdbinary: pytest.CaptureFixture[bytes], nursery: trio.Nursery
) -> None:
    async with site(1) as found:

        async def grow() -> None:
            await trio.sleep(5)
            await found.create(2)
            await found.put(1)

        nursery.start_soon(grow)
        await follow(found, count=1)
    assert capfdbinary.readouterr().out == b"1:0 "


async def test_of_a_broker_that_was_away_only_what_came_since(
    autojump_clock: MockClock,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Queues that were not there at the beginning are found within half a minute."""
    async with site(2) as found:
        await found.put(1, 10)
        for time in (11, 20, 30, 40):
            await found.put(0, time)
        await follow_and_print(found.reader, [TOPIC], [], "*", printer(), since_ms=found.begin + 30, idle=60)
    assert capfdbinary.readouterr().out == b"0:2 0:3 "


async def test_a_broker_that_is_not_there_at_the_beginning_is_followed_from_when_it_is(
    autojump_clock: MockClock, capfdbinary: pytest.CaptureFixture[bytes], nursery: trio.Nursery
) -> None:
    async with site(1) as here, here.cluster.broker(broker_name="broker-b") as other:
        await here.create(1)
        late = MessageQueue(TOPIC, "broker-b", 0)
        queues = [MessageQueue(TOPIC, "broker-a", 0), late]
        await here.put(0)
        await here.producer.send(Message.of(TOPIC, b"x"), queue=late)
        here.cluster.cut(other.broker_address, 100)
        found, absent = await reachable_spans(here.reader, queues, parse_range("end", 0))
        assert ([span.queue for span in found], list(absent)) == (queues[:1], [late])
        with pytest.raises(ConnectionFailed):
            await spans(here.reader, queues, parse_range("end", 0))
        with pytest.raises(ConnectionFailed):
            await reachable_spans(here.reader, [late], parse_range("end", 0))

        async def write() -> None:
            await trio.sleep(150)
            await here.producer.send(Message.of(TOPIC, b"x"), queue=late)

        nursery.start_soon(write)
        await follow_and_print(here.reader, [TOPIC], found, "*", printer(1), absent=list(absent))
    out, err = capfdbinary.readouterr()
    assert (out, err.decode().count("is lost")) == (b"0:1 ", 1)
    assert err.startswith(b"rmq: broker broker-b is lost, its queues wait: ")


async def test_a_lost_broker_is_said_once_and_tried_again(
    autojump_clock: MockClock,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    async with site(1) as found:
        ends = await spans(found.reader, await found.queues(), parse_range("end", 0))
        await found.put(0)
        found.cluster.cut(found.cluster.broker_address, 5)
        start = trio.current_time()
        await follow_and_print(found.reader, [TOPIC], ends, "*", printer(1))
        assert trio.current_time() - start >= 5
    out, err = capfdbinary.readouterr()
    assert out == b"0:0 "
    assert err.decode().count("is lost") == 1


async def test_messages_that_nobody_can_read_are_told(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a topic with fewer read queues than write queues; a queue without messages is left out."""
    async with site(4) as found:
        for number in (1, 3, 3):
            await found.put(number)
        await found.admin.topics.put(TopicConfig(TOPIC, 2, 4), "broker-a")
        await found.reader.instance.routes.read(TOPIC, 3)
        assert [queue.queue_id for queue in await choose_queues(found.reader, TOPIC)] == [0, 1]
        told = capsys.readouterr().err
        await choose_queues(found.reader, TOPIC, queue_id=1)
        await found.admin.topics.put(TopicConfig(TOPIC, 4, 2), "broker-a")
        await found.reader.instance.routes.read(TOPIC, 3)
        assert len(await choose_queues(found.reader, TOPIC)) == 4
    assert told == (
        "rmq: 2 messages in queue 3 of topic orders cannot be read: make it a read queue with rmq topic update "
        "orders --read-queues 4\n"
    )
    assert capsys.readouterr().err == ""
