"""Every code that a broker serves, asked once as a client would: what must be in the answer, or in the broker
after it. Every put of a handler needs the disk first, so that the request is handled again.

An answer names what was stored, counted or changed. Where a young broker has nothing to report or to do
(GET_MIN_OFFSET, DELETE_EXPIRED_COMMITLOG, CLEAN_EXPIRED_CONSUMEQUEUE) that is in `handlers/test_admin.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from rmqcli.broker.handlers import HANDLERS
from rmqcli.broker.services.pop.values import PopRequest
from rmqcli.codec.acl.users import with_policies
from rmqcli.codec.bodies.acl import PolicyEntryInfo, PolicyInfo, UserInfo
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.pop import BatchAck, BatchAckMessageRequestBody
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.headers.base import Header, to_ext
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.support import (
    START_MS,
    Client,
    FakeBroker,
    Reply,
    SlowPuts,
    fake_broker,
    pull_header,
    send_header,
)
from tests.broker.transactions.support import end_header, producer, send_half

R = RequestCode
TOPIC = {"topic": "T"}
QUEUE = {"topic": "T", "queueId": "0"}
OFFSET = {**QUEUE, "consumerGroup": "G"}
ASKED = {"consumerGroup": "G", "clientId": "client-40001"}
WHO = {"topic": "T", "group": "G"}
CREATE = {
    "topic": "New",
    "defaultTopic": "TBW102",
    "readQueueNums": "3",
    "writeQueueNums": "3",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "order": "false",
}
LOCKS = b'{"consumerGroup":"G","clientId":"c","mqSet":[{"topic":"T","brokerName":"broker-a","queueId":0}]}'
LOCKED = MessageQueue("T", "broker-a", 0)
GROUP = b'{"groupName":"H","retryMaxTimes":5}'
SUBSCRIPTION = b'{"topic":"T","subString":"a >","expressionType":"SQL92"}'
SQL = b'{"clientId":"c","group":"G","subscriptionData":' + SUBSCRIPTION + b"}"
HEARTBEAT = b'{"clientID":"me","producerDataSet":[{"groupName":"Mine"}]}'
BATCH = encode_batch([Message(topic="T", body=b"x"), Message(topic="T", body=b"y")])
POP_MODE = b'{"topic":"T","consumerGroup":"G","mode":"POP","popShareQueueNum":0}'
ASSIGNMENT = (
    b'{"topic":"T","consumerGroup":"G","clientId":"c","strategyName":"AVG","messageModel":"CLUSTERING"}'
)
POLICY = PolicyInfo(
    policy_type="Custom",
    entries=[PolicyEntryInfo(resource="Topic:T", actions=["Pub"], decision="Allow")],
)
ACL = b'{"policies":[{"entries":[{"resource":"Topic:new","actions":["Pub"],"decision":"Allow"}]}]}'
REPLY_TO = {"REPLY_TO_CLIENT": "client-40002", "CORRELATION_ID": "1"}


FROM_CLIENT = b"from the client"


class Scene(NamedTuple):
    """Three messages m0, m1, m2 with key k in queue 0 of T; a consumer of group G that consumed one of them; a
    producer of PG with a half message; a timer message in topic T; and the replies to their sends; a user u with a policy.
    """

    broker: FakeBroker
    admin: Client
    consumer: Client
    sent: list[Reply]
    half: Reply
    timer: Reply

    @property
    def context(self) -> Any:
        return self.broker.context


Ask = tuple[Mapping[str, str] | Header, bytes]
Holds = Callable[[Scene, Reply], object]


class Case(NamedTuple):
    ask: Callable[[Scene], Ask]
    holds: Holds


def case(header: Mapping[str, str] | Header | None, holds: Holds, body: bytes = b"") -> Case:
    return Case(lambda _scene: (header or {}, body), holds)


def made_of(ask: Callable[[Scene], Mapping[str, str] | Header], holds: Holds) -> Case:
    return Case(lambda scene: (ask(scene), b""), holds)


def says(*parts: str) -> Holds:
    return lambda _scene, reply: reply.code == 0 and all(part.encode() in reply.body for part in parts)


def refused(part: str) -> Holds:
    return lambda _scene, reply: reply.code != 0 and part in (reply.remark or "")


def remarks(part: str) -> Holds:
    return lambda _scene, reply: reply.code == 0 and part in (reply.remark or "")


def ext(name: str, value: str) -> Holds:
    return lambda _scene, reply: reply.code == 0 and reply.ext[name] == value


def stored(topic: str, count: int) -> Holds:
    return lambda scene, reply: reply.code == 0 and scene.context.store.search.max_offset(topic, 0) == count


def after(check: Callable[[Any], object]) -> Holds:
    """A fact about the broker once it has answered."""
    return lambda scene, reply: reply.code == 0 and check(scene.context)


def recalled(scene: Scene) -> Mapping[str, str]:
    return {"topic": "T", "recallHandle": scene.timer.ext["recallHandle"]}


LENDING = {"invisibleTime": "60000", "pollTime": "0", "bornTime": "0", "initMode": "0"}


def lent(scene: Scene) -> str:
    """The handle of m1, which is popped together with m2."""
    request = PopRequest(group="G", topic="T", max_messages=2, invisible_ms=60_000, queue_id=0)
    found = scene.context.pops.pop(request)
    (part,) = found.parts
    handle: str = found.handle(part, 1, "broker-a").encode()
    return handle


def position(scene: Scene) -> int:
    return int(scene.sent[0].ext["msgId"][16:], 16)


def log_end(scene: Scene) -> int:
    end: int = scene.context.store.commit_log_max_offset
    return end


def answered(body: bytes, request: RemotingCommand) -> RemotingCommand:
    return request.reply(ResponseCode.SUCCESS, body=body)


def relayed(_scene: Scene, reply: Reply) -> bool:
    return (reply.code, reply.body) == (0, FROM_CLIENT)


def bodies(reply: Reply) -> list[bytes]:
    return [bytes(record.body) for record in decode_records(reply.body)]


LONG_SEND_HEADER = {
    "producerGroup": "P",
    "topic": "T",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "1",
    "flag": "0",
}
CASES: Mapping[RequestCode, Case] = {
    R.SEND_MESSAGE: case(LONG_SEND_HEADER, stored("T", 4)),
    R.SEND_MESSAGE_V2: case(send_header("T"), stored("T", 4)),
    R.SEND_BATCH_MESSAGE: case(send_header("T", batch=True), stored("T", 5), BATCH),
    R.CONSUMER_SEND_MSG_BACK: made_of(
        lambda s: {"offset": str(position(s)), "group": "G", "delayLevel": "0"},
        lambda s, r: r.code == 0 and s.context.store.search.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1,
    ),
    R.SEND_REPLY_MESSAGE: case(
        {**LONG_SEND_HEADER, "properties": "REPLY_TO_CLIENT\x01nobody"},
        refused("channel of <nobody> not found"),
    ),
    R.SEND_REPLY_MESSAGE_V2: case(send_header("T", REPLY_TO), stored("T", 4)),
    R.END_TRANSACTION: made_of(
        lambda s: end_header(0, int(s.half.ext["msgId"][16:], 16)),
        lambda s, r: r.code == 0 and s.context.store.search.max_offset("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0) == 1,
    ),
    R.RESUME_CHECK_HALF_MESSAGE: made_of(
        lambda s: {"msgId": s.half.ext["msgId"]},
        stored("RMQ_SYS_TRANS_HALF_TOPIC", 2),
    ),
    R.PULL_MESSAGE: case(pull_header("T", 0, 1), lambda _s, r: (r.code, bodies(r)) == (0, [b"m1", b"m2"])),
    R.LITE_PULL_MESSAGE: case(pull_header("T", 0, 2), lambda _s, r: (r.code, bodies(r)) == (0, [b"m2"])),
    R.QUERY_MESSAGE: case(
        {"topic": "T", "key": "k", "maxNum": "2", "beginTimestamp": "0", "endTimestamp": str(2**62)},
        lambda _s, r: (r.code, bodies(r)) == (0, [b"m1", b"m2"]),
    ),
    R.VIEW_MESSAGE_BY_ID: made_of(
        lambda s: {"offset": str(position(s))}, lambda _s, r: (r.code, bodies(r)) == (0, [b"m0"])
    ),
    R.QUERY_CONSUME_QUEUE: case(
        {**QUEUE, "index": "1", "count": "9", "consumerGroup": "G"}, says('"maxQueueIndex":3', '"physicSize"')
    ),
    R.QUERY_CONSUMER_OFFSET: case(OFFSET, ext("offset", "1")),
    R.UPDATE_CONSUMER_OFFSET: case(
        {**OFFSET, "commitOffset": "2"}, after(lambda c: c.offsets.query("G", "T", 0) == 2)
    ),
    R.SEARCH_OFFSET_BY_TIMESTAMP: case({**QUEUE, "timestamp": str(2**62)}, ext("offset", "2")),
    R.GET_MAX_OFFSET: case(QUEUE, ext("offset", "3")),
    R.GET_MIN_OFFSET: case({"topic": "Moved", "queueId": "0"}, ext("offset", "0")),
    R.GET_EARLIEST_MSG_STORETIME: made_of(
        lambda _s: QUEUE,
        lambda s, r: r.ext["timestamp"] == str(s.context.store.search.earliest_store_time("T", 0)) != "-1",
    ),
    R.GET_ALL_CONSUMER_OFFSET: case(None, says('"T@G":{0:1}')),
    R.GET_ALL_DELAY_OFFSET: case(None, says('"offsetTable":{1:1}')),
    R.HEART_BEAT: case(None, after(lambda c: c.producers.clients("Mine") is not None), HEARTBEAT),
    R.UNREGISTER_CLIENT: case(
        {"clientID": "client-40000", "producerGroup": "Admin"},
        after(lambda c: c.producers.clients("Admin") is None),
    ),
    R.GET_CONSUMER_LIST_BY_GROUP: case({"consumerGroup": "G"}, says('["client-40001"]')),
    R.CHECK_CLIENT_CONFIG: case(None, refused("at character 4"), SQL),
    R.LOCK_BATCH_MQ: case(None, says('"queueId":0'), LOCKS),
    R.UNLOCK_BATCH_MQ: case(
        None, after(lambda c: c.locks.lock("G", "other", [LOCKED], START_MS) == [LOCKED]), LOCKS
    ),
    R.UPDATE_AND_CREATE_TOPIC: case(CREATE, after(lambda c: c.topics.get("New").write_queue_nums == 3)),
    R.UPDATE_AND_CREATE_TOPIC_LIST: case(
        None,
        after(lambda c: "Two" in c.topics),
        b'{"topicConfigList":[{"topicName":"One"},{"topicName":"Two"}]}',
    ),
    R.DELETE_TOPIC_IN_BROKER: case(
        TOPIC, after(lambda c: "T" not in c.topics and c.store.search.max_offset("T", 0) == 0)
    ),
    R.CLEAN_UNUSED_TOPIC: case(
        None, after(lambda c: "Left" not in c.store.topics() and "T" in c.store.topics())
    ),
    R.CLEAN_EXPIRED_CONSUMEQUEUE: case(None, after(lambda c: "T" in c.store.topics())),
    R.GET_ALL_TOPIC_CONFIG: case(None, says('"T":{', '"TBW102":{')),
    R.GET_TOPIC_CONFIG: case(TOPIC, says('"topicName":"T"', '"writeQueueNums":4')),
    R.GET_TOPIC_STATS_INFO: case(TOPIC, says('"maxOffset":3')),
    R.QUERY_TOPIC_CONSUME_BY_WHO: case(TOPIC, says('["G"]')),
    R.QUERY_TOPICS_BY_CONSUMER: case({"group": "G"}, says('["T"]')),
    R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: case(None, says('"SCHEDULE_TOPIC_XXXX"')),
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: case(
        None, after(lambda c: c.groups.get("H").retry_max_times == 5), GROUP
    ),
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: case(
        None, after(lambda c: "H" in c.groups), b'{"groupConfigList":[' + GROUP + b"]}"
    ),
    R.DELETE_SUBSCRIPTIONGROUP: case(
        {"groupName": "G", "removeOffset": "true"},
        after(lambda c: "G" not in c.groups and c.offsets.query("G", "T", 0) == -1),
    ),
    R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: case(None, says('"G":{')),
    R.GET_SUBSCRIPTIONGROUP_CONFIG: case({"group": "G"}, says('"groupName":"G"')),
    R.GET_CONSUMER_CONNECTION_LIST: case({"consumerGroup": "G"}, says('"client-40001"', '"127.0.0.1:40001"')),
    R.QUERY_SUBSCRIPTION_BY_CONSUMER: case(
        {"group": "G", "topic": "T"}, says('"group":"G"', '"topic":"T"', '"subscriptionData":{')
    ),
    R.GET_PRODUCER_CONNECTION_LIST: case({"producerGroup": "PG"}, says('"client-40002"')),
    R.GET_ALL_PRODUCER_INFO: case(None, says('"PG":[', '"/127.0.0.1:40002"')),
    R.GET_CONSUME_STATS: case(
        {"consumerGroup": "G"}, says('"brokerOffset":3', '"consumerOffset":1', '"pullOffset":1')
    ),
    R.GET_BROKER_CONSUME_STATS: case({"isOrder": "false"}, says('"totalDiff":2', '"G":[')),
    R.QUERY_CONSUME_TIME_SPAN: case(WHO, says('"maxTimeStampStr":"20', '"delayTime":')),
    R.QUERY_CORRECTION_OFFSET: case({"topic": "T", "compareGroup": "X"}, says('"correctionOffsets":{0:1}')),
    R.CLONE_GROUP_OFFSET: case(
        {"srcGroup": "G", "destGroup": "H", "topic": "T"},
        after(lambda c: c.offsets.query("H", "T", 0) == 1),
    ),
    R.INVOKE_BROKER_TO_RESET_OFFSET: case(
        {**WHO, "timestamp": "-1", "isForce": "true", "queueId": "0", "offset": "3"},
        lambda s, r: r.code == 0 and s.consumer.session.pushed[-1].code == R.RESET_CONSUMER_CLIENT_OFFSET,
    ),
    R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: case(WHO, says('"client-40001":{')),
    R.GET_CONSUMER_RUNNING_INFO: case(ASKED, relayed),
    R.CONSUME_MESSAGE_DIRECTLY: made_of(lambda s: {**ASKED, "msgId": s.sent[0].ext["msgId"]}, relayed),
    R.UPDATE_BROKER_CONFIG: case(
        None, after(lambda c: c.config.broker_permission == 4), b"brokerPermission=4"
    ),
    R.GET_BROKER_CONFIG: case(None, says("brokerName=broker-a\n", "messageDelayLevel=1s")),
    R.GET_BROKER_RUNTIME_INFO: case(None, says('"msgPutTotalTodayNow":"8"', '"brokerVersionDesc":"V4_9_8"')),
    R.VIEW_BROKER_STATS_DATA: case(
        {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}, says('"statsMinute":{"avgpt":1.0,"sum":3')
    ),
    R.GET_BROKER_HA_STATUS: case(
        None, lambda scene, reply: says(f'"masterCommitLogMaxOffset":{log_end(scene)}')(scene, reply)
    ),
    R.RESET_MASTER_FLUSH_OFFSET: case(
        {"masterFlushOffset": "7"}, after(lambda c: not c.store.master_flushed_offset)
    ),
    R.SET_COMMITLOG_READ_MODE: case(
        {"READ_AHEAD_MODE": "1"}, after(lambda c: not c.config.data_read_ahead_enable)
    ),
    R.ADVANCE_CLOCK: case({"milliseconds": "1"}, refused("the clock of this broker does not move")),
    R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: case(None, remarks("no limit is kept"), b"G=1\n"),
    R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: case(None, remarks("no limit is kept"), b"G"),
    R.GET_COLD_DATA_FLOW_CTR_INFO: case(None, says('"configTable":{},"coldDataFlowControlEnable":false')),
    R.QUERY_ASSIGNMENT: case(None, refused("no name server"), ASSIGNMENT),
    R.SET_MESSAGE_REQUEST_MODE: case(
        None, after(lambda c: c.request_modes.get("T", "G").mode == "POP"), POP_MODE
    ),
    R.GET_ALL_MESSAGE_REQUEST_MODE: case(None, says('{"messageRequestModeMap":{}}')),
    R.UPDATE_AND_CREATE_ACL_CONFIG: case({"accessKey": "x"}, refused("aclEnable=false")),
    R.DELETE_ACL_CONFIG: case({"accessKey": "x"}, refused("aclEnable=false")),
    R.GET_BROKER_CLUSTER_ACL_INFO: case(None, refused("aclEnable=false")),
    R.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: case(
        {"globalWhiteAddrs": "", "aclFileFullPath": ""}, refused("aclEnable=false")
    ),
    R.POP_MESSAGE: case(
        {**OFFSET, "queueId": "-1", **LENDING, "maxMsgNums": "8"},
        lambda _s, r: (r.code, bodies(r), r.ext["msgOffsetInfo"]) == (0, [b"m1", b"m2"], "0 0 1,2"),
    ),
    R.PEEK_MESSAGE: case({**OFFSET, "maxMsgNums": "1"}, lambda _s, r: (r.code, bodies(r)) == (0, [b"m1"])),
    R.ACK_MESSAGE: Case(
        lambda s: ({**OFFSET, "offset": "1", "extraInfo": lent(s)}, b""),
        after(lambda c: c.pops.in_flight.of("G", "T") == 1),
    ),
    R.BATCH_ACK_MESSAGE: Case(
        lambda s: (
            {},
            encode_body(
                BatchAckMessageRequestBody(
                    acks=[
                        BatchAck(
                            consumer_group="G",
                            topic="T",
                            retry="0",
                            start_offset=1,
                            pop_time=int(lent(s).split()[1]),
                            bit_set="Aw==",
                        )
                    ]
                )
            ),
        ),
        after(lambda c: c.pops.in_flight.of("G", "T") == 0),
    ),
    R.CHANGE_MESSAGE_INVISIBLETIME: Case(
        lambda s: ({**OFFSET, "offset": "1", "extraInfo": lent(s), "invisibleTime": "7000"}, b""),
        ext("invisibleTime", "7000"),
    ),
    R.NOTIFICATION: case({**OFFSET, "pollTime": "0", "bornTime": "0"}, ext("hasMsg", "true")),
    R.POLLING_INFO: case(OFFSET, ext("pollingNum", "0")),
    R.UPDATE_AND_GET_GROUP_FORBIDDEN: case(
        {**WHO, "readable": "false"}, after(lambda c: c.groups.is_forbidden("G", "T"))
    ),
    R.AUTH_CREATE_USER: case(
        {"username": "new"}, after(lambda c: "new" in c.users.by_name), b'{"password":"p"}'
    ),
    R.AUTH_UPDATE_USER: case(
        {"username": "u"}, after(lambda c: not c.users.by_name["u"].enabled), b'{"userStatus":"disable"}'
    ),
    R.AUTH_DELETE_USER: case({"username": "u"}, after(lambda c: "u" not in c.users.by_name)),
    R.AUTH_GET_USER: case({"username": "u"}, says('"password":"p"')),
    R.AUTH_LIST_USER: case({"filter": "u"}, says('[{"password":"p"')),
    R.AUTH_CREATE_ACL: case(
        {"subject": "User:u"}, after(lambda c: "new" in c.users.by_name["u"].custom.named), ACL
    ),
    R.AUTH_UPDATE_ACL: case(
        {"subject": "User:u"}, after(lambda c: "new" in c.users.by_name["u"].custom.named), ACL
    ),
    R.AUTH_DELETE_ACL: case({"subject": "User:u"}, after(lambda c: not c.users.by_name["u"].custom.named)),
    R.AUTH_GET_ACL: case({"subject": "User:u"}, says('"resource":"Topic:T"')),
    R.AUTH_LIST_ACL: case({"subjectFilter": "u"}, says('[{"policies":', '"subject":"User:u"')),
    R.RECALL_MESSAGE: made_of(recalled, ext("msgId", "0A")),
    R.GET_TIMER_CHECK_POINT: case(None, lambda _scene, reply: reply.code == 0 and len(reply.body) == 56),
    R.GET_TIMER_METRICS: case(None, says('"timingCount":{"T":', '"count":1,')),
    R.DELETE_EXPIRED_COMMITLOG: case(None, after(lambda c: c.store.search.max_offset("T", 0) == 3)),
}


async def set_up(broker: FakeBroker) -> Scene:
    admin, consumer = broker.client(), broker.client()
    await admin.ask(17, {**CREATE, "topic": "T", "readQueueNums": "4", "writeQueueNums": "4"})
    sent = [await admin.send("T", f"m{n}".encode(), properties={"KEYS": "k"}) for n in range(3)]
    await admin.ask(34, None, HEARTBEAT.replace(b"Mine", b"Admin"))
    await admin.ask(15, {**OFFSET, "commitOffset": "1"})
    await admin.ask(41, None, LOCKS)
    await consumer.heartbeat("G", "T")
    requester = await producer(broker)
    for client, code, body in (
        (consumer, R.GET_CONSUMER_STATUS_FROM_CLIENT, b'{"messageQueueTable":{}}'),
        (consumer, R.GET_CONSUMER_RUNNING_INFO, FROM_CLIENT),
        (consumer, R.CONSUME_MESSAGE_DIRECTLY, FROM_CLIENT),
        (requester, R.PUSH_REPLY_MESSAGE_TO_CLIENT, b""),
    ):
        client.session.answers[code] = partial(answered, body)
    half = await send_half(requester)
    for topic, properties in (("Moved", {"DELAY": "1"}), ("Left", {})):
        await admin.send(topic, properties=properties)
    broker.context.topics.remove("Left")
    timer = await admin.send("T", properties={"TIMER_DELAY_SEC": "60", "UNIQ_KEY": "0A"})
    users = broker.context.users
    await users.ensure(UserInfo(username="u", password="p"))
    await users.change("u", lambda table: with_policies(table, "u", [POLICY]))
    await trio.sleep(11)
    return Scene(broker, admin, consumer, sent, half, timer)


def test_every_code_is_here() -> None:
    assert sorted(code.name for code in HANDLERS) == sorted(code.name for code in CASES)


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.name)
async def test_the_answer_has_something_in_it(
    tmp_path: Path, autojump_clock: trio.abc.Clock, code: RequestCode
) -> None:
    async with fake_broker(tmp_path, enable_property_filter=True) as broker:
        scene = await set_up(broker)
        header, body = CASES[code].ask(scene)
        ext_fields = to_ext(header) if isinstance(header, Header) else header
        SlowPuts(broker.context.store)
        reply = await scene.admin.wait(await scene.admin.post_when_ready(code, ext_fields, body))
        assert CASES[code].holds(scene, reply), reply
