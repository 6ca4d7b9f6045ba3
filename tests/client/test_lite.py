"""Lite pull consumers: subscribe and assign, poll, commits, seek, pause, flow control, rebalance."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from rmqcli.client import (
    ClientInstance,
    InvalidRequest,
    LitePullConsumer,
    LiteSettings,
    MessageSelector,
    NoRoute,
    PullConsumer,
)
from rmqcli.client.group.offset_store import OffsetFileDamaged, StartOffsets
from rmqcli.client.lite.pulling import AssignedQueue, Pulling
from rmqcli.client.results import PullResult
from rmqcli.client.trace.records import ConsumeEnd, ConsumeStart, decode_trace
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere, ConsumeType, HeartbeatData, MessageModel
from rmqcli.codec.bodies.offsets import GetConsumerStatusBody
from rmqcli.codec.bodies.running import ConsumerRunningInfo
from rmqcli.codec.codes import PullSysFlag, RequestCode, ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.polling import GROUP, TOPIC, fill, lite
from tests.client.tasks import tasks
from tests.client.watched_cluster import EPOCH, NAMESRV, WatchedCluster, open_cluster

LITE = RequestCode.LITE_PULL_MESSAGE
FIRST = {"consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET}


@pytest.fixture
async def cluster(autojump_clock: Any) -> AsyncIterator[WatchedCluster]:
    async with open_cluster({TOPIC: 4}) as running:
        yield running


def not_found(command: RemotingCommand) -> RemotingCommand:
    return command.reply(ResponseCode.QUERY_NOT_FOUND, "Not found")


async def drain(consumer: LitePullConsumer, timeout: float = 1.0) -> list[bytes]:
    found: list[bytes] = []
    while batch := await consumer.poll(timeout):
        assert len({message.queue for message in batch}) == 1
        found += [message.body for message in batch]
    return found


def in_order(bodies: list[bytes], counts: dict[int, int]) -> bool:
    """Checks that every message came once, in the order of its queue."""
    return all(
        [body for body in bodies if body.startswith(b"%d-" % queue_id)]
        == [b"%d-%d" % (queue_id, number) for number in range(count)]
        for queue_id, count in counts.items()
    ) and len(bodies) == sum(counts.values())


async def test_subscribe_and_poll(cluster: WatchedCluster, autojump_clock: Any) -> None:
    counts = {0: 25, 1: 3, 2: 0, 3: 11}
    fill(cluster, counts)
    async with lite(cluster, **FIRST) as consumer:
        await consumer.subscribe(TOPIC)
        found = await drain(consumer)
        assert consumer.assignment == [cluster.queue(TOPIC, number) for number in range(4)]
        fill(cluster, {2: 1})
        (late,) = await consumer.poll()
    assert in_order(found, counts)
    assert late.body == b"2-0"
    fields = cluster.fields(LITE)[0]
    assert int(fields["sysFlag"]) == PullSysFlag.LITE_PULL | PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND
    assert (fields["maxMsgNums"], fields["suspendTimeoutMillis"], fields["subscription"]) == (
        "10",
        "20000",
        "*",
    )
    beat = next(command for _, command in cluster.asked if command.code == RequestCode.HEART_BEAT)
    (data,) = decode_body(HeartbeatData, beat.body).consumer_data_set
    assert (data.group_name, data.consume_type) == (GROUP, ConsumeType.CONSUME_ACTIVELY)
    assert [one.topic for one in data.subscription_data_set] == [TOPIC]


def told(cluster: WatchedCluster) -> list[list[Any]]:
    """The subscriptions of each heartbeat."""
    beats = [command for _, command in cluster.asked if command.code == RequestCode.HEART_BEAT]
    data = [decode_body(HeartbeatData, beat.body) for beat in beats]
    return [consumer.subscription_data_set for one in data for consumer in one.consumer_data_set]


async def test_nothing_comes_within_the_timeout(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with lite(cluster) as consumer:
        await consumer.subscribe(TOPIC)
        started = trio.current_time()
        assert await consumer.poll() == []
        assert trio.current_time() - started == pytest.approx(5)
        assert await consumer.poll(0) == []
        assert trio.current_time() - started == pytest.approx(5)


@pytest.mark.parametrize(
    ("where", "first"),
    [
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, 0),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, 4),
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, None),
    ],
)
async def test_where_a_new_group_starts(
    cluster: WatchedCluster, where: ConsumeFromWhere, first: int | None, autojump_clock: Any
) -> None:
    if first != 0:  # a broker lets a new group begin at 0 as long as message 0 is there
        cluster.trouble[RequestCode.QUERY_CONSUMER_OFFSET] = not_found
    for start, count, pause in ((0, 4, 1), (4, 1, 1), (5, 3, 1799)):
        fill(cluster, {0: count}, start)
        await trio.sleep(pause)
    async with lite(cluster, consume_from=where) as consumer:
        await consumer.subscribe(TOPIC)
        found = await drain(consumer)
    assert found == ([b"0-%d" % number for number in range(first, 8)] if first is not None else [])


async def test_half_an_hour_ago_is_that_of_the_start(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.trouble[RequestCode.QUERY_CONSUMER_OFFSET] = not_found
    async with lite(cluster, consume_from=ConsumeFromWhere.CONSUME_FROM_TIMESTAMP) as consumer:
        await trio.sleep(7200)
        await consumer.assign([cluster.queue(TOPIC, 0)])
        await consumer.poll(1)
    (asked,) = cluster.fields(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    assert int(asked["timestamp"]) == EPOCH - 1_800_000


async def test_a_known_group_goes_on(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 8})
    cluster.commit(GROUP, cluster.queue(TOPIC, 0), 6)
    async with lite(cluster, **FIRST) as consumer:
        await consumer.subscribe(TOPIC)
        assert await drain(consumer) == [b"0-6", b"0-7"]


async def test_only_earlier_polls_are_committed(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 30})
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([cluster.queue(TOPIC, 0)])
        assert len(await consumer.poll()) == 10
        assert len(await consumer.poll()) == 10
        assert cluster.committed(GROUP, TOPIC) == {}
        await trio.sleep(5)
        assert len(await consumer.poll()) == 10
        await trio.testing.wait_all_tasks_blocked()
        # Called after the interval: what the first two calls gave
        assert cluster.committed(GROUP, TOPIC) == {0: 20}
        assert await consumer.poll(12) == []
        assert cluster.committed(GROUP, TOPIC) == {0: 30}
        assert [offset for _, _, offset in cluster.commits] == [20, 30]


async def test_leaving_commits_polled_messages(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 30})
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([cluster.queue(TOPIC, 0)])
        await consumer.poll()
    assert cluster.committed(GROUP, TOPIC) == {0: 10}
    assert cluster.members(GROUP) == []


async def test_leaving_in_anger_does_not_commit_the_last(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    fill(cluster, {0: 30})
    with pytest.raises(LookupError):
        async with lite(cluster, **FIRST) as consumer:
            await consumer.assign([cluster.queue(TOPIC, 0)])
            await consumer.poll()
            await consumer.poll()
            raise LookupError
    assert cluster.committed(GROUP, TOPIC) == {0: 10}


async def test_a_cancelled_poll_loses_nothing(cluster: WatchedCluster, autojump_clock: Any) -> None:
    counts = {0: 40, 1: 40}
    fill(cluster, counts)
    found: list[bytes] = []

    async def cancel_after(steps: int, scope: trio.CancelScope) -> None:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    async with lite(cluster, **FIRST) as consumer, trio.open_nursery() as nursery:
        await consumer.subscribe(TOPIC)
        for steps in range(60):
            with trio.CancelScope() as scope:
                nursery.start_soon(cancel_after, steps % 6, scope)
                found += [message.body for message in await consumer.poll()]
    assert in_order(found, counts)


async def test_commits_by_hand(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 30, 1: 5})
    first = cluster.queue(TOPIC, 0)
    async with lite(cluster, auto_commit=False, **FIRST) as consumer:
        await consumer.assign([first, cluster.queue(TOPIC, 1)])
        await drain(consumer)
        await trio.sleep(30)
        assert cluster.committed(GROUP, TOPIC) == {}
        cluster.trouble[RequestCode.QUERY_CONSUMER_OFFSET] = not_found
        assert await consumer.committed(first) is None
        del cluster.trouble[RequestCode.QUERY_CONSUMER_OFFSET]
        await consumer.commit({first: 7})
        assert cluster.committed(GROUP, TOPIC) == {0: 7}
        assert await consumer.committed(first) == 7
        await consumer.commit()
        assert cluster.committed(GROUP, TOPIC) == {0: 30, 1: 5}
    assert cluster.committed(GROUP, TOPIC) == {0: 30, 1: 5}


async def test_assigned_queues_are_filtered(cluster: WatchedCluster, autojump_clock: Any) -> None:
    """Java `setSubExpressionForAssign`; heartbeats of assigned queues have no subscriptions."""
    queue = cluster.queue(TOPIC, 0)
    for tag in ("A", "B", "C", "A", "B", "C"):
        cluster.put(queue, tag.encode(), {"TAGS": tag})
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([queue], {TOPIC: "A || B"})
        assert await drain(consumer) == [b"A", b"B", b"A", b"B"]
        await consumer.seek_to_begin(queue)
        assert [message.body for message in await consumer.poll()] == [b"A", b"B", b"A", b"B"]
        cluster.put(queue, b"C", {"TAGS": "C"})
        cluster.put(queue, b"A", {"TAGS": "A"})
        await trio.sleep(1)
        await consumer.assign([queue], {TOPIC: "C"})
        assert await drain(consumer) == [b"C", b"C"]
        await consumer.assign([queue])
        await consumer.seek_to_begin(queue)
        assert len(await drain(consumer)) == 8
        with pytest.raises(InvalidRequest):
            await consumer.assign([queue], {TOPIC: "||"})
        assert consumer.assignment == [queue]
    assert not any(subscriptions for subscriptions in told(cluster))


async def test_another_selector_applies_to_cached_messages_too(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    queue = cluster.queue(TOPIC, 0)
    for tag in ("A", "B") * 20:
        cluster.put(queue, tag.encode(), {"TAGS": tag})
    async with lite(cluster, **FIRST) as consumer:
        await consumer.subscribe(TOPIC, "A")
        first = await consumer.poll()
        await trio.sleep(1)
        await consumer.subscribe(TOPIC, "B")
        rest = await drain(consumer)
    assert [message.queue_offset for message in first] == list(range(0, 20, 2))
    assert rest == [b"B"] * len(range(19, 40, 2))


async def test_all_queues_are_paused_or_none(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 1})
    ours, other = cluster.queue(TOPIC, 0), cluster.queue(TOPIC, 1)
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([ours])
        with pytest.raises(InvalidRequest, match="not in assigned list"):
            consumer.pause([ours, other])
        assert len(await consumer.poll()) == 1
        consumer.pause([ours])
        with pytest.raises(InvalidRequest, match="not in assigned list"):
            consumer.resume([ours, other])
        fill(cluster, {0: 1})
        assert await consumer.poll() == []


async def test_assign_and_subscribe_exclude_each_other(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with lite(cluster) as consumer:
        await consumer.assign([cluster.queue(TOPIC, 0)])
        with pytest.raises(InvalidRequest, match="mutually exclusive"):
            await consumer.subscribe(TOPIC)
    async with lite(cluster) as consumer:
        await consumer.subscribe(TOPIC)
        with pytest.raises(InvalidRequest, match="mutually exclusive"):
            await consumer.assign([cluster.queue(TOPIC, 0)])
        with pytest.raises(NoRoute):
            await consumer.subscribe("Unknown")
        with pytest.raises(InvalidRequest, match="no tag"):
            await consumer.subscribe(TOPIC, "||")


async def test_assigning_others(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 5, 1: 5})
    one, two = cluster.queue(TOPIC, 0), cluster.queue(TOPIC, 1)
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([one])
        assert [message.body for message in await consumer.poll()] == [b"0-%d" % n for n in range(5)]
        await consumer.poll(0)
        await consumer.assign([two])
        assert cluster.committed(GROUP, TOPIC) == {0: 5}
        assert consumer.assignment == [two]
        fill(cluster, {0: 5}, start=5)
        assert await drain(consumer) == [b"1-%d" % n for n in range(5)]


async def test_seek(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 3})
    await cluster.expire()
    fill(cluster, {0: 47}, start=3)
    queue = cluster.queue(TOPIC, 0)
    async with lite(cluster) as consumer:
        await consumer.assign([queue])
        assert await drain(consumer) == []
        await consumer.seek(queue, 45)
        assert await drain(consumer) == [b"0-%d" % number for number in range(45, 50)]
        await consumer.seek_to_begin(queue)
        first = await consumer.poll()
        assert first[0].queue_offset == 3
        # What waits here of the old place is forgotten
        await trio.sleep(1)
        await consumer.seek(queue, 20)
        assert (await consumer.poll())[0].queue_offset == 20
        await consumer.seek_to_end(queue)
        assert await drain(consumer) == []
        fill(cluster, {0: 1}, start=50)
        assert await drain(consumer) == [b"0-50"]
        for offset in (2, 52):
            with pytest.raises(
                InvalidRequest, match=f"seek offset = {offset}, min offset = 3, max offset = 51"
            ):
                await consumer.seek(queue, offset)
        with pytest.raises(InvalidRequest, match="not in assigned list"):
            await consumer.seek_to_end(cluster.queue(TOPIC, 1))
        last = cluster.stored(queue)[-1]
        assert await consumer.offset_for_timestamp(queue, last.store_timestamp) == last.queue_offset


async def test_seek_at_every_moment_of_a_pull(cluster: WatchedCluster, autojump_clock: Any) -> None:
    """In any order of a reply and a seek, the next poll begins at the new offset."""
    fill(cluster, {0: 50})
    queue = cluster.queue(TOPIC, 0)
    async with lite(cluster, **FIRST) as consumer:
        for steps in range(60):
            await consumer.assign([])
            await consumer.assign([queue])
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            held = consumer._held[queue]
            held.seek(40)
            assert (await consumer.poll())[0].queue_offset == 40
        await consumer.assign([])


async def test_an_answer_that_a_seek_overtook_is_dropped(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    """The pull has its reply but its task has not run yet, so it can no longer be cancelled."""
    held = AssignedQueue(cluster.queue(TOPIC, 0))
    held.begin(0)
    fill(cluster, {0: 3})
    arrived = trio.Event()

    class Overtaken(PullConsumer):
        async def pull_as(self, *arguments: Any, **options: Any) -> PullResult:
            result = await super().pull_as(*arguments, **options)
            if held.next_offset == 0:
                held.seek(2)
            return result

    settings, starts = LiteSettings(), cast(StartOffsets, None)
    async with (
        Overtaken(GROUP, namesrv=NAMESRV, open_stream=cluster.open_stream) as consumer,
        trio.open_nursery() as nursery,
    ):
        pulling = Pulling(consumer, settings, starts, {held.queue: held}, {}, arrived.set)
        nursery.start_soon(pulling.run, held)
        await arrived.wait()
        nursery.cancel_scope.cancel()
    assert [[message.queue_offset for message in batch] for batch in held.batches] == [[2]]


async def test_pause_and_resume(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 30, 1: 3})
    one, two = cluster.queue(TOPIC, 0), cluster.queue(TOPIC, 1)
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([one, two])
        await trio.sleep(0.1)
        consumer.pause([one])
        assert await drain(consumer) == [b"1-0", b"1-1", b"1-2"]
        pulls = len([f for f in cluster.fields(LITE) if f["queueId"] == "0"])
        await trio.sleep(60)
        assert len([f for f in cluster.fields(LITE) if f["queueId"] == "0"]) <= pulls + 1
        consumer.resume([one])
        assert await drain(consumer) == [b"0-%d" % number for number in range(30)]


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"queue_messages": 50}, 50),
        ({"all_messages": 70, "queue_messages": 1000}, 70),
        ({"max_span": 30}, 40),
        ({"queue_bytes": 1024 * 1024}, 110),
    ],
)
async def test_flow_control(
    cluster: WatchedCluster, limits: dict[str, Any], most: int, autojump_clock: Any
) -> None:
    queue = cluster.queue(TOPIC, 0)
    cluster.put_many(queue, [b"x" * 10_000] * 300)
    async with lite(cluster, **FIRST, **limits) as consumer:
        await consumer.assign([queue])
        await trio.sleep(5)
        assert consumer._held[queue].count == most
        assert len(await drain(consumer)) == 300


async def test_an_offset_outside_of_the_queue(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 4})
    await cluster.expire()
    fill(cluster, {0: 5}, start=4)
    queue = cluster.queue(TOPIC, 0)
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([queue])
        assert await drain(consumer) == [b"0-%d" % number for number in range(4, 9)]


async def test_trouble_is_waited_out(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 3})
    codes = [ResponseCode.SYSTEM_ERROR, ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_ERROR]

    def trouble(command: RemotingCommand) -> RemotingCommand | None:
        return command.reply(codes.pop(), "no") if codes else None

    cluster.trouble[LITE] = trouble
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([cluster.queue(TOPIC, 0)])
        assert await drain(consumer, 3) == [b"0-0", b"0-1", b"0-2"]
    times = cluster.times(LITE)
    assert [round(later - at, 2) for at, later in itertools.pairwise(times[:4])] == [1.0, 0.02, 1.0]


async def test_older_brokers(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.trouble[LITE] = lambda command: command.reply(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
    )
    fill(cluster, {0: 3})
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([cluster.queue(TOPIC, 0)])
        assert len(await drain(consumer)) == 3
    assert cluster.count(LITE) == 1


async def test_two_members_share_and_take_over(cluster: WatchedCluster, autojump_clock: Any) -> None:
    changes: list[tuple[str, int, list[int]]] = []

    def heard(topic: str, queues: Any, mine: Any) -> None:
        changes.append((topic, len(queues), [queue.queue_id for queue in mine]))

    async with lite(cluster, **FIRST) as first:
        await first.subscribe(TOPIC, on_change=heard)
        await trio.sleep(1)
        async with lite(cluster, **FIRST) as second:
            await second.subscribe(TOPIC)
            await trio.sleep(1)
            counts = dict.fromkeys(range(4), 20)
            fill(cluster, counts)
            ours, theirs = await drain(first), await drain(second)
            assert not set(first.assignment) & set(second.assignment)
            assert len(first.assignment) == len(second.assignment) == 2
            assert in_order(ours + theirs, counts)
            assert len(ours) == 40
        await trio.sleep(1)
        assert len(first.assignment) == 4
        # What the other had committed does not come again
        assert await drain(first) == []
        await first.unsubscribe(TOPIC)
        assert first.assignment == []
    assert [len(mine) for _, _, mine in changes] == [4, 2, 4]
    assert cluster.committed(GROUP, TOPIC) == dict.fromkeys(range(4), 20)


async def test_broadcasting_keeps_its_offsets_in_a_file(
    cluster: WatchedCluster, tmp_path: Path, autojump_clock: Any
) -> None:
    fill(cluster, {0: 5, 1: 5})
    options: dict[str, Any] = {
        "message_model": MessageModel.BROADCASTING,
        "offsets_folder": tmp_path,
        **FIRST,
    }
    async with lite(cluster, **options) as consumer:
        await consumer.subscribe(TOPIC)
        assert len(await drain(consumer)) == 10
        assert cluster.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == 0
    fill(cluster, {0: 1}, start=5)
    async with lite(cluster, **options) as consumer:
        await consumer.subscribe(TOPIC)
        assert await drain(consumer) == [b"0-5"]
        assert await consumer.committed(cluster.queue(TOPIC, 1)) == 5
    assert cluster.commits == []


async def test_tags_and_conditions(cluster: WatchedCluster, autojump_clock: Any) -> None:
    queue = cluster.queue(TOPIC, 0)
    for tag in ("A", "B", "C"):
        cluster.put(queue, tag.encode(), {"TAGS": tag})
    async with lite(cluster, **FIRST) as consumer:
        await consumer.subscribe(TOPIC, "A || C")
        assert await drain(consumer) == [b"A", b"C"]
    async with lite(cluster, **FIRST) as consumer:
        await consumer.subscribe(TOPIC, MessageSelector.by_sql("a > 1"))
        await consumer.poll()
    assert cluster.count(RequestCode.CHECK_CLIENT_CONFIG) == 1
    last = cluster.fields(LITE)[-1]
    assert (last["expressionType"], last["subscription"]) == ("SQL92", "a > 1")


async def test_queues_that_come_later(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with lite(cluster) as consumer:
        changed = await consumer.watch_queues(TOPIC)
        await trio.sleep(100)
        cluster.create_topic(TOPIC, 6)
        with trio.fail_after(31):
            queues = await changed.receive()
        assert [queue.queue_id for queue in queues] == list(range(6))
        await changed.aclose()


@pytest.mark.parametrize("is_left", [False, True])
async def test_a_watch_of_queues_ends(cluster: WatchedCluster, is_left: bool, autojump_clock: Any) -> None:
    """It ends with its receiver, and with the consumer, whose instance goes on."""
    async with ClientInstance(NAMESRV, open_stream=cluster.open_stream) as instance:
        async with LitePullConsumer(GROUP, instance=instance) as consumer:
            changed = await consumer.watch_queues(TOPIC)
            if not is_left:
                await changed.aclose()
                await trio.sleep(31)
                assert f"queues of {TOPIC}" not in {task.name for task in tasks()}
        if is_left:
            with trio.fail_after(1), pytest.raises(trio.EndOfChannel):
                await changed.receive()


async def test_a_consumer_left_at_any_moment_pulls_no_more(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    """Also when the reply that gives it queues has come while it is left."""
    async with ClientInstance(NAMESRV, open_stream=cluster.open_stream) as instance:
        for steps in range(80):
            async with LitePullConsumer(GROUP, instance=instance) as consumer:
                await consumer.subscribe(TOPIC)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            assert not [task.name for task in tasks() if task.name.startswith("pulls of ")], steps


def test_options_out_of_range() -> None:
    outside: list[dict[str, Any]] = [{"pull_batch_size": 0}, {"commit_interval": 0.5}, {"suspend": 30.0}]
    for options in outside:
        with pytest.raises(InvalidRequest):
            LiteSettings(**options)


async def test_queues_take_turns(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 100, 1: 20})
    async with lite(cluster, **FIRST) as consumer:
        await consumer.assign([cluster.queue(TOPIC, 0), cluster.queue(TOPIC, 1)])
        await trio.sleep(1)
        batches: list[list[MessageExt]] = [await consumer.poll() for _ in range(4)]
    assert [batch[0].queue_id for batch in batches] == [0, 1, 0, 1]
    assert isinstance(batches[0][0].queue, MessageQueue)


async def test_names_that_an_administrator_sees(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, {0: 30})
    queue = cluster.queue(TOPIC, 0)
    info, status = RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    replies: list[RemotingCommand] = []
    async with lite(cluster, **FIRST) as consumer:
        await consumer.subscribe(TOPIC, "A || B")
        await consumer.unsubscribe(TOPIC)
        await consumer.subscribe(TOPIC)
        await trio.sleep(1)
        await consumer.poll()
        for group in (GROUP, "other"):
            fields = {"consumerGroup": group, "clientId": consumer.instance.client_id}
            replies += await cluster.request(GROUP, RemotingCommand(info, fields))
            replies += await cluster.request(GROUP, RemotingCommand(status, {"group": group, "topic": TOPIC}))
        answers = [reply for reply in replies if not reply.code]
        others = [reply.remark for reply in replies if reply.code]
        assert others == ["The Consumer Group <other> not exist in this consumer"] * 2
    found = decode_body(ConsumerRunningInfo, answers[0].body)
    assert found.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert [one.sub_string for one in found.subscription_set] == ["*"]
    held = found.mq_table[queue]
    assert (held.commit_offset, held.cached_msg_count) == (10, 20)
    assert (held.cached_msg_min_offset, held.cached_msg_max_offset) == (10, 29)
    assert decode_body(GetConsumerStatusBody, answers[1].body).message_queue_table[queue] == 10
    assert not consumer.instance.requests.codes


async def test_damaged_offsets_are_reported_at_the_start(
    cluster: WatchedCluster, tmp_path: Path, autojump_clock: Any
) -> None:
    options: dict[str, Any] = {"message_model": MessageModel.BROADCASTING, "offsets_folder": tmp_path}
    async with lite(cluster, **options) as consumer:
        await consumer.subscribe(TOPIC)
        client_id = consumer.instance.client_id
    file = tmp_path / client_id / GROUP / "offsets.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    for name in ("offsets.json", "offsets.json.bak"):
        file.with_name(name).write_bytes(b"nonsense")
    with pytest.raises(OffsetFileDamaged):
        async with lite(cluster, **options):
            raise AssertionError("it was entered")


async def test_broadcast_offsets_committed_by_hand(
    cluster: WatchedCluster, tmp_path: Path, autojump_clock: Any
) -> None:
    fill(cluster, {0: 8})
    queue = cluster.queue(TOPIC, 0)
    options: dict[str, Any] = {
        "message_model": MessageModel.BROADCASTING,
        "offsets_folder": tmp_path,
        "auto_commit": False,
        **FIRST,
    }
    async with lite(cluster, **options) as consumer:
        await consumer.assign([queue])
        await consumer.poll()
        await consumer.commit({queue: 3})
    async with lite(cluster, **options) as consumer:
        await consumer.assign([queue])
        assert (await consumer.poll())[0].queue_offset == 3


async def test_polls_are_traced(cluster: WatchedCluster, autojump_clock: Any) -> None:
    sent: list[RemotingCommand] = []

    def take(command: RemotingCommand) -> RemotingCommand:
        sent.append(command)
        return command.reply(0, None, {"msgId": "X", "queueId": "0", "queueOffset": "0"})

    cluster.trouble[RequestCode.SEND_MESSAGE_V2] = take
    cluster.create_topic("traces", 1)
    fill(cluster, {0: 2})
    async with lite(cluster, trace="traces", **FIRST) as consumer:
        await consumer.assign([cluster.queue(TOPIC, 0)])
        ids = [message.msg_id for message in await consumer.poll()]
    (message,) = sent
    records = decode_trace(bytes(message.body).decode())
    assert [type(record) for record in records] == [ConsumeStart, ConsumeStart, ConsumeEnd, ConsumeEnd]
    assert [record.msg_id for record in records] == ids * 2
