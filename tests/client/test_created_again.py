"""A topic that is deleted and created again under a running consumer: it begins at 0, below the offsets of its
group, and its first messages must not be skipped. On the in-memory cluster and its virtual clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from rmqcli.client import Admin, LitePullConsumer, LiteSettings, OrderlyResult
from rmqcli.client.group.queue_life import CLOCKS, QueueLife
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.push.consuming import DONE, GROUP, TOPIC, consumer
from tests.client.watched_cluster import NAMESRV, WatchedCluster, in_place, now_ms, open_cluster
from tests.codec.samples import make_record

LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
OLD = [b"old-0", b"old-1", b"old-2"]
KINDS = ("push", "orderly", "broadcasting", "lite", "assigned")
LONG = 40.0  # seconds: a long poll, the 10 s until a queue begins again, a rebalance


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual clock does not wait for the threads that write the offsets of a broadcasting consumer."""
    monkeypatch.setattr(trio.to_thread, "run_sync", in_place)


class Reader:
    """A consumer of any kind, and the bodies that it got."""

    def __init__(self, cluster: WatchedCluster, tmp_path: Any) -> None:
        self.cluster = cluster
        self.bodies: list[bytes] = []
        self._folder = tmp_path

    async def _listen(self, messages: list[Any], _context: Any) -> Any:
        self.bodies += [message.body for message in messages]
        return DONE

    async def _listen_in_order(self, messages: list[Any], _context: Any) -> Any:
        self.bodies += [message.body for message in messages]
        return OrderlyResult.SUCCESS

    @asynccontextmanager
    async def running(self, kind: str) -> AsyncIterator[None]:
        if kind in ("lite", "assigned"):
            async with self._lite(kind):
                yield
            return
        settings = (
            {"message_model": MessageModel.BROADCASTING, "offsets_folder": self._folder}
            if kind == "broadcasting"
            else {}
        )
        listener = self._listen_in_order if kind == "orderly" else self._listen
        async with consumer(self.cluster, listener, orderly=kind == "orderly", consume_from=LAST, **settings):
            yield

    @asynccontextmanager
    async def _lite(self, kind: str) -> AsyncIterator[None]:
        options: Any = {"namesrv": NAMESRV, "open_stream": self.cluster.open_stream, "now_ms": now_ms}
        settings = LiteSettings(consume_from=LAST)
        async with (
            LitePullConsumer(GROUP, settings=settings, **options) as lite,
            trio.open_nursery() as tasks,
        ):
            if kind == "lite":
                await lite.subscribe(TOPIC)
            else:
                await lite.assign([self.cluster.queue(TOPIC)])

            async def poll() -> None:
                while True:
                    self.bodies += [message.body for message in await lite.poll()]

            tasks.start_soon(poll)
            yield
            tasks.cancel_scope.cancel()


def as_java(cluster: WatchedCluster) -> None:
    """The broker keeps offsets of groups and held pulls when a topic is deleted, as 4.9 does."""
    context: Any = cluster.nodes["a"].context
    context.offsets.remove_topic = lambda topic: None
    context.holds.release_topic = lambda topic: None


