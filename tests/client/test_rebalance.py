"""Pull consumers that share queues: registration, listeners, the share of a member, scheduled pulls."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import trio

from rmqcli.client import InvalidRequest, NoRoute, PullConsumer, PullStatus, ScheduledPull, UnexpectedReply
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message_queue import MessageQueue
from tests.client.polling import GROUP, TOPIC, fill, lite, pulling
from tests.client.watched_cluster import WatchedCluster, open_cluster


@pytest.fixture
async def cluster(autojump_clock: Any) -> AsyncIterator[WatchedCluster]:
    async with open_cluster({TOPIC: 4}) as running:
        yield running


async def test_an_unregistered_consumer_is_not_a_member(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 1})
    async with pulling(cluster) as consumer:
        await consumer.pull(cluster.queue(TOPIC, 0), 0)
        with pytest.raises(InvalidRequest, match="not registered"):
            await consumer.queues_in_balance(TOPIC)
        await trio.sleep(60)
    assert cluster.count(RequestCode.HEART_BEAT) == 0


async def test_queues_in_balance(cluster: WatchedCluster, autojump_clock: Any) -> None:
    heard: list[tuple[int, int]] = []

    async def listener(topic: str, queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]) -> None:
        await trio.lowlevel.checkpoint()
        heard.append((len(queues), len(mine)))

    async with pulling(cluster) as one:
        await one.register({TOPIC: listener})
        await trio.sleep(1)
        assert heard == [(4, 4)]
        async with pulling(cluster) as two:
            await two.register({TOPIC: None})
            await trio.sleep(1)
            shares = [await consumer.queues_in_balance(TOPIC) for consumer in (one, two)]
            assert sorted(shares[0] + shares[1]) == await one.message_queues(TOPIC)
            assert heard == [(4, 4), (4, 2)]
        await trio.sleep(1)
        assert heard == [(4, 4), (4, 2), (4, 4)]
        cluster.create_topic(TOPIC, 6)
        await trio.sleep(60)
        assert heard[3:] == [(6, 6)]
        with pytest.raises(NoRoute):
            await one.register({"Unknown": None})
    assert cluster.members(GROUP) == []


async def test_who_registers_again_hears_at_once(cluster: WatchedCluster, autojump_clock: Any) -> None:
    heard: list[str] = []
    async with pulling(cluster) as consumer:
        await consumer.register({TOPIC: lambda topic, queues, mine: heard.append("first")})
        await trio.sleep(1)
        await consumer.register({TOPIC: lambda topic, queues, mine: heard.append("second")})
        await trio.sleep(1)
        assert heard == ["first", "second"]
        await trio.sleep(60)
    assert heard == ["first", "second"]


async def test_a_listener_that_raises_hears_of_the_next_change(
    cluster: WatchedCluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def listener(topic: str, queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]) -> None:
        heard.append(len(mine))
        raise LookupError("bad")

    async with pulling(cluster) as one:
        await one.register({TOPIC: listener})
        await trio.sleep(1)
        async with pulling(cluster) as two:
            await two.register({TOPIC: None})
            await trio.sleep(1)
    assert heard[:2] == [4, 2]
    assert "the listener of the queues of T failed" in caplog.text


def counting(heard: list[int]) -> Callable[[str, object, Sequence[MessageQueue]], None]:
    """A listener that records the number of its queues."""
    return lambda topic, queues, mine: heard.append(len(mine))


async def test_queues_stay_while_no_broker_answers(cluster: WatchedCluster, autojump_clock: Any) -> None:
    heard: list[int] = []
    async with pulling(cluster) as one:
        await one.register({TOPIC: counting(heard)})
        await trio.sleep(1)
        cluster.trouble[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda command: command.reply(1, "no")
        await trio.sleep(60)
        assert heard == [4]
        assert cluster.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) >= 4


async def test_pull_block_if_not_found(cluster: WatchedCluster, autojump_clock: Any) -> None:
    queue = cluster.queue(TOPIC, 0)
    async with pulling(cluster) as consumer:
        started = trio.current_time()
        empty = await consumer.pull_block_if_not_found(queue, 0)
        assert empty.status is PullStatus.NO_NEW_MSG
        assert trio.current_time() - started == pytest.approx(20)
        async with trio.open_nursery() as nursery:

            async def later() -> None:
                await trio.sleep(3)
                fill(cluster, {0: 1})

            nursery.start_soon(later)
            found = await consumer.pull_block_if_not_found(queue, 0)
    assert [message.body for message in found.messages] == [b"0-0"]
    assert trio.current_time() - started == pytest.approx(23)


async def read_one_batch(consumer: PullConsumer, queue: MessageQueue) -> float | None:
    offset = await consumer.committed(queue) or 0
    result = await consumer.pull(queue, offset)
    if result.status is not PullStatus.FOUND:
        return 2.0
    await consumer.commit(queue, result.next_begin_offset)
    return None


async def test_scheduled_pulls(cluster: WatchedCluster, nursery: trio.Nursery, autojump_clock: Any) -> None:
    fill(cluster, {0: 100, 3: 5})
    rounds: list[tuple[float, int]] = []

    async def task(consumer: PullConsumer, queue: MessageQueue) -> float | None:
        rounds.append((trio.current_time(), queue.queue_id))
        return await read_one_batch(consumer, queue)

    async with pulling(cluster) as consumer, trio.open_nursery() as running:
        service = ScheduledPull(consumer, {TOPIC: task})
        running.start_soon(service.run)
        await trio.sleep(1.9)
        assert service.queues == [cluster.queue(TOPIC, number) for number in range(4)]
        # 100 messages are four pulls 0.2 s apart, then one that finds nothing
        assert Counter(queue_id for _, queue_id in rounds) == {0: 5, 1: 1, 2: 1, 3: 2}
        assert cluster.committed(GROUP, TOPIC) == {0: 100, 3: 5}
        running.cancel_scope.cancel()


async def test_a_service_that_was_cancelled_runs_again(
    cluster: WatchedCluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rounds: list[int] = []

    async def task(consumer: PullConsumer, queue: MessageQueue) -> float | None:
        rounds.append(queue.queue_id)
        return 1000.0

    async with pulling(cluster) as consumer:
        service = ScheduledPull(consumer, {TOPIC: task})
        for _ in range(2):
            with trio.move_on_after(5):
                await service.run()
            assert sorted(rounds) == [0, 1, 2, 3]
            assert service.queues == []
            rounds.clear()
        cluster.create_topic(TOPIC, 6)
        await trio.sleep(60)
    assert rounds == []
    assert not caplog.records


async def test_tasks_follow_the_queues(cluster: WatchedCluster, autojump_clock: Any) -> None:
    working: dict[str, Counter[int]] = {"one": Counter(), "two": Counter()}

    def task_of(name: str) -> Any:
        async def task(consumer: PullConsumer, queue: MessageQueue) -> float | None:
            working[name][queue.queue_id] += 1
            try:
                await trio.sleep(1)
            finally:
                working[name][queue.queue_id] -= 1
            return 0.0

        return task

    def now(name: str) -> set[int]:
        return set(+working[name])

    async with pulling(cluster) as first, trio.open_nursery() as running:
        running.start_soon(ScheduledPull(first, {TOPIC: task_of("one")}).run)
        await trio.sleep(3.3)
        assert now("one") == {0, 1, 2, 3}
        async with pulling(cluster) as second, trio.open_nursery() as joining:
            joining.start_soon(ScheduledPull(second, {TOPIC: task_of("two")}).run)
            await trio.sleep(3.3)
            assert len(now("one")) == len(now("two")) == 2
            assert now("one") | now("two") == {0, 1, 2, 3}
            joining.cancel_scope.cancel()
        await trio.sleep(3.3)
        assert now("one") == {0, 1, 2, 3}
        assert now("two") == set()
        running.cancel_scope.cancel()


async def test_a_round_that_raises_comes_again(
    cluster: WatchedCluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    times: list[float] = []

    async def task(consumer: PullConsumer, queue: MessageQueue) -> float | None:
        if queue.queue_id == 0:
            times.append(trio.current_time())
            raise LookupError("bad round")
        return 10.0

    async with pulling(cluster) as consumer, trio.open_nursery() as running:
        running.start_soon(ScheduledPull(consumer, {TOPIC: task}).run)
        await trio.sleep(2.5)
        running.cancel_scope.cancel()
    assert [round(later - times[0], 2) for later in times] == [0.0, 1.0, 2.0]
    assert "bad round" in caplog.text


async def test_so_many_at_once(cluster: WatchedCluster, autojump_clock: Any) -> None:
    at_once = most = 0

    async def task(consumer: PullConsumer, queue: MessageQueue) -> float | None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await trio.sleep(1)
        at_once -= 1
        return 0.0

    async with pulling(cluster) as consumer, trio.open_nursery() as running:
        running.start_soon(ScheduledPull(consumer, {TOPIC: task}, at_once=3).run)
        await trio.sleep(10.5)
        running.cancel_scope.cancel()
    assert most == 3


async def test_a_member_that_the_broker_does_not_know_has_no_queues(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    heard: list[int] = []
    async with pulling(cluster) as consumer:
        await consumer.register({TOPIC: counting(heard)})
        await trio.sleep(1)
        body = b'{"consumerIdList":["other@1"]}'
        cluster.trouble[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda c: c.reply(0, None, None, body)
        await trio.sleep(21)
        assert await consumer.queues_in_balance(TOPIC) == []
        cluster.trouble[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda c: c.reply(
            0, None, None, b"nonsense"
        )
        with pytest.raises(UnexpectedReply):
            await consumer.queues_in_balance(TOPIC)
        await trio.sleep(21)
        del cluster.trouble[RequestCode.GET_CONSUMER_LIST_BY_GROUP]
        await trio.sleep(21)
    assert heard == [4, 0, 4]


async def test_a_group_without_a_known_member_keeps_its_queues(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    heard: list[int] = []
    async with pulling(cluster) as consumer:
        await consumer.register({TOPIC: counting(heard)})
        await trio.sleep(1)
        body = b'{"consumerIdList":[]}'
        cluster.trouble[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda c: c.reply(0, None, None, body)
        await trio.sleep(60)
        assert await consumer.queues_in_balance(TOPIC) == []
    assert heard == [4]


async def test_a_strategy_that_fails_keeps_the_queues(
    cluster: WatchedCluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def allocate(me: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        if trio.current_time() > 10:
            raise LookupError("bad strategy")
        return list(queues)

    async with lite(cluster, allocate=allocate) as consumer:
        await consumer.subscribe(TOPIC)
        await trio.sleep(60)
        assert len(consumer.assignment) == 4
    assert "bad strategy" in caplog.text


async def test_a_round_reads_the_client_list_once_for_all_topics(autojump_clock: Any) -> None:
    topics = {TOPIC: 2, "U": 2, "V": 2}
    async with open_cluster(topics) as cluster, pulling(cluster) as consumer:
        await consumer.register(dict.fromkeys([TOPIC, "U", "V"]))
        await trio.sleep(1)
        cluster.asked.clear()
        await trio.sleep(20)
        assert cluster.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == 1
