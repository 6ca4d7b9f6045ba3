"""Topics, groups, the broker's own state, consume statistics, queries."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import trio

from rmqcli.broker.config import read_properties
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.config import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rmqcli.codec.bodies.offsets import QueryCorrectionOffsetBody
from rmqcli.codec.bodies.route import TopicList
from rmqcli.codec.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    GroupList,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    TopicStatsTable,
)
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.records.reading import decode_records
from tests.broker.support import START_MS, Client, fake_broker, pull_header

UNSUPPORTED = [39, 13, 22]


def create(topic: str, queues: int = 2, perm: int = 6, **fields: object) -> dict[str, str]:
    header = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
    return {name: str(value) for name, value in {**header, "perm": perm, **fields}.items()}


async def commit(client: Client, group: str, topic: str, queue_id: int, offset: int) -> None:
    await client.ask(
        15,
        {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)},
    )


async def stats(client: Client, group: str, topic: str | None = None) -> ConsumeStats:
    header = {"consumerGroup": group} | ({"topic": topic} if topic else {})
    return decode_body(ConsumeStats, (await client.ask(208, header)).body)


async def test_topics_are_created_overwritten_and_deleted(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        reply = await client.ask(
            17, create("T", 3, 99, order="true", topicFilterType="MULTI_TAG", topicSysFlag=1)
        )
        assert (reply.code, reply.remark) == (0, "not set any response code")
        table = decode_body(TopicConfigSerializeWrapper, (await client.ask(21)).body)
        assert table.topic_config_table["T"] == TopicConfig(
            topic_name="T",
            read_queue_nums=3,
            write_queue_nums=3,
            perm=99,
            topic_filter_type="MULTI_TAG",
            topic_sys_flag=1,
        )
        version = table.data_version.counter
        await client.ask(17, create("T", 5))
        table = decode_body(TopicConfigSerializeWrapper, (await client.ask(21)).body)
        assert table.topic_config_table["T"].write_queue_nums == 5
        assert table.data_version.counter == version + 1
        assert decode_body(TopicConfig, (await client.ask(351, {"topic": "T"})).body).write_queue_nums == 5
        await client.send("T", b"x")
        assert (await client.ask(215, {"topic": "T"})).code == 0
        assert (await client.ask(351, {"topic": "T"})).code == 17
        assert not (tmp_path / "consumequeue" / "T").exists()
        assert '"T"' not in (tmp_path / "config" / "topics.json").read_text()


async def test_what_is_made_is_saved_and_announced_before_the_answer(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client, announcer = broker.client(), broker.context.announcer
        told = announcer.asked
        await client.ask(17, create("Made"))
        assert announcer.asked == told + 1
        assert '"Made"' in (tmp_path / "config" / "topics.json").read_text()
        await client.ask(200, {}, b'{"groupName":"MadeGroup"}')
        assert '"MadeGroup"' in (tmp_path / "config" / "subscriptionGroup.json").read_text()
        told = announcer.asked
        await client.heartbeat("Fresh", "Made")
        assert announcer.asked == told + 1, "the retry topic"
        await client.heartbeat("Fresh", "Made")
        assert announcer.asked == told + 1


async def test_a_deleted_topic_has_no_statistics(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for topic in ("T", "Stays"):
            await client.send(topic)
        broker.context.statistics.sample()
        item = {"statsName": "TOPIC_PUT_NUMS"}
        assert (await client.ask(315, item | {"statsKey": "T"})).code == 0
        await client.ask(215, {"topic": "T"})
        assert (await client.ask(315, item | {"statsKey": "T"})).code != 0
        assert (await client.ask(315, item | {"statsKey": "Stays"})).code == 0


async def test_queues_whose_messages_have_expired_are_removed(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, mapped_file_size_commit_log=4096) as broker:
        client = broker.client()
        await client.send("Old", bytes(1000))
        for _ in range(8):
            await client.send("T", bytes(3000))
        queue = tmp_path / "consumequeue" / "Old" / "0"
        assert (await client.ask(306)).code == 0 and queue.exists()
        long_ago = START_MS / 1000 - 73 * 3600
        for file in (tmp_path / "commitlog").iterdir():
            os.utime(file, (long_ago, long_ago))
        assert (await client.ask(329)).code == 0
        assert int((await client.ask(31, {"topic": "T", "queueId": "0"})).ext["offset"]) > 0
        assert queue.exists(), "files of the log were asked to go, no queues"
        assert (await client.ask(306)).code == 0
        assert not queue.exists()
        assert (tmp_path / "consumequeue" / "T" / "0").exists()


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("SCHEDULE_TOPIC_XXXX", "The topic[SCHEDULE_TOPIC_XXXX] is conflict with system topic."),
        ("DefaultCluster", "The topic[DefaultCluster] is conflict with system topic."),
        ("no blanks", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
    ],
)
async def test_wrong_topic_names(tmp_path: Path, topic: str, remark: str) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        reply = await client.ask(17, create(topic))
        assert (reply.code, reply.remark) == (1, remark)
        assert (await client.ask(215, {"topic": topic})).remark == remark


async def test_a_topic_or_group_that_would_take_all_memory_is_refused(tmp_path: Path) -> None:
    """Statistics have an entry for each queue: 2^31 of them ended the broker, and its next start."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.ask(17, create("T", 65_536))).code == 0
        for wrong in ({"readQueueNums": 65_537}, {"writeQueueNums": 2**31 - 1}):
            refused = await client.ask(17, create("U") | {name: str(value) for name, value in wrong.items()})
            assert refused.code == 1
            assert "65536 is the limit" in (refused.remark or "")
        assert (await client.ask(351, {"topic": "U"})).code == 17
        group = b'{"groupName":"G","retryQueueNums":%d}'
        assert (await client.ask(200, None, group % 65_537)).code == 1
        assert (await client.ask(352, {"group": "G"})).code == 26
        assert (await client.ask(200, None, group % 65_536)).code == 0


