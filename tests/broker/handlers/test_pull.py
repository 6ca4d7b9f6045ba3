"""Pulling: checks, offset corrections, tag filters, and pulls that wait."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.handlers import pull as handlers
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.codes import ResponseCode, SerializeType
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame
from tests.broker.support import Client, done, fake_broker, pull_header, written

FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
WAIT = 2 | 4


async def fill(client: Client, topic: str = "T", count: int = 5, **fields: Any) -> None:
    for n in range(count):
        assert (await client.send(topic, f"m{n}".encode(), **fields)).code == 0


async def test_found_records_come_with_all_four_offsets(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        reply = await client.pull("T", 0, 1, count=2)
        assert (reply.code, reply.remark) == (0, "FOUND")
        assert dict(reply.ext) == {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": "3",
            "minOffset": "0",
            "maxOffset": "5",
        }
        assert [m.body for m in await client.pulled("T", 0, 1, count=2)] == [b"m1", b"m2"]


@pytest.mark.parametrize(
    ("settings", "suggested"),
    [
        ({}, "0"),
        ({"slave_read_enable": True}, "2"),
        ({"slave_read_enable": True, "access_message_in_memory_max_ratio": -1}, "3"),
    ],
)
async def test_a_group_is_sent_to_the_broker_of_its_settings(
    tmp_path: Path, settings: dict[str, Any], suggested: str
) -> None:
    """As in Java, only with slaveReadEnable; to another one when what it reads is not in memory."""
    async with fake_broker(tmp_path, **settings) as broker:
        client = broker.client()
        await fill(client)
        await client.ask(200, None, b'{"groupName":"G","brokerId":2,"whichBrokerWhenConsumeSlowly":3}')
        assert (await client.pull("T", 0, 1, group="G")).ext["suggestWhichBrokerId"] == suggested


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        (5, 19, "OFFSET_OVERFLOW_ONE", "5"),
        (9, 21, "OFFSET_OVERFLOW_BADLY", "5"),
        (-1, 21, "OFFSET_TOO_SMALL", "0"),
    ],
)
async def test_wrong_offsets_are_corrected(
    tmp_path: Path, offset: int, code: int, remark: str, next_offset: str
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        reply = await client.pull("T", 0, offset)
        assert (reply.code, reply.remark, reply.ext["nextBeginOffset"]) == (code, remark, next_offset)


async def test_an_empty_queue(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        reply = await client.pull("T", 1, 0)
        assert (reply.code, reply.remark) == (19, "NO_MESSAGE_IN_QUEUE")
        reply = await client.pull("T", 1, 7)
        assert (reply.code, reply.ext["nextBeginOffset"]) == (21, "0")


async def test_a_corrected_offset_leaves_an_event(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        await client.pull("T", 0, 9, group="G")
        (event,) = await client.pulled("OFFSET_MOVED_EVENT")
        assert event.tags == "G"
        assert b'"offsetRequest":9' in event.body
        assert b'"offsetNew":5' in event.body


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        ({"topic": "Nope"}, 17, f"topic[Nope] not exist, apply first please! {FAQ}"),
        (
            {"queueId": 50},
            1,
            "queueId[50] is illegal, topic:[T] topicConfig.readQueueNums:[4] consumer:[/{peer}]",
        ),
        (
            {"queueId": -1},
            1,
            "queueId[-1] is illegal, topic:[T] topicConfig.readQueueNums:[4] consumer:[/{peer}]",
        ),
        ({"expressionType": "SQL92"}, 1, "The broker does not support consumer to filter message by SQL92"),
        ({"subscription": "||"}, 23, "parse the consumer's subscription failed"),
        ({"sysFlag": 0}, 24, f"the consumer's group info not exist{FAQ}"),
        (
            {"sysFlag": 0, "consumerGroup": "OnlineElsewhere"},
            24,
            f"the consumer's subscription not exist{FAQ}",
        ),
        (
            {"sysFlag": 0, "consumerGroup": "Online", "subVersion": 2},
            25,
            "the consumer's subscription not latest",
        ),
        ({"sysFlag": 0, "consumerGroup": "Online", "subVersion": 1}, 0, "FOUND"),
        ({"consumerGroup": "Disabled"}, 16, "subscription group no permission, Disabled"),
        ({"topic": "WriteOnly"}, 16, "the topic[WriteOnly] pulling message is forbidden"),
    ],
)
async def test_checks_of_a_pull(tmp_path: Path, changes: dict[str, object], code: int, remark: str) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        await client.heartbeat("Online", "T")
        await client.heartbeat("OnlineElsewhere", "Other")
        await client.ask(200, None, b'{"groupName":"Disabled","consumeEnable":false}')
        await client.ask(17, {"topic": "WriteOnly", "readQueueNums": "1", "writeQueueNums": "1", "perm": "2"})
        header = pull_header("T") | {name: str(value) for name, value in changes.items()}
        reply = await client.ask(11, header)
        assert (reply.code, reply.remark) == (code, remark.format(peer=client.session.peer_text))
        assert bool(reply.ext) is (code == 0)


async def test_unknown_groups_are_refused_when_they_may_not_be_made(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, auto_create_subscription_group=False) as broker:
        client = broker.client()
        await fill(client)
        reply = await client.pull("T")
        assert (reply.code, reply.remark) == (26, f"subscription group [G] does not exist, {FAQ}")


async def test_a_broker_that_may_not_be_read(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, broker_permission=2) as broker:
        client = broker.client()
        reply = await client.pull("T")
        assert (reply.code, reply.remark) == (16, "the broker[127.0.0.1] pulling message is forbidden")


async def test_tags_are_filtered_by_their_hash(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for tag in ("A", "B", "C"):
            await fill(client, count=1, properties={"TAGS": tag})
        assert [m.tags for m in await client.pulled("T", expression="A || C")] == ["A", "C"]
        nothing = await client.pull("T", expression="D")
        assert (nothing.code, nothing.remark, nothing.ext["nextBeginOffset"]) == (
            20,
            "NO_MATCHED_MESSAGE",
            "3",
        )
        await client.heartbeat("Online", "T", expression="B")
        assert [m.tags for m in await client.pulled("T", group="Online", sys_flag=0)] == ["B"]


async def test_the_commit_flag_commits(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        await client.pull("T", 0, 3, sys_flag=4 | 1, commitOffset=3)
        assert broker.context.offsets.query("G", "T", 0) == 3
        await client.pull("T", 0, 4, sys_flag=4, commitOffset=4)
        assert broker.context.offsets.query("G", "T", 0) == 3


async def test_a_waiting_pull_is_answered_when_a_message_comes(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        producer, consumer = broker.client(), broker.client()
        await fill(producer)
        pull = consumer.post(11, pull_header("T", 0, 5, sys_flag=WAIT, suspend_ms=20_000))
        await trio.sleep(10)
        assert consumer.replies(pull) == []
        before = trio.current_time()
        await fill(producer, count=3)
        reply = await consumer.wait(pull)
        assert trio.current_time() - before < 0.01
        assert (reply.code, reply.ext["nextBeginOffset"]) == (0, "8"), "one answer takes all of the batch"
        assert len(broker.context.holds) == 0
        assert consumer.replies(pull) == [reply]


async def test_a_waiting_pull_is_answered_when_its_time_is_over(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        start = trio.current_time()
        pull = client.post(11, pull_header("T", 0, 5, sys_flag=WAIT, suspend_ms=2_000))
        reply = await client.wait(pull)
        assert (reply.code, reply.remark) == (19, "OFFSET_OVERFLOW_ONE")
        assert trio.current_time() - start == pytest.approx(2, abs=0.1)


async def test_no_pull_waits_longer_than_an_hour(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        pull = client.post(11, pull_header("T", 0, 5, sys_flag=WAIT, suspend_ms=2**62))
        await trio.sleep(3599)
        assert client.replies(pull) == []
        await trio.sleep(2)
        assert [reply.code for reply in client.replies(pull)] == [19]


async def test_a_one_way_pull_is_not_held(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        client.post(11, pull_header("T", 0, 5, sys_flag=WAIT, suspend_ms=20_000), flag=2)
        assert len(broker.context.holds) == 0


async def test_a_group_that_may_not_broadcast(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        await client.ask(200, None, b'{"groupName":"G","consumeBroadcastEnable":false}')
        await client.heartbeat("G", "T", message_model=MessageModel.CLUSTERING)
        assert (await client.pull("T", group="G", sys_flag=0)).code == 0
        await client.heartbeat("G", "T", message_model=MessageModel.BROADCASTING)
        refused = await client.pull("T", group="G", sys_flag=0)
        assert (refused.code, refused.remark) == (
            16,
            "the consumer group[G] can not consume by broadcast way",
        )
        await client.ask(200, None, b'{"groupName":"G","consumeBroadcastEnable":true}')
        assert (await client.pull("T", group="G", sys_flag=0)).code == 0


async def test_a_slave_takes_no_commits_from_pulls_and_leaves_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []
    monkeypatch.setattr("rmqcli.broker.services.put.put", lambda broker, message: events.append(message))
    for role, expected in (("SLAVE", (-1, 0)), ("ASYNC_MASTER", (3, 1))):
        async with fake_broker(tmp_path / role, broker_role=role) as broker:
            broker.context.topics.ensure("T", 1)
            await broker.client().pull("T", 0, 5, sys_flag=4 | 1, commitOffset=3)
            assert (broker.context.offsets.query("G", "T", 0), len(events)) == expected


async def test_short_polling(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, long_polling_enable=False, short_polling_time_mills=500) as broker:
        client = broker.client()
        await fill(client)
        start = trio.current_time()
        await client.wait(client.post(11, pull_header("T", 0, 5, sys_flag=WAIT, suspend_ms=20_000)))
        assert trio.current_time() - start == pytest.approx(0.5, abs=0.1)


async def test_only_a_message_with_the_right_tag_wakes_a_pull(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        pull = client.post(11, pull_header("T", 0, 5, sys_flag=WAIT, suspend_ms=60_000, expression="A"))
        await fill(client, count=1, properties={"TAGS": "B"})
        await trio.sleep(1)
        assert client.replies(pull) == []
        await fill(client, count=1, properties={"TAGS": "A"})
        reply = await client.wait(pull)
        assert (reply.code, reply.ext["nextBeginOffset"]) == (0, "7")


async def test_every_pull_of_a_queue_wakes_and_no_other(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        producer = broker.client()
        await fill(producer, count=1)
        here = [broker.client() for _ in range(100)]
        posted = [
            client.post(11, pull_header("T", 0, 1, sys_flag=WAIT, suspend_ms=60_000)) for client in here
        ]
        other = broker.client()
        elsewhere = other.post(11, pull_header("T", 1, 0, sys_flag=WAIT, suspend_ms=60_000))
        await fill(producer, count=1)
        for client, opaque in zip(here, posted, strict=True):
            assert (await client.wait(opaque)).code == 0
        assert other.replies(elsewhere) == []
        assert len(broker.context.holds) == 1


async def test_a_session_that_closes_drops_its_pulls(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        for queue_id in range(4):
            client.post(
                11, pull_header("T", queue_id, 5 if queue_id == 0 else 0, sys_flag=WAIT, suspend_ms=60_000)
            )
        assert len(broker.context.holds) == 4
        client.session.close()
        assert len(broker.context.holds) == 0
        await trio.sleep(120)
        assert client.session.sent[5:] == []
        assert broker.context.watched == set()


async def test_pulls_over_the_bound_are_answered_at_once(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        broker.context.holds.max_of_session = 2
        client = broker.client()
        await fill(client)
        header = pull_header("T", 0, 5, sys_flag=WAIT, suspend_ms=60_000)
        held = [client.post(11, header), client.post(11, header)]
        assert (await client.ask(11, header)).code == 19
        assert [client.replies(opaque) for opaque in held] == [[], []]


async def test_a_topic_that_goes_away_ends_the_wait_with_its_error(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        pull = client.post(11, pull_header("T", 0, 5, sys_flag=WAIT, suspend_ms=1_000))
        assert (await client.ask(215, {"topic": "T"})).code == 0
        assert (await client.wait(pull)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_waiting_pull_that_fails_has_a_reply_as_any_other(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_broker(tmp_path) as broker:
        client, store = broker.client(), broker.context.store
        await fill(client)
        get = store.reader.get

        def fail_for_t(topic: str, *args: Any, **options: Any) -> Any:
            if topic == "T":
                raise CorruptionError("the record at 7")
            return get(topic, *args, **options)

        await fill(client, "U")
        waiting = [
            client.post(11, pull_header(topic, 0, 5, sys_flag=WAIT, suspend_ms=1000)) for topic in "TU"
        ]
        monkeypatch.setattr(store.reader, "get", fail_for_t)
        replies = [await client.wait(opaque) for opaque in waiting]
        assert [(reply.code, reply.remark) for reply in replies] == [
            (ResponseCode.SYSTEM_ERROR, "CorruptionError: the record at 7"),
            (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
        ]


async def test_deadlines_of_answered_pulls_do_not_pile_up(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client, count=1)
        for offset in range(1, 100):
            pull = client.post(11, pull_header("T", 0, offset, sys_flag=WAIT, suspend_ms=3_600_000))
            await fill(client, count=1)
            await client.wait(pull)
        holds = broker.context.holds
        assert (len(holds), sum(map(len, holds._ticks.values())), holds._queues, holds._ready) == (
            0,
            0,
            {},
            {},
        )


async def test_lite_pulls_are_pulls(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        assert (await client.ask(361, pull_header("T"))).code == 0


async def test_pulled_messages_are_counted(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        await client.pull("T", count=3)
        broker.context.statistics.sample()
        data = done(broker.context.statistics.item("GROUP_GET_NUMS", "T@G"))
        assert data is not None and data.stats_minute is not None
        assert data.stats_minute.sum == 3


async def test_tags_that_would_take_long_to_read_are_refused(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        tags = " || ".join(f"tag{n:06}" for n in range(2000))
        assert (await client.pull("T", expression=tags)).code == 20
        refused = await client.pull("T", expression=f"{tags} || {tags}")
        assert (refused.code, refused.remark) == (23, "the tags have more than 32768 characters")


@pytest.mark.parametrize("kind", SerializeType)
async def test_a_reply_in_one_piece_equals_one_of_views(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: SerializeType
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for number in range(40):
            size = 3000 * (number % 3)
            assert (await client.send("T", bytes(size), queue_id=number % 2)).code == 0
        limits = handlers.SHORT_BODY, -1
        for offset, count, tags in product((0, 3, 19, 20, 21), (0, 1, 8, 32), ("*", "A || B")):
            found = []
            for limit in limits:
                monkeypatch.setattr(handlers, "SHORT_BODY", limit)
                header = pull_header("T", 1, offset, count=count, expression=tags)
                command = RemotingCommand(11, header, opaque=5, serialize_type=kind)
                found.append(written(client, broker.handlers[11](client.session, command)))  # type: ignore[arg-type]
            one, other = found
            assert one == other


@pytest.mark.parametrize("kind", SerializeType)
async def test_few_records_leave_in_one_piece(tmp_path: Path, kind: SerializeType) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        command = RemotingCommand(11, pull_header("T", 0, 0), opaque=5, serialize_type=kind)
        frame: Any = broker.handlers[11](client.session, command)  # type: ignore[arg-type]
        assert isinstance(frame, bytes)
        reply = decode_frame(frame[4:])
        assert (reply.serialize_type, len(decode_records(reply.body))) == (kind, 5)
