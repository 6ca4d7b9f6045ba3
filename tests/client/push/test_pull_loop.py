"""Flow control, delays, illegal offsets, suggested brokers, tags and versions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import trio

from rmqcli.broker.testing.in_memory import HOST
from rmqcli.client import (
    BrokerRefused,
    ConsumeContext,
    ConsumeResult,
    InvalidRequest,
    MessageSelector,
    OrderlyResult,
    PushSettings,
)
from rmqcli.client.group.settings import MIB
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere, HeartbeatData
from rmqcli.codec.codes import PullSysFlag, RequestCode, ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.push.consuming import DONE, GROUP, TOPIC, Taken, consumer
from tests.client.watched_cluster import EPOCH, WatchedCluster, now_ms, open_cluster
from tests.codec.samples import make_record

PULL = RequestCode.PULL_MESSAGE


def pulls(cluster: WatchedCluster, queue_id: int = 0) -> list[tuple[float, dict[str, str]]]:
    return [
        (at, command.ext_fields or {})
        for at, command in cluster.asked
        if command.code == PULL
        and (command.ext_fields or {})["topic"] == TOPIC
        and (command.ext_fields or {})["queueId"] == str(queue_id)
    ]


class Gate:
    """A listener that blocks until it is opened."""

    def __init__(self) -> None:
        self.open = trio.Event()
        self.begun = 0

    async def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        self.begun += 1
        await self.open.wait()
        return DONE


@pytest.mark.parametrize(
    ("body", "count", "settings", "pulled"),
    [
        (b"x", 300, {"queue_messages": 64}, 96),
        (b"x" * MIB, 20, {"queue_bytes": 4 * MIB, "pull_batch_size": 2}, 6),
        (b"x", 300, {"max_span": 100}, 128),
        (b"x", 300, {"topic_messages": 256}, 96),
        (b"x" * MIB, 20, {"topic_bytes": 16 * MIB, "pull_batch_size": 2}, 6),
    ],
)
async def test_enough_is_enough(
    cluster: WatchedCluster, autojump_clock: Any, body: bytes, count: int, settings: Any, pulled: int
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [body] * count)
    gate = Gate()
    async with consumer(cluster, gate, **settings) as running:
        await trio.sleep(10)
        held = running._state.queues[cluster.queue(TOPIC)]
        assert held.count == pulled
        asked = len(pulls(cluster))
        await trio.sleep(5)
        assert len(pulls(cluster)) == asked
        gate.open.set()
        await trio.sleep(0.5 if count < 100 else 2)
        assert gate.begun == count


async def test_pulls_have_the_version_that_brokers_know(cluster: WatchedCluster, autojump_clock: Any) -> None:
    """A heartbeat with a newer version is in flight; a broker refuses a version that it has not received."""
    async with consumer(cluster, Taken()) as member:
        await trio.sleep(1)
        wanted = member._state.subscriptions[TOPIC]
        told = wanted.announced
        wanted.renew(told + 5000)
        cluster.put(cluster.queue(TOPIC), b"x")
        await trio.sleep(1)
        assert pulls(cluster)[-1][1]["subVersion"] == str(told)
        await member._state.announce()
        cluster.put(cluster.queue(TOPIC), b"y")
        await trio.sleep(1)
        assert pulls(cluster)[-1][1]["subVersion"] == str(told + 5000)


async def test_excluded_messages_do_not_count_for_the_span(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    """Java `ProcessQueue.getMaxSpan`: up to the last cached message, not the last offset pulled."""
    queue = cluster.queue(TOPIC)
    for number, tag in enumerate(["Aa", *["BB"] * 300, "Aa"]):
        cluster.put(queue, b"%d" % number, {"TAGS": tag})
    gate = Gate()
    async with consumer(cluster, gate, topics={TOPIC: "Aa"}, max_span=100, pull_batch_size=250):
        await trio.sleep(5)
        assert gate.begun == 2
        gate.open.set()
        await trio.sleep(1)
    assert cluster.committed(GROUP, TOPIC)[0] == 302


async def test_long_polls_of_15_seconds_follow_each_other(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async with consumer(cluster, Taken()):
        await trio.sleep(100)
    times = [at for at, _ in pulls(cluster)]
    assert [round(later - earlier) for earlier, later in pairwise(times)] == [15] * 6
    fields = pulls(cluster)[0][1]
    assert (fields["suspendTimeoutMillis"], fields["maxMsgNums"], fields["sysFlag"]) == ("15000", "32", "2")


@pytest.mark.parametrize("orderly", [False, True])
async def test_without_a_backlog_the_listener_comes_before_the_next_pull(
    cluster: WatchedCluster, autojump_clock: Any, orderly: bool
) -> None:
    asked: list[int] = []

    async def listener(messages: list[MessageExt], context: Any) -> Any:
        asked.append(len(pulls(cluster)))
        return OrderlyResult.SUCCESS if orderly else DONE

    async with consumer(cluster, listener, orderly=orderly):
        await trio.sleep(1)
        for number in range(20):
            cluster.put(cluster.queue(TOPIC), b"%d" % number)
            await trio.sleep(0.1)
    assert asked == list(range(1, 21))


async def test_with_a_backlog_the_next_pull_does_not_wait_for_the_listener(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"x"] * 64)
    gate = Gate()
    async with consumer(cluster, gate):
        await trio.sleep(1)
        assert len(pulls(cluster)) == 3
        gate.open.set()


def with_offsets(*offsets: int) -> Callable[[RemotingCommand], RemotingCommand | None]:
    """Replies to pulls from offset 0 with records that say these queue offsets."""

    def answer(command: RemotingCommand) -> RemotingCommand | None:
        fields = command.ext_fields or {}
        if (fields["topic"], fields["queueId"], fields["queueOffset"]) != (TOPIC, "0", "0"):
            return None
        body = b"".join(
            make_record(topic=TOPIC.encode(), queue_id=0, queue_offset=offset, body=b"%d" % number)
            for number, offset in enumerate(offsets)
        )
        ends = {"nextBeginOffset": len(offsets), "minOffset": 0, "maxOffset": 5}
        ext = {name: str(value) for name, value in ends.items()} | {"suggestWhichBrokerId": "0"}
        return command.reply(0, "FOUND", ext, body)

    return answer


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("offsets", [(0, 1 << 40, 2), (0, 0, 0), (2, 1, 0), (7, 8, 9)])
async def test_what_a_record_says_of_its_offset_acknowledges_nothing_else(
    cluster: WatchedCluster, autojump_clock: Any, offsets: tuple[int, ...], orderly: bool
) -> None:
    """A damaged queue offset of 2^40 was committed, and all messages until then were lost to the group."""
    cluster.put_many(cluster.queue(TOPIC), [b"%d" % number for number in range(5)])
    cluster.trouble[PULL] = with_offsets(*offsets)
    taken: list[bytes] = []

    async def listener(messages: list[MessageExt], context: Any) -> Any:
        taken.extend(message.body for message in messages)
        return OrderlyResult.SUCCESS if orderly else DONE

    async with consumer(cluster, listener, orderly=orderly):
        await trio.sleep(30)
    assert sorted(taken) == [b"0", b"1", b"2", b"3", b"4"]
    assert cluster.committed(GROUP, TOPIC)[0] == 5


def first_answers(*codes: int) -> Callable[[RemotingCommand], RemotingCommand | None]:
    """Refuses the first pulls of queue 0."""
    left = list(codes)

    def answer(command: RemotingCommand) -> RemotingCommand | None:
        fields = command.ext_fields or {}
        if fields["queueId"] != "0" or fields["topic"] != TOPIC or not left:
            return None
        return command.reply(left.pop(0), "no")

    return answer


async def test_delays_after_refusals(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.trouble[PULL] = first_answers(ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_ERROR, 25)
    async with consumer(cluster, Taken()):
        await trio.sleep(5)
    times = [at for at, _ in pulls(cluster)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == pytest.approx([0.02, 1.0, 1.0])


async def test_a_queue_whose_offset_is_gone_goes_on_after_10_seconds(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    queue = cluster.queue(TOPIC)
    cluster.put_many(queue, [b"%d" % number for number in range(6)])
    await cluster.expire()
    cluster.put_many(queue, [b"%d" % number for number in range(6, 10)])
    cluster.commit(GROUP, queue, 2)
    taken = Taken()
    async with consumer(cluster, taken):
        await trio.sleep(9)
        assert not taken.messages
        await trio.sleep(3)
        assert taken.bodies == [b"6", b"7", b"8", b"9"]
    assert cluster.committed(GROUP, TOPIC)[0] == 10


@pytest.mark.parametrize(
    ("where", "begins"),
    [
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, 0),
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, 11),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, 6),
    ],
)
async def test_where_a_new_group_begins(
    cluster: WatchedCluster, autojump_clock: Any, where: ConsumeFromWhere, begins: int
) -> None:
    queue = cluster.queue(TOPIC)
    cluster.put(queue, b"0")
    if begins:  # a broker lets a new group begin at 0 as long as message 0 is there
        await cluster.expire()
    for number in range(1, 11):
        await trio.sleep(0.001)
        cluster.put(queue, b"%d" % number)
    taken = Taken()
    async with consumer(cluster, taken, consume_from=where, from_timestamp=now_ms() - 4):
        await trio.sleep(1)
        cluster.put(queue, b"11")
        await trio.sleep(1)
    assert [int(body) for body in taken.bodies] == list(range(begins, 12))


async def test_half_an_hour_ago_is_that_of_the_start_for_queues_that_come_later_too(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    where = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
    cluster.trouble[RequestCode.QUERY_CONSUMER_OFFSET] = lambda command: command.reply(
        ResponseCode.QUERY_NOT_FOUND, "Not found"
    )
    async with consumer(cluster, Taken(), consume_from=where):
        await trio.sleep(7200)
        cluster.create_topic(TOPIC, 5)
        await trio.sleep(60)
    asked = cluster.fields(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    assert {fields["queueId"] for fields in asked} == {"0", "1", "2", "3", "4"}
    assert {int(fields["timestamp"]) for fields in asked} == {EPOCH - 1_800_000}


async def test_an_offset_that_no_broker_returns_is_not_guessed(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"x"] * 3)
    cluster.trouble[RequestCode.QUERY_CONSUMER_OFFSET] = lambda command: command.reply(1, "not now")
    taken = Taken()
    async with consumer(cluster, taken) as running:
        await trio.sleep(10)
        assert not running.queues
        del cluster.trouble[RequestCode.QUERY_CONSUMER_OFFSET]
        await trio.sleep(15)
        assert len(taken.messages) == 3


async def test_tags_are_compared_again_here(cluster: WatchedCluster, autojump_clock: Any) -> None:
    for tag in ("Aa", "BB", "C", None):  # the first two have the same hash code
        cluster.put(cluster.queue(TOPIC), b"%r" % tag, {"TAGS": tag} if tag else None)
    taken = Taken()
    async with consumer(cluster, taken, topics={TOPIC: "Aa || C"}) as member:
        await trio.sleep(6)
        assert cluster.committed(GROUP, TOPIC)[0] == 4
    assert [m.tags for _, m in taken.messages] == ["Aa", "C"]
    counts = member._state.statistics[TOPIC]
    assert (counts.pull_time.times, counts.pulled.times, counts.pulled.value) == (1, 1, 2)


async def test_a_pull_of_nothing_that_is_wanted_took_its_time(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x", {"TAGS": "BB"})
    async with consumer(cluster, Taken(), topics={TOPIC: "Aa"}) as member:
        await trio.sleep(6)
    counts = member._state.statistics[TOPIC]
    assert (counts.pull_time.times, counts.pulled.times) == (1, 0), (
        "as Java counts pulls that found something"
    )


async def test_the_offset_passes_excluded_messages(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"x"] * 40, {"TAGS": "other"})
    async with consumer(cluster, Taken(), topics={TOPIC: "A"}):
        await trio.sleep(6)
    assert cluster.committed(GROUP, TOPIC)[0] == 40


async def test_pulls_carry_the_offset_and_a_version_that_brokers_know(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    async with consumer(cluster, Taken()):
        await trio.sleep(20)
        last = pulls(cluster)[-1][1]
        assert int(last["sysFlag"]) == PullSysFlag.SUSPEND | PullSysFlag.COMMIT_OFFSET
        assert last["commitOffset"] == "1"
        said = [
            decode_body(HeartbeatData, c.body) for _, c in cluster.asked if c.code == RequestCode.HEART_BEAT
        ]
    versions = {
        wanted.sub_version
        for data in said
        for group in data.consumer_data_set
        for wanted in group.subscription_data_set
        if wanted.topic == TOPIC
    }
    assert {int(fields["subVersion"]) for _, fields in pulls(cluster)} <= versions
    assert len(versions) == 2


async def test_the_suggested_broker_is_asked_and_gets_no_offset(autojump_clock: Any) -> None:
    """The broker always suggests 1, the slave; this is the same broker under another name."""
    async with open_cluster({TOPIC: 1}, slave_read_enable=True) as cluster:
        opened, master = cluster.open_stream, cluster.nodes["a"].address
        slave = master.replace(HOST, "slave")

        async def open_stream(host: str, port: int) -> Any:
            return await opened(HOST if host == "slave" else host, port)

        cluster.open_stream = open_stream
        cluster.nodes["a"].context.groups.put(SubscriptionGroupConfig(group_name=GROUP, broker_id=1))
        taken = Taken()
        made = consumer(cluster, taken)
        async with made:
            await trio.sleep(1)
            made.instance.routes.brokers["a"] = {0: master, 1: slave}
            cluster.put(cluster.queue(TOPIC), b"x")
            await trio.sleep(20)
            links = [made.instance.pool.link(address) for address in (master, slave)]
            # the long polls of the topic and of the retry topic
            assert [link and link.in_flight for link in links] == [0, 2]
        assert taken.bodies == [b"x"]
        assert pulls(cluster)[-1][1]["sysFlag"] == "2"


async def test_a_queue_without_pulls_for_two_minutes_is_rebuilt(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async with consumer(cluster, Taken()) as running:
        await trio.sleep(5)
        queue = cluster.queue(TOPIC)
        stuck = running._state.queues[queue]
        stuck.scope.cancel()
        await trio.sleep(100)
        assert running._state.queues[queue] is stuck
        await trio.sleep(45)
        assert running._state.queues[queue] is not stuck
        assert stuck.dropped


async def test_pause_and_resume(cluster: WatchedCluster, autojump_clock: Any) -> None:
    taken = Taken()
    async with consumer(cluster, taken) as running:
        await trio.sleep(1)
        running.pause()
        await trio.sleep(20)
        cluster.put(cluster.queue(TOPIC), b"x")
        await trio.sleep(20)
        assert not taken.messages
        running.resume()
        await trio.sleep(2)
        assert taken.bodies == [b"x"]


async def test_sql_is_checked_by_a_broker_and_travels_in_heartbeats(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async with consumer(cluster, Taken(), topics={TOPIC: MessageSelector.by_sql("a > 5")}):
        await trio.sleep(1)
    assert cluster.count(RequestCode.CHECK_CLIENT_CONFIG) == 1
    assert pulls(cluster)[0][1]["expressionType"] == "SQL92"
    cluster.trouble[RequestCode.CHECK_CLIENT_CONFIG] = lambda command: command.reply(23, "parse error")
    with pytest.raises(BrokerRefused, match="parse error"):
        async with consumer(cluster, Taken(), topics={TOPIC: MessageSelector.by_sql("a >")}):
            pytest.fail("entered")


@pytest.mark.parametrize(
    "wrong",
    [
        {"consumers": 0},
        {"batch_size": 1025},
        {"queue_messages": 0},
        {"long_poll": 40.0},
        {"topic_messages": 0},
    ],
)
def test_options_out_of_range(wrong: Any) -> None:
    with pytest.raises(InvalidRequest):
        PushSettings(**wrong)


async def test_a_broker_that_restarted_gets_a_heartbeat_at_once(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    def forgotten(command: RemotingCommand) -> RemotingCommand | None:
        if cluster.members(GROUP):
            return None
        return command.reply(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")

    taken = Taken()
    async with consumer(cluster, taken):
        await trio.sleep(5)
        cluster.trouble[PULL] = forgotten
        cluster.cut()
        cluster.put(cluster.queue(TOPIC), b"after")
        await trio.sleep(5)
        assert taken.bodies == [b"after"]
        assert cluster.count(RequestCode.HEART_BEAT) < 10


def answers(code: int, next_begin_offset: int) -> Callable[[RemotingCommand], RemotingCommand | None]:
    """A broker that says this to every pull of the topic."""
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_begin_offset),
        "minOffset": "0",
        "maxOffset": "9",
    }

    def answer(command: RemotingCommand) -> RemotingCommand | None:
        asked = command.ext_fields or {}
        return command.reply(code, None, fields) if asked["topic"] == TOPIC else None

    return answer


async def test_a_broker_that_has_nothing_and_does_not_wait_is_asked_ever_less(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    cluster.trouble[PULL] = answers(ResponseCode.PULL_NOT_FOUND, 0)
    async with consumer(cluster, taken := Taken()):
        await trio.sleep(3)
        asked = len(pulls(cluster))
        await trio.sleep(30)
        assert 25 <= len(pulls(cluster)) - asked <= 35
        del cluster.trouble[PULL]
        await trio.sleep(1.5)
        cluster.put(cluster.queue(TOPIC), b"y")
        await trio.sleep(0.1)
        assert taken.bodies == [b"x", b"y"]


@pytest.mark.parametrize(
    ("code", "following"),
    [
        (ResponseCode.SUCCESS, 0),
        (ResponseCode.SUCCESS, -5),
        (ResponseCode.PULL_NOT_FOUND, -5),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, -1),
        (ResponseCode.PULL_OFFSET_MOVED, -5),
    ],
)
async def test_an_impossible_next_offset_is_a_failed_pull(
    cluster: WatchedCluster, autojump_clock: Any, code: int, following: int
) -> None:
    queue = cluster.queue(TOPIC)
    cluster.put(queue, b"x")
    cluster.trouble[PULL] = answers(code, following)
    async with consumer(cluster, taken := Taken()) as running:
        await trio.sleep(10)
        assert "of the next pull" in str(running.troubles(TOPIC)[str(queue)])
        asked = len(pulls(cluster))
        await trio.sleep(10)
        assert 9 <= len(pulls(cluster)) - asked <= 11
        assert running._state.queues[queue].next_offset == 0
        del cluster.trouble[PULL]
        await trio.sleep(2)
        assert taken.bodies == [b"x"]


async def test_a_reset_that_a_broker_holds_is_followed(
    cluster: WatchedCluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """5.3.3 answers the first pull after a reset with the new offset, although the old one is in the queue."""
    queue = cluster.queue(TOPIC)
    for body in (b"x", b"y"):
        cluster.put(queue, body)
    async with consumer(cluster, taken := Taken()):
        await trio.sleep(2)
        assert taken.bodies == [b"x", b"y"]
        cluster.trouble[PULL] = answers(ResponseCode.PULL_OFFSET_MOVED, 1)
        await trio.sleep(20)
        del cluster.trouble[PULL]
        await trio.sleep(15)
        assert taken.bodies == [b"x", b"y", b"y"]
    assert f"offset 2 of {queue} is overridden by a reset; continuing at 1" in caplog.text


@pytest.mark.parametrize(
    ("step", "code", "most"),
    [
        (0, ResponseCode.PULL_NOT_FOUND, 25),
        (1, ResponseCode.PULL_RETRY_IMMEDIATELY, 1200),
        (-1, ResponseCode.PULL_RETRY_IMMEDIATELY, 25),
        (-1, ResponseCode.PULL_NOT_FOUND, 25),
    ],
)
async def test_a_broker_that_never_has_anything_is_not_asked_thousands_of_times_a_second(
    cluster: WatchedCluster, autojump_clock: Any, step: int, code: int, most: int
) -> None:
    def answer(command: RemotingCommand) -> RemotingCommand | None:
        fields = command.ext_fields or {}
        if (fields["topic"], fields["queueId"]) != (TOPIC, "0") or len(pulls(cluster)) > 5000:
            return None
        offset = int(fields["queueOffset"])
        following = offset + step if step >= 0 else 1 - offset % 2
        ends = {"nextBeginOffset": following, "minOffset": 0, "maxOffset": 5}
        ext = {name: str(value) for name, value in ends.items()} | {"suggestWhichBrokerId": "0"}
        return command.reply(code, "nothing", ext)

    cluster.trouble[PULL] = answer
    async with consumer(cluster, Taken()):
        await trio.sleep(10)
    assert 5 <= len(pulls(cluster)) <= most