async def test_a_topic_that_is_overwritten_stays_ordered(tmp_path: Path) -> None:
    """That a topic is ordered is the name server's word, not the request's."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.ask(17, create("T"))
        assert broker.context.topics.set_order_topics(["T"])
        await client.ask(17, create("T", 5, order="false"))
        config = decode_body(TopicConfig, (await client.ask(351, {"topic": "T"})).body)
        assert (config.write_queue_nums, config.order) == (5, True)


async def test_a_filter_type_that_java_does_not_have_is_refused(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        refused = await client.ask(17, create("T", topicFilterType="FOO"))
        assert (refused.code, "topicFilterType FOO" in (refused.remark or "")) == (1, True)
        assert (await client.ask(351, {"topic": "T"})).code == 17


async def test_many_topics_at_once(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        body = b'{"topicConfigList":[{"topicName":"A"},{"topicName":"B","readQueueNums":2}]}'
        assert (await client.ask(18, {}, body)).code == 0
        assert {"A", "B"} <= set(broker.context.topics)
        assert (
            await client.ask(18, {}, b'{"topicConfigList":[{"topicName":"C"},{"topicName":"TBW102"}]}')
        ).code == 1
        assert "C" not in broker.context.topics


async def test_system_topics(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, trace_topic_enable=True) as broker:
        names = decode_body(TopicList, (await broker.client().ask(305)).body).topic_list
        assert {
            "TBW102",
            "SCHEDULE_TOPIC_XXXX",
            "DefaultCluster",
            "broker-a",
            "DefaultCluster_REPLY_TOPIC",
        } <= set(names)
        configs = broker.context.topics.wrapper().topic_config_table
        shape = {name: (config.write_queue_nums, config.perm) for name, config in configs.items()}
        assert shape == {
            "SELF_TEST_TOPIC": (1, 6),
            "TBW102": (8, 7),
            "BenchmarkTest": (1024, 6),
            "DefaultCluster": (16, 7),
            "broker-a": (1, 7),
            "OFFSET_MOVED_EVENT": (1, 6),
            "SCHEDULE_TOPIC_XXXX": (18, 6),
            "DefaultCluster_REPLY_TOPIC": (1, 6),
            "RMQ_SYS_TRACE_TOPIC": (1, 6),
        }


async def test_topic_stats(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        await trio.sleep(1)
        await client.send("T")
        table = decode_body(TopicStatsTable, (await client.ask(202, {"topic": "T"})).body).offset_table
        assert len(table) == 4
        first = table[MessageQueue("T", "broker-a", 0)]
        assert (first.min_offset, first.max_offset, first.last_update_timestamp) == (0, 2, START_MS + 1000)
        empty = table[MessageQueue("T", "broker-a", 1)]
        assert (empty.max_offset, empty.last_update_timestamp) == (0, 0)
        assert (await client.ask(202, {"topic": "None"})).code == 17
        for read, write in ((5, 3), (3, 5)):
            await client.ask(17, create("T", readQueueNums=read, writeQueueNums=write))
            table = decode_body(TopicStatsTable, (await client.ask(202, {"topic": "T"})).body).offset_table
            assert len(table) == 5, "of 5.3.3, so that queues that are only read are among them"


async def test_a_topic_takes_the_offsets_of_its_groups_along(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """A new topic of the name begins at 0, which is below them. Its clients learn at once that it is gone."""
    path = tmp_path / "config" / "consumerOffset.json"
    async with fake_broker(tmp_path) as broker:
        client, offsets = broker.client(), broker.context.offsets
        for topic in ("T", "U"):
            await client.send(topic)
            await commit(client, "G", topic, 0, 1)
        held = [client.post(11, pull_header(name, 0, 1, sys_flag=6, suspend_ms=9000)) for name in ("T", "U")]
        await trio.sleep(1)
        assert (await client.ask(215, {"topic": "T"})).code == 0
        assert '"U@G"' in path.read_text() and '"T@G"' not in path.read_text(), (
            "saved before it is acknowledged"
        )
        await trio.sleep(0.1)
        assert [[one.code for one in client.replies(opaque)] for opaque in held] == [[17], []]
        commits = {"sysFlag": "1", "commitOffset": "1"}
        assert (await client.pull("T", 0, 1, **commits)).code == 17
        header = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
        assert (await client.ask(15, header)).code == 17, "a client brings no offset back"
        assert (offsets.query("G", "T", 0), offsets.topics_of("G"), len(offsets)) == (-1, ["U"], 1)
        await client.send("T")
        assert offsets.groups_of("T") == []


@pytest.mark.parametrize("flag", ["removeOffset", "cleanOffset"])
async def test_groups(tmp_path: Path, flag: str) -> None:
    """5.x calls the flag of a deletion `cleanOffset`."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.ask(200, None, b'{"groupName":"G","retryMaxTimes":3}')).code == 0
        assert (
            await client.ask(225, None, b'{"groupConfigList":[{"groupName":"H"},{"groupName":"I"}]}')
        ).code == 0
        table = decode_body(SubscriptionGroupWrapper, (await client.ask(201)).body).subscription_group_table
        assert {"G", "H", "I", "TOOLS_CONSUMER"} <= table.keys()
        assert (
            decode_body(SubscriptionGroupConfig, (await client.ask(352, {"group": "G"})).body).retry_max_times
            == 3
        )
        assert (await client.ask(352, {"group": "None"})).code == 26
        broker.context.topics.ensure("T", 4)
        await commit(client, "G", "T", 0, 5)
        assert (await client.ask(207, {"groupName": "G"})).code == 0
        assert broker.context.offsets.query("G", "T", 0) == 5
        assert (await client.ask(207, {"groupName": "G", flag: "true"})).code == 0
        assert broker.context.offsets.query("G", "T", 0) == -1
        assert "G" not in broker.context.groups


