"""Requests of brokers to a running consumer."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rmqcli.client import ConsumeResult, OrderlyResult
from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rmqcli.codec.bodies.running import CMResult, ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.compression import compress
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.push.consuming import GROUP, LATER, TOPIC, Taken, consumer
from tests.client.watched_cluster import EPOCH, WatchedCluster
from tests.codec.samples import make_record
from tests.support import PATIENCE


async def ask(cluster: WatchedCluster, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
    """The consumer's reply."""
    replies = await cluster.request(GROUP, RemotingCommand(code, ext, body))
    await trio.sleep(0.5)
    return replies[-1]


async def test_offsets_are_reset_while_messages_are_consumed(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    queue = cluster.queue(TOPIC)
    cluster.put_many(queue, [b"%d" % number for number in range(10)])
    taken = Taken()
    async with consumer(cluster, taken):
        await trio.sleep(10)
        assert cluster.committed(GROUP, TOPIC)[0] == 10
        body = encode_body(ResetOffsetBody(offset_table={queue: 4}))
        ext = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
        cluster.push(GROUP, RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body, flag=2))
        await trio.sleep(11)
        assert [int(body) for body in taken.bodies[10:]] == [4, 5, 6, 7, 8, 9]
        assert (GROUP, queue, 4) in cluster.commits
        await trio.sleep(10)
    assert cluster.committed(GROUP, TOPIC)[0] == 10


@pytest.mark.parametrize("paused", [False, True])
async def test_resets_of_single_queues_overlap(
    cluster: WatchedCluster, paused: bool, autojump_clock: Any
) -> None:
    """A broker that resets queue by queue sends a request for each.

    The consumer resumes after the last one.
    """
    queues = [cluster.queue(TOPIC, number) for number in range(3)]
    for queue in queues:
        cluster.put_many(queue, [b"x"] * 10)
    taken = Taken()
    async with consumer(cluster, taken) as member:
        await trio.sleep(10)
        assert len(taken.bodies) == 30
        if paused:
            member.pause()
        for queue in queues:
            body = encode_body(ResetOffsetBody(offset_table={queue: 6}))
            ext = {"topic": TOPIC, "group": GROUP, "timestamp": "-1", "isForce": "true"}
            cluster.push(GROUP, RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body, flag=2))
        await trio.sleep(60)
        assert len(taken.bodies) == (30 if paused else 42)
        member.resume()
        await trio.sleep(60)
        assert len(taken.bodies) == 42


async def test_a_reset_waits_ten_seconds_for_running_listeners(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    moved: dict[float, dict[int, int]] = {}

    async def slowly(messages: Any, context: Any) -> ConsumeResult:
        await trio.sleep(30 if messages[0].body == b"stuck" else 5)
        return ConsumeResult.SUCCESS

    queues = {cluster.queue(TOPIC, 0): 0, cluster.queue(TOPIC, 1): 0}
    cluster.put(cluster.queue(TOPIC, 0), b"x")
    cluster.put(cluster.queue(TOPIC, 1), b"stuck")
    async with consumer(cluster, slowly, persist_interval=1000.0):
        await trio.sleep(1)
        for queue in queues:
            body = encode_body(ResetOffsetBody(offset_table={queue: 1}))
            ext = {"topic": TOPIC, "group": GROUP, "timestamp": "-1", "isForce": "true"}
            cluster.push(GROUP, RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body, flag=2))
        for moment in (4, 7, 10, 13):
            await trio.sleep_until(moment)
            moved[moment] = dict(cluster.committed(GROUP, TOPIC))
    assert [moved[moment].get(0) for moment in (4, 7)] == [None, 1]
    assert [moved[moment].get(1) for moment in (10, 13)] == [None, 1]