@pytest.mark.parametrize(("count", "java"), [(2, False), (3, True), (5, True)])
@pytest.mark.parametrize("kind", KINDS)
async def test_the_first_messages_of_the_new_topic_are_consumed(
    kind: str, count: int, java: bool, autojump_clock: Any, tmp_path: Any
) -> None:
    """Fewer than there were, as many, and more: the consumer begins at the start, also with LAST."""
    new = [b"new-%d" % number for number in range(count)]
    async with open_cluster({TOPIC: 1}) as cluster:
        if java:
            as_java(cluster)
        reader, queue = Reader(cluster, tmp_path), cluster.queue(TOPIC)
        async with (
            Admin(namesrv=NAMESRV, open_stream=cluster.open_stream) as admin,
            reader.running(kind),
        ):
            await trio.sleep(1)
            cluster.put_many(queue, OLD)
            await trio.sleep(10)
            assert reader.bodies == OLD
            await admin.topics.delete(TOPIC)
            await trio.sleep(20)
            await admin.topics.create(TOPIC, read_queues=1, write_queues=1)
            cluster.put_many(queue, new)
            await trio.sleep(LONG)
            assert reader.bodies == [*OLD, *new]
            cluster.put(queue, b"later")
            await trio.sleep(10)
            assert reader.bodies == [*OLD, *new, b"later"]
        if kind != "broadcasting":
            assert cluster.committed(GROUP, TOPIC)[0] == count + 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_consumer_that_did_not_see_the_absence(kind: str, autojump_clock: Any, tmp_path: Any) -> None:
    """A broker that moves it to the end of a queue that begins again at 0 tells enough."""
    async with open_cluster({TOPIC: 1}) as cluster:
        as_java(cluster)
        reader, queue = Reader(cluster, tmp_path), cluster.queue(TOPIC)
        async with (
            Admin(namesrv=NAMESRV, open_stream=cluster.open_stream) as admin,
            reader.running(kind),
        ):
            await trio.sleep(1)
            cluster.put_many(queue, OLD)
            await trio.sleep(10)
            await admin.topics.delete(TOPIC)
            await admin.topics.create(TOPIC, read_queues=1, write_queues=1)
            cluster.put_many(queue, [b"new"])
            await trio.sleep(LONG)
            assert reader.bodies == [*OLD, b"new"]


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_a_topic_that_was_away_for_a_moment_is_the_same(
    kind: str, autojump_clock: Any, tmp_path: Any
) -> None:
    """A slave that does not know it yet, a broker that lost its table: nothing is consumed again."""
    async with open_cluster({TOPIC: 1}) as cluster:
        reader, queue = Reader(cluster, tmp_path), cluster.queue(TOPIC)
        async with reader.running(kind):
            await trio.sleep(1)
            cluster.put_many(queue, OLD)
            await trio.sleep(10)

            def refuse(command: RemotingCommand) -> RemotingCommand:
                return command.reply(ResponseCode.TOPIC_NOT_EXIST, "no topic")

            for code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
                cluster.trouble[code] = refuse
            cluster.put(queue, b"more")
            await trio.sleep(30)
            cluster.trouble.clear()
            await trio.sleep(LONG)
            assert reader.bodies == [*OLD, b"more"]
        assert cluster.committed(GROUP, TOPIC)[0] == 4


async def test_queues_of_a_topic_that_was_awaited(autojump_clock: Any, tmp_path: Any) -> None:
    """All of its messages are newer than the consumer, which reads its route every 30 s."""
    async with open_cluster({"Other": 1}) as cluster:
        reader = Reader(cluster, tmp_path)
        async with (
            Admin(namesrv=NAMESRV, open_stream=cluster.open_stream) as admin,
            reader.running("broadcasting"),
        ):
            await trio.sleep(5)
            await admin.topics.create(TOPIC, read_queues=1, write_queues=1)
            cluster.put_many(cluster.queue(TOPIC), OLD)
            await trio.sleep(LONG)
            assert reader.bodies == OLD


@pytest.mark.parametrize(
    ("seen", "absent", "offset", "low", "high", "following", "earliest", "another"),
    [
        (50, None, 9, 0, 4, 4, 60, True),  # younger than what was read
        (50, None, 9, 0, 4, 4, 40, False),  # cut off by a power cut
        (None, None, 9, 0, 4, 4, 60, True),  # nothing was read: rather twice than never
        (50, None, 9, 0, 4, 2, 60, False),  # a reset of a broker of 5.x
        (50, None, 9, 0, 9, 9, 60, False),  # at the end
        (50, None, 9, 3, 4, 4, 60, False),  # it does not begin at 0
        (50, 55, 9, 0, 12, 12, 60, True),  # more messages than before
        (50, 55, 9, 0, 12, 12, 40, False),
        (50, 55, 9, 3, 12, 12, 60, False),
        (50, 55, 0, 0, 12, 0, 60, False),  # it is read from the first message anyway
        (50, 55, 9, 0, 0, 0, -1, False),  # empty: the broker goes on at 0
        (None, CLOCKS + 55, 9, 0, 12, 12, 56, True),
        (None, CLOCKS + 55, 9, 0, 12, 12, 55, False),
    ],
)
def test_the_life_of_a_queue(
    seen: int | None,
    absent: int | None,
    offset: int,
    low: int,
    high: int,
    following: int,
    earliest: int,
    another: bool,
) -> None:
    life = QueueLife()
    if seen is not None:
        life.see([decode_record(make_record(store_timestamp=seen))])
    if absent is not None:
        life.vanish(absent)
    assert (life.is_doubtful(offset, low, high, following) and life.is_another(earliest)) is another