async def test_a_slave_changes_no_topic_and_no_group(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, broker_role="SLAVE") as broker:
        client = broker.client()
        requests = (
            (17, create("T", 1), b""),
            (215, {"topic": "T"}, b""),
            (200, None, b'{"groupName":"G"}'),
            (207, {"groupName": "G"}, b""),
        )
        for code, header, body in requests:
            reply = await client.ask(code, header, body)
            assert (reply.code, (reply.remark or "")[:45]) == (
                1,
                "Can't modify topic or subscription group from",
            )


async def test_who_consumes_a_topic(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.heartbeat("Online", "T")
        broker.context.topics.ensure("T", 4)
        await commit(client, "Offline", "T", 0, 1)
        groups = decode_body(GroupList, (await client.ask(300, {"topic": "T"})).body).group_list
        assert sorted(groups) == ["Offline", "Online"]
        assert decode_body(TopicList, (await client.ask(343, {"group": "Offline"})).body).topic_list == ["T"]


async def test_consume_stats(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for _ in range(3):
            await client.send("T")
        await commit(client, "G", "T", 0, 2)
        broker.context.offsets.commit("G", "Gone", 0, 2)
        table = (await stats(client, "G")).offset_table
        first = table[MessageQueue("T", "broker-a", 0)]
        assert (first.broker_offset, first.consumer_offset, len(table)) == (3, 2, 4)
        assert first.last_timestamp > 0
        assert first.pull_offset == 2
        await client.pull("T", 0, 3, consumer_group="G")
        pulled = (await stats(client, "G")).offset_table[MessageQueue("T", "broker-a", 0)]
        assert (pulled.consumer_offset, pulled.pull_offset) == (2, 3)
        assert (await stats(client, "Unknown")).offset_table == {}
        await client.heartbeat("G", "Other")
        assert (await stats(client, "G")).offset_table == {}, (
            "an online group no longer subscribes to the topic"
        )
        await client.ask(200, None, b'{"groupName":"H"}')
        await commit(client, "H", "T", 0, 1)
        everything = decode_body(ConsumeStatsList, (await client.ask(317, {"isOrder": "false"})).body)
        assert everything.total_diff == 2
        assert everything.broker_addr == "127.0.0.1:10911"
        ordered = decode_body(ConsumeStatsList, (await client.ask(317, {"isOrder": "true"})).body)
        assert ordered.total_diff == 0
        await client.ask(17, create("T2", 2) | {"readQueueNums": "1"})
        await commit(client, "H", "T2", 0, 1)
        await client.heartbeat("H", "T2")
        everything = decode_body(ConsumeStatsList, (await client.ask(317, {"isOrder": "false"})).body)
        (of_h,) = [groups["H"] for groups in everything.consume_stats_list if "H" in groups]
        assert [len(one.offset_table) for one in of_h] == [2], "write queues; T is not subscribed to any more"
        assert len((await stats(client, "H")).offset_table) == 1, "read queues"


async def test_a_group_that_is_online_without_subscriptions_has_its_stats(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        await commit(client, "G", "T", 0, 1)
        await client.heartbeat("G")
        assert len((await stats(client, "G")).offset_table) == 4


async def test_consume_time_span(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for _ in range(3):
            await client.send("T")
            await trio.sleep(1)
        await commit(client, "G", "T", 0, 1)
        body = (await client.ask(303, {"topic": "T", "group": "G"})).body
        spans = decode_body(QueryConsumeTimeSpanBody, body).consume_time_span_set
        first, second = spans[0], spans[1]
        assert first.min_time_stamp == START_MS
        assert first.max_time_stamp == START_MS + 2000
        assert first.consume_time_stamp == START_MS
        assert first.delay_time == 2000
        assert (first.min_time_stamp_str or "")[10] == "#"
        assert (second.min_time_stamp, second.delay_time) == (-1, 0)
        for committed, consumed, delay in ((0, 0, 3000), (2, 1000, 1000), (3, 2000, 0)):
            await commit(client, "H", "T", 0, committed)
            body = (await client.ask(303, {"topic": "T", "group": "H"})).body
            span = decode_body(QueryConsumeTimeSpanBody, body).consume_time_span_set[0]
            assert (span.consume_time_stamp - START_MS, span.delay_time) == (consumed, delay)
        unknown = await client.ask(303, {"topic": "None", "group": "G"})
        assert (unknown.code, unknown.remark) == (17, "topic[None] not exist")


async def test_correction_and_clone_of_offsets(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.ask(17, create("T", 2))
        for group, first, second in (("A", 5, 9), ("B", 7, 3), ("C", 1, 1)):
            await commit(client, group, "T", 0, first)
            await commit(client, group, "T", 1, second)
        header = {"topic": "T", "compareGroup": "B", "filterGroups": "C,D"}
        body = decode_body(QueryCorrectionOffsetBody, (await client.ask(308, header)).body)
        assert body.correction_offsets == {0: 5, 1: 3}
        header["compareGroup"] = "C"
        body = decode_body(QueryCorrectionOffsetBody, (await client.ask(308, header)).body)
        assert body.correction_offsets == {0: 2**63 - 1, 1: 2**63 - 1}
        clone = {"srcGroup": "A", "destGroup": "New", "topic": "T"}
        assert (await client.ask(314, clone)).code == 0
        assert broker.context.offsets.queues("New", "T") == {0: 5, 1: 9}
        await client.heartbeat("B", "Other")
        await client.ask(314, clone | {"srcGroup": "B"})
        assert broker.context.offsets.query("New", "T", 0) == 5
        await client.ask(314, clone | {"srcGroup": "B", "offline": "true"})
        assert broker.context.offsets.query("New", "T", 0) == 7
        await commit(client, "A", "%RETRY%A", 0, 2)
        await client.ask(17, create("U", 1))
        await commit(client, "A", "U", 0, 4)
        assert (await client.ask(314, {"srcGroup": "A", "destGroup": "All"})).code == 0
        assert sorted(broker.context.offsets.topics_of("All")) == ["T", "U"], "topics that there are"


async def test_configuration_changes_while_running(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=broker-a\n")
    async with fake_broker(tmp_path, broker_config_path=str(path)) as broker:
        client = broker.client()
        assert (await client.ask(25, None, b"autoCreateTopicEnable=false\nnobodyKnows=1\n")).code == 0
        assert (await client.send("Nope")).code == 17
        reply = await client.ask(26)
        assert "autoCreateTopicEnable=false" in reply.body.decode().splitlines()
        assert msgspec.json.decode(reply.ext["version"])["counter"] == 1
        assert "autoCreateTopicEnable=false" in path.read_text()
        black = await client.ask(25, None, b"brokerConfigPath=/tmp/x")
        assert (black.code, black.remark) == (16, "Can not update config in black list.")
        assert (await client.ask(25, None, b"listenPort=many")).code == 1


HIDDEN = [
    r"namesrvAddr=x\nstorePathRootDir\=/tmp",
    r"namesrvAddr=x\u000astorePathRootDir=/tmp",
    r"namesrvAddr=x\rstorePathRootDir\=/tmp",
    r"brokerPermission=6\nstorePathRootDir\=/tmp",
    r"st\u006frePathRootDir=/tmp",
    "storePath\\\nRootDir=/tmp",
    "#\rstorePathRootDir=/tmp",
    "\tstorePathRootDir : /tmp",
    r"store\PathRootDir /tmp",
]


@pytest.mark.parametrize("body", HIDDEN)
async def test_no_spelling_reaches_what_only_a_start_can_change(tmp_path: Path, body: str) -> None:
    """Neither at once, nor by a second line in the file that the next start reads."""
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=broker-a\n")
    async with fake_broker(tmp_path, broker_config_path=str(path)) as broker:
        client = broker.client()
        assert (await client.ask(25, None, body.encode())).code in (1, 16)
        assert (await client.ask(25, None, b"brokerPermission=4")).code == 0
        assert read_properties(path) == {"brokerName": "broker-a", "brokerPermission": "4"}


async def test_a_changed_file_keeps_its_texts_and_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(r"""brokerName=broker-a
other=C:\\store\nstorePathRootDir=/tmp
innerClientAuthenticationCredentials={"accessKey": "broker-a", "secretKey": "secret-of-\\"}""")
    before = read_properties(path)
    path.chmod(0o600)
    async with fake_broker(tmp_path, broker_config_path=str(path)) as broker:
        client = broker.client()
        for permission in ("4", "6"):
            assert (await client.ask(25, None, f"brokerPermission={permission}".encode())).code == 0
            assert read_properties(path) == before | {"brokerPermission": permission}
    for one in (path, path.with_name("broker.conf.bak")):
        assert one.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("storePathRootDir", "/tmp/x"),
        ("storePathCommitLog", "/tmp/x"),
        ("brokerName", "other"),
        ("brokerIP1", "10.0.0.1"),
        ("listenPort", "1"),
        ("maxIndexNum", "7"),
        ("messageDelayLevel", "1s"),
    ],
)
async def test_what_only_a_start_can_change_is_refused(tmp_path: Path, name: str, value: str) -> None:
    """With another folder in its file, a broker would start without its messages."""
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=broker-a\n")
    async with fake_broker(tmp_path, broker_config_path=str(path)) as broker:
        client = broker.client()
        before = (await client.ask(26)).body
        refused = await client.ask(25, None, f"autoCreateTopicEnable=false\n{name}={value}\n".encode())
        text = (
            f"{name} cannot change while the server runs: set it in its configuration file and start it again"
        )
        assert (refused.code, refused.remark) == (16, text)
        assert ((await client.ask(26)).body, path.read_text()) == (before, "brokerName=broker-a\n")
        assert (
            await client.ask(25, None, f"brokerName=broker-a\nstorePathRootDir={tmp_path}\n".encode())
        ).code == 0


@pytest.mark.parametrize(
    "name", ["brokerConfigPath", "rocketmqHome", "configBlackList", "configStorePath", "kvConfigPath", "mine"]
)
async def test_no_black_list_opens_what_could_write_any_file(tmp_path: Path, name: str) -> None:
    async with fake_broker(tmp_path, config_black_list="mine") as broker:
        client = broker.client()
        refused = await client.ask(25, None, f"{name}=/tmp/x\nautoCreateTopicEnable=false\n".encode())
        assert (refused.code, refused.remark) == (16, "Can not update config in black list.")
        assert b"autoCreateTopicEnable=true" in (await client.ask(26)).body


async def test_a_changed_permission_makes_a_new_version_of_the_topics(tmp_path: Path) -> None:
    """A name server that has the version keeps the old permissions."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        before, asked = broker.context.topics.version.counter, broker.context.announcer.asked
        await client.ask(25, None, b"brokerPermission=6\n")
        assert (broker.context.topics.version.counter, broker.context.announcer.asked) == (before, asked)
        await client.ask(25, None, b"brokerPermission=4\n")
        assert broker.context.topics.version.counter == before + 1
        assert broker.context.announcer.asked == asked + 1


async def test_a_configuration_that_cannot_be_saved_counts_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a-file" / "broker.conf"
    path.parent.write_text("")
    async with fake_broker(tmp_path / "store", broker_config_path=str(path)) as broker:
        client = broker.client()
        assert (await client.ask(25, None, b"maxMessageSize=10\n")).code == 0
        assert (await client.send("T", bytes(11))).code == 13
        assert f"cannot save the configuration to {path}" in caplog.text


async def test_a_changed_limit_of_the_store_counts_for_the_next_message(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.send("T", bytes(11))).code == 0
        assert (await client.ask(25, None, b"maxMessageSize=10\n")).code == 0
        assert (await client.send("T", bytes(11))).code == 13
        assert (await client.send("T", bytes(10))).code == 0


@pytest.mark.parametrize(
    "entry", [b"flushDiskType=FOO", b"maxMessageSize=0", b"deleteWhen=99", b"messageDelayLevel=1s 2x"]
)
async def test_a_value_that_means_nothing_changes_nothing(tmp_path: Path, entry: bytes) -> None:
    """A running broker refuses the values with which it would not start."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        before = await client.ask(26)
        refused = await client.ask(25, None, entry + b"\nautoCreateTopicEnable=false\n")
        assert refused.code == 1
        assert (refused.remark or "").startswith(entry.decode())
        after = await client.ask(26)
        assert (after.body, after.ext) == (before.body, before.ext)


async def test_queries(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for n in range(3):
            await client.send("T", str(n).encode(), properties={"KEYS": f"k{n} all", "UNIQ_KEY": f"U{n}"})
        header = {
            "topic": "T",
            "key": "all",
            "maxNum": "2",
            "beginTimestamp": "0",
            "endTimestamp": str(2**60),
        }
        found = await client.ask(12, header)
        assert found.code == 0
        assert {m.keys[1] for m in decode_records(found.body)} == {"all"}
        assert len(decode_records(found.body)) == 2
        assert found.ext["indexLastUpdatePhyoffset"] != "0"
        unique = await client.ask(12, header | {"key": "U1", "_UNIQUE_KEY_QUERY": "true"})
        (message,) = decode_records(unique.body)
        assert message.body == b"1"
        missing = await client.ask(12, header | {"key": "none"})
        assert (missing.code, missing.remark) == (22, "can not find message, maybe time range not correct")
        view = await client.ask(33, {"offset": str(message.commit_log_offset)})
        assert decode_records(view.body) == [message]
        unknown = await client.ask(33, {"offset": "123456"})
        assert (unknown.code, unknown.remark) == (1, "can not find message by the offset, 123456")


async def test_how_many_messages_a_query_finds(tmp_path: Path) -> None:
    """By unique key defaultQueryMaxNum counts, whatever is asked for; maxMsgsNumBatch is never passed."""
    async with fake_broker(tmp_path, default_query_max_num=3, max_msgs_num_batch=5) as broker:
        client = broker.client()
        for _ in range(9):
            await client.send("T", b"again", properties={"UNIQ_KEY": "U"})
        header = {"topic": "T", "key": "U", "beginTimestamp": "0", "endTimestamp": str(2**60)}
        counts = [
            len(decode_records((await client.ask(12, header | more)).body))
            for more in ({"maxNum": "2"}, {"maxNum": "99"}, {"maxNum": "1", "_UNIQUE_KEY_QUERY": "true"})
        ]
        assert counts == [2, 5, 3]


async def test_consume_queue_entries(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.heartbeat("G", "T")
        for _ in range(5):
            await client.send("T", properties={"TAGS": "TagA"})
        header = {"topic": "T", "queueId": "0", "index": "1", "count": "3", "consumerGroup": "G"}
        reply = await client.ask(321, header)
        assert (reply.code, reply.remark) == (0, "not set any response code")
        body = decode_body(QueryConsumeQueueResponseBody, reply.body)
        assert (body.min_queue_index, body.max_queue_index) == (0, 5)
        assert [entry.tags_code for entry in body.queue_data or []] == [2598919] * 3
        assert body.subscription_data is not None
        nowhere = await client.ask(321, header | {"queueId": "4"})
        assert (nowhere.code, nowhere.remark) == (1, "4@T is not exist!")
        beyond = await client.ask(321, header | {"index": "5"})
        assert (beyond.code, beyond.remark, beyond.body) == (0, "Index 5 of 0@T is not exist!", b"")


async def test_cleaning(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        broker.context.topics.remove("T")
        assert [(await client.ask(code)).code for code in (306, 316, 329)] == [0, 0, 0]
        assert not (tmp_path / "consumequeue" / "T").exists()


@pytest.mark.parametrize("code", UNSUPPORTED)
async def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, code: int) -> None:
    async with fake_broker(tmp_path) as broker:
        reply = await broker.client().ask(code, {})
        assert reply.code == 3
        assert (reply.remark or "").startswith(f" request type {code} not supported: ")