async def test_consumer_status_is_its_offsets(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.put(cluster.queue(TOPIC, 2), b"x")
    async with consumer(cluster, Taken()):
        await trio.sleep(1)
        ext = {"topic": TOPIC, "group": GROUP}
        reply = await ask(cluster, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext)
    table = decode_body(GetConsumerStatusBody, reply.body).message_queue_table
    assert table[cluster.queue(TOPIC, 2)] == 1


async def test_running_info(cluster: WatchedCluster, autojump_clock: Any) -> None:
    taken = Taken(LATER)
    async with consumer(cluster, taken):
        await trio.sleep(15)
        cluster.put_many(cluster.queue(TOPIC, 1), [b"x"] * 60)
        await trio.sleep(10)
        ext = {"consumerGroup": GROUP, "clientId": "c1", "jstackEnable": "true"}
        reply = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
    info = decode_body(ConsumerRunningInfo, reply.body)
    assert info.properties["PROP_CONSUMER_START_TIMESTAMP"] == str(EPOCH)
    assert info.properties["PROP_CONSUMEORDERLY"] == "false"
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info.properties["PROP_CLIENT_VERSION"] == "V4_9_8"
    assert info.properties["consumeMessageBatchMaxSize"] == "1"
    assert sorted(wanted.topic for wanted in info.subscription_set) == [f"%RETRY%{GROUP}", TOPIC]
    assert info.mq_table[cluster.queue(TOPIC, 1)].commit_offset == 60
    assert info.mq_table[cluster.queue(TOPIC, 0)].commit_offset == 0
    assert info.properties["pullThresholdSizeForTopic"] == "-1"
    assert info.status_table[TOPIC].consume_ok_tps == pytest.approx(59 / 10)
    assert info.status_table[TOPIC].consume_failed_tps == pytest.approx(1 / 10)
    assert info.status_table[TOPIC].pull_tps == pytest.approx(60 / 10)
    held = info.mq_table[cluster.queue(TOPIC, 1)]
    assert (held.last_consume_timestamp, held.last_pull_timestamp) == (EPOCH + 15_000, EPOCH + 15_000)
    assert "thread" in (info.jstack or "")


async def test_running_info_shows_cached_messages(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"x"] * 3)

    async def forever(messages: Any, context: Any) -> OrderlyResult:
        await trio.sleep_forever()

    async with consumer(cluster, forever, orderly=True):
        await trio.sleep(5)
        ext = {"consumerGroup": GROUP, "clientId": "c1"}
        reply = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
    held = decode_body(ConsumerRunningInfo, reply.body).mq_table[cluster.queue(TOPIC)]
    assert (held.cached_msg_min_offset, held.cached_msg_max_offset, held.cached_msg_count) == (1, 2, 2)
    assert (held.transaction_msg_min_offset, held.transaction_msg_count) == (0, 1)
    assert held.locked
    assert (held.last_consume_timestamp, held.last_pull_timestamp) == (EPOCH, EPOCH)


async def test_running_info_counts_how_often_a_queue_could_not_be_given_up(
    cluster: WatchedCluster, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """An orderly listener is busy with a queue that another member gets: the lock stays (Java
    `incTryUnlockTimes`).
    """
    for number in range(4):
        cluster.put(cluster.queue(TOPIC, number), b"x")

    async def forever(messages: Any, context: Any) -> OrderlyResult:
        await trio.sleep_forever()

    async with consumer(cluster, forever, orderly=True):
        await trio.sleep(5)
        async with consumer(cluster, forever, "c2", orderly=True):
            await trio.sleep(45)
            ext = {"consumerGroup": GROUP, "clientId": "c1"}
            command = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
            replies = await cluster.request(GROUP, command)
    infos = [decode_body(ConsumerRunningInfo, reply.body) for reply in replies]
    begun = "PROP_CONSUMER_START_TIMESTAMP"
    table = next(info.mq_table for info in infos if info.properties[begun] == str(EPOCH))
    tries = [table[cluster.queue(TOPIC, number)].try_unlock_times for number in range(4)]
    assert [tries[0], tries[1]] == [0, 0]
    assert tries[2] == tries[3] >= 2
    assert table[cluster.queue(TOPIC, 3)].droped


async def test_a_queue_that_was_not_consumed_yet_is_not_taken_for_blocked(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    """mqadmin (`analyzeProcessQueue`) reports waiting messages when the last consumption is a minute ago."""

    async def forever(messages: Any, context: Any) -> ConsumeResult:
        await trio.sleep_forever()

    async with consumer(cluster, forever):
        await trio.sleep(5)
        cluster.put_many(cluster.queue(TOPIC), [b"x"] * 3)
        await trio.sleep(5)
        ext = {"consumerGroup": GROUP, "clientId": "c1"}
        reply = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
    held = decode_body(ConsumerRunningInfo, reply.body).mq_table[cluster.queue(TOPIC)]
    assert (held.cached_msg_count, held.last_consume_timestamp) == (3, EPOCH)


async def test_a_queue_without_an_offset_is_reported(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.trouble[RequestCode.PULL_MESSAGE] = lambda command: command.reply(1, "not now")
    cluster.trouble[RequestCode.QUERY_CONSUMER_OFFSET] = lambda command: command.reply(22, "Not found")
    async with consumer(cluster, Taken()):
        await trio.sleep(1)
        ext = {"consumerGroup": GROUP, "clientId": "c1"}
        reply = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
    table = decode_body(ConsumerRunningInfo, reply.body).mq_table
    assert table[cluster.queue(TOPIC)].commit_offset == -1


@pytest.mark.parametrize(
    ("answer", "orderly", "result"),
    [
        (ConsumeResult.SUCCESS, False, CMResult.CR_SUCCESS),
        (ConsumeResult.RECONSUME_LATER, False, CMResult.CR_LATER),
        (None, False, CMResult.CR_RETURN_NULL),
        (ValueError("no"), False, CMResult.CR_THROW_EXCEPTION),
        (OrderlyResult.SUSPEND, True, CMResult.CR_LATER),
        (OrderlyResult.COMMIT, True, CMResult.CR_COMMIT),
        (OrderlyResult.ROLLBACK, True, CMResult.CR_ROLLBACK),
    ],
)
async def test_one_message_on_request(
    cluster: WatchedCluster, autojump_clock: Any, answer: Any, orderly: bool, result: CMResult
) -> None:
    other = cluster.queue("Other")
    cluster.put(other, b"direct")
    taken = Taken(answer)

    def by_hand(context: Any) -> None:
        if orderly:
            context.auto_commit = False

    taken.context = by_hand
    async with consumer(cluster, taken, orderly=orderly):
        await trio.sleep(1)
        ext = {"consumerGroup": GROUP, "clientId": "c1", "msgId": "x", "brokerName": "a"}
        record = cluster.records(other)[0]
        reply = await ask(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, record)
    assert taken.bodies == [b"direct"]
    answered = decode_body(ConsumeMessageDirectlyResult, reply.body)
    assert (answered.consume_result, answered.order) == (result, orderly)
    assert answered.auto_commit is not orderly
    assert answered.remark == ("ValueError: no" if isinstance(answer, ValueError) else None)


@pytest.mark.parametrize("is_readable", [True, False])
async def test_a_compressed_message_on_request(cluster: WatchedCluster, is_readable: bool) -> None:
    """On the real clock: a virtual one does not wait for the worker thread that decompresses."""
    plain = b"long " * 1000
    packed, bits = compress(plain)
    record = make_record(topic=TOPIC.encode(), sys_flag=bits, body=packed if is_readable else b"no")
    async with consumer(cluster, taken := Taken()):
        with trio.fail_after(PATIENCE):
            while not cluster.nodes["a"].context.consumers.get(GROUP):
                await trio.lowlevel.checkpoint()
        ext = {"consumerGroup": GROUP, "clientId": "c1", "msgId": "x", "brokerName": "a"}
        request = RemotingCommand(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, record)
        (reply,) = await cluster.request(GROUP, request)
    assert taken.bodies == ([plain] if is_readable else [])
    assert reply.code == (ResponseCode.SUCCESS if is_readable else ResponseCode.SYSTEM_ERROR)


async def test_a_group_that_does_not_live_here(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with consumer(cluster, Taken()):
        await trio.sleep(1)
        ext = {"consumerGroup": "Other", "clientId": "c1"}
        reply = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
        assert (reply.code, reply.remark) == (1, "The Consumer Group <Other> not exist in this consumer")
        cluster.push(
            GROUP,
            RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "Other"}, flag=2),
        )
        await trio.sleep(1)
