"""Messages, transactions and groups of others, by every door but the front one, as an account without permission."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import trio
from trio.testing import MockClock

from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.client import (
    Admin,
    ClientInstance,
    ConsumeContext,
    ConsumeResult,
    Credentials,
    Producer,
    PushConsumer,
)
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import HeartbeatData, ProducerData
from rmqcli.codec.bodies.offsets import LockBatchRequestBody
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.core.hashing import java_string_hash as java_hash
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.operations.messages import CHECK_TRANSACTION_STATE
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.signature import Signer, received_ext_fields
from tests.broker.auth.support import FROM, OPERATOR, PLAIN, disk_with, guarded
from tests.broker.support import long_header, send_header
from tests.codec.samples import make_record

ACCOUNTS = b"""
accounts:
- {accessKey: operator, secretKey: secret-of-operator, admin: true}
- {accessKey: keeper-1, secretKey: secret-of-keeper, topicPerms: [closed=PUB|SUB], groupPerms: [shut=SUB]}
- {accessKey: stranger, secretKey: secret-of-stranger, topicPerms: [own=PUB|SUB], groupPerms: [mine=SUB]}
- {accessKey: bystander, secretKey: secret-of-bystander, defaultTopicPerm: PUB|SUB, topicPerms: [closed=DENY], groupPerms: [mine=SUB]}
"""
KEEPER = Credentials("keeper-1", "secret-of-keeper")
STRANGER = Credentials("stranger", "secret-of-stranger")
BYSTANDER = Credentials("bystander", "secret-of-bystander")
SECRET = b"the secret of closed"
OF_CLOSED = f"{FROM}No default permission for topic:closed"
OF_SHUT = f"{FROM}No default permission for group:shut"


class Answer(NamedTuple):
    code: int
    remark: str
    body: bytes
    ext: dict[str, str]


class Actor:
    """Sends signed requests over a connection of its own."""

    def __init__(self, instance: ClientInstance, address: str, account: Credentials) -> None:
        self.instance, self._address, self._account = instance, address, account

    async def __call__(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        command = RemotingCommand(code, ext, body)
        Signer(self._account.access_key, self._account.secret_key).sign(command)
        reply = await self.instance.pool.request(self._address, command, 30)
        return Answer(reply.code, reply.remark or "", bytes(reply.body), dict(received_ext_fields(reply)))

    async def send(
        self, topic: str, body: bytes, properties: dict[str, str] | None = None, **more: Any
    ) -> int:
        """The commit log offset of a message that is sent."""
        header = to_ext(send_header(topic, properties, **more))
        answer = await self(R.SEND_MESSAGE_V2, header, body)
        assert answer.code == 0, answer.remark
        return parse_offset_msg_id(answer.ext["msgId"])[2]


class Scene(NamedTuple):
    cluster: MemoryCluster
    disk: SimulatedDisk
    keeper: Actor
    stranger: Actor
    bystander: Actor
    operator: Actor


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """A broker with the topics closed and own, and who knows of them."""
    disk = disk_with({PLAIN: ACCOUNTS})
    async with guarded(disk) as cluster:
        async with Admin(**cluster.client(), credentials=OPERATOR) as admin:
            for topic in ("closed", "own"):
                await admin.topics.create(topic, read_queues=1, write_queues=1)
        options: Any = cluster.client()
        async with (
            ClientInstance(**options) as one,
            ClientInstance(**options) as two,
            ClientInstance(**options) as three,
            ClientInstance(**options) as four,
        ):
            address = cluster.broker_address
            yield Scene(
                cluster,
                disk,
                Actor(one, address, KEEPER),
                Actor(two, address, STRANGER),
                Actor(three, address, BYSTANDER),
                Actor(four, address, OPERATOR),
            )


def view(offset: int) -> tuple[int, dict[str, str]]:
    return R.VIEW_MESSAGE_BY_ID, {"offset": str(offset)}


def back(offset: int, group: str = "mine") -> tuple[int, dict[str, str]]:
    return R.CONSUMER_SEND_MSG_BACK, {"group": group, "offset": str(offset), "delayLevel": "0"}


def pull(topic: str, offset: int = 0, group: str = "mine") -> tuple[int, dict[str, str]]:
    fields = {
        "queueOffset": str(offset),
        "maxMsgNums": "8",
        "sysFlag": "4",
        "commitOffset": "0",
        "subscription": "*",
    }
    own = {
        "topic": topic,
        "consumerGroup": group,
        "queueId": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
    }
    return R.PULL_MESSAGE, fields | own


async def stored(on: Scene, topic: str) -> int:
    return int((await on.operator(R.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})).ext["offset"])


async def test_a_message_is_not_read_by_its_place(autojump_clock: MockClock) -> None:
    async with scene() as on:
        closed, own = await on.keeper.send("closed", SECRET), await on.stranger.send("own", b"mine")
        for actor in (on.stranger, on.bystander):
            answer = await actor(*view(closed))
            assert (answer.code, answer.remark, answer.body) == (1, OF_CLOSED, b"")
            assert (await actor(*back(closed)))[:2] == (1, OF_CLOSED)
            direct = {"consumerGroup": "mine", "clientId": "c", "msgId": f"7F00000100002A9F{closed:016X}"}
            assert (await actor(R.CONSUME_MESSAGE_DIRECTLY, direct))[:2] == (1, OF_CLOSED)
            assert b"mine" in (await actor(*view(own))).body
            assert (await actor(*back(own))).code == 0
        for actor in (on.keeper, on.operator):
            assert SECRET in (await actor(*view(closed))).body
        assert (await on.keeper(*back(closed, "shut"))).code == 0
        beyond = await on.stranger(*view(10_000_000))
        assert (beyond.code, beyond.remark) == (1, "can not find message by the offset, 10000000")


async def test_a_delayed_a_retried_and_a_dead_message_belong_to_their_topic(
    autojump_clock: MockClock,
) -> None:
    async with scene() as on:
        closed = await on.keeper.send("closed", SECRET)
        delayed = await on.keeper.send("closed", SECRET, {PropertyName.DELAY: "18"})
        assert (
            await on.keeper(*back(closed, "shut"))
        ).code == 0  # first to the schedule, then to the retry topic
        dead = {"group": "shut", "offset": str(closed), "delayLevel": "-1"}
        assert (await on.keeper(R.CONSUMER_SEND_MSG_BACK, dead)).code == 0
        await trio.sleep(60)
        places: dict[str, int] = {}
        for topic in ("%RETRY%shut", "%DLQ%shut"):
            (message,) = decode_records((await on.operator(*pull(topic))).body)
            places[topic] = message.commit_log_offset
        for offset in (delayed, *places.values()):
            assert (await on.stranger(*view(offset)))[:2] == (1, OF_CLOSED)
            assert SECRET in (await on.keeper(*view(offset))).body
        for topic in (*places, SystemTopic.SCHEDULE):
            for actor in (on.stranger, on.bystander):
                answer = await actor(*pull(topic))
                assert (answer.code, answer.body) == (1, b"") and answer.remark.startswith(FROM), topic


HOST = b"\x7f\0\0\1\0\0\x2a\x9f"


def forged(topic: str, properties: bytes) -> bytes:
    """A record as it would be at the begin of a queue."""
    return make_record(
        topic=topic.encode(), queue_id=0, queue_offset=0, physical_offset=0, body=b"", properties=properties
    )


async def test_a_record_in_a_body_is_no_message(autojump_clock: MockClock) -> None:
    """Its properties would be what the log has behind it: messages of others."""
    open_end = forged("own", b"")
    open_end = struct.pack(">i", len(open_end) + 900) + open_end[4:-2] + struct.pack(">h", 900)
    half = forged(SystemTopic.TRANS_HALF, b"REAL_TOPIC\1own\2REAL_QID\0010\2PGROUP\1P")
    async with scene() as on:
        for body in (open_end, half):
            offset = await on.stranger.send("own", body)
            await on.keeper.send("closed", SECRET * 60)
            inside = offset + (await on.stranger(*view(offset))).body.index(body)
            answer = await on.stranger(*view(inside))
            assert (answer.code, answer.body) == (1, b"")
            assert "no queue has a message that begins here" in answer.remark
            assert (await on.stranger(*back(inside))).remark == answer.remark
            end = {"producerGroup": "P", "tranStateTableOffset": "0", "commitLogOffset": str(inside)}
            assert (
                await on.stranger(R.END_TRANSACTION, {**end, "commitOrRollback": "12"})
            ).remark == answer.remark


async def test_keys_that_collide_find_no_message_of_another_topic(autojump_clock: MockClock) -> None:
    assert java_hash("closed#AaAa") == java_hash("closed#BBBB")
    async with scene() as on:
        await on.operator.send("closed", SECRET, {PropertyName.KEYS: "k"})
        wanted, key = java_hash("closed#k") & 0xFFFFFFFF, ""
        low, high, start = 33, 126, java_hash("own#") & 0xFFFFFFFF
        # digits of base 31 that end in the wanted hash
        for length in range(5, 9):
            rest = (wanted - start * 31**length) % (1 << 32)
            for turn in range(64):
                value, digits = rest + turn * (1 << 32), []
                for _ in range(length):
                    digit = low + (value - low) % 31
                    digits.append(digit)
                    value = (value - digit) // 31
                if value == 0 and max(digits) <= high:
                    key = "".join(map(chr, reversed(digits)))
        assert key and java_hash(f"own#{key}") == java_hash("closed#k")
        query = {"maxNum": "32", "beginTimestamp": "0", "endTimestamp": str((1 << 63) - 1)}
        assert SECRET in (await on.keeper(R.QUERY_MESSAGE, {**query, "topic": "closed", "key": "k"})).body
        answer = await on.stranger(R.QUERY_MESSAGE, {**query, "topic": "own", "key": key})
        assert (answer.code, answer.body) == (22, b"")


HALF = {PropertyName.TRAN_MSG: "true", PropertyName.PGROUP: "P", PropertyName.UNIQ_KEY: "K"}


async def test_a_transaction_is_ended_by_who_may_send_to_its_topic(autojump_clock: MockClock) -> None:
    async with scene() as on:
        half = await on.keeper.send("closed", SECRET, HALF, sys_flag=4)
        end = {
            "producerGroup": "P",
            "tranStateTableOffset": "0",
            "commitLogOffset": str(half),
            "topic": "own",
        }
        resume = {"msgId": f"7F00000100002A9F{half:016X}", "topic": "own"}
        for actor in (on.stranger, on.bystander):
            for state in ("8", "12"):
                answer = await actor(R.END_TRANSACTION, {**end, "commitOrRollback": state})
                assert (answer.code, answer.remark) == (1, OF_CLOSED)
            assert (await actor(R.RESUME_CHECK_HALF_MESSAGE, resume))[:2] == (1, OF_CLOSED)
            assert (await actor(*view(half)))[:2] == (1, OF_CLOSED)
            assert (await actor(*pull(SystemTopic.TRANS_HALF))).code == 1
        assert (await on.keeper(R.END_TRANSACTION, {**end, "commitOrRollback": "8"})).code == 0
        assert await stored(on, "closed") == 1


async def test_a_check_goes_to_a_producer_that_may_send(autojump_clock: MockClock) -> None:
    """Whoever registers in the group of producers of another gets no half message of it."""
    checked: list[str] = []
    async with scene() as on:

        def registered(name: str) -> Callable[..., None]:
            def note(*_: Any) -> None:
                checked.append(name)

            return note

        beat = encode_body(HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="P")]))
        for actor, name in ((on.stranger, "stranger"), (on.bystander, "bystander"), (on.keeper, "keeper")):
            actor.instance.requests.register(CHECK_TRANSACTION_STATE, registered(name))
            assert (await actor(R.HEART_BEAT, None, beat)).code == 0
        await on.keeper.send("closed", SECRET, HALF, sys_flag=4)
        for _ in range(10):
            await trio.sleep(61)
            for actor in (on.stranger, on.bystander, on.keeper):
                await actor(R.HEART_BEAT, None, beat)
        assert len(checked) > 5 and set(checked) == {"keeper"}


async def test_groups_of_others_are_not_acted_for(autojump_clock: MockClock) -> None:
    lock = LockBatchRequestBody(
        consumer_group="shut", client_id="c", mq_set=[MessageQueue("own", "broker-a", 0)]
    )
    mine = LockBatchRequestBody(
        consumer_group="mine", client_id="c", mq_set=[MessageQueue("closed", "broker-a", 0)]
    )
    long = LockBatchRequestBody(
        consumer_group="mine",
        client_id="c",
        mq_set=[MessageQueue("own", "broker-a", n) for n in range(300)]
        + [MessageQueue("closed", "broker-a", 0)],
    )
    of_shut, on_closed = {"group": "shut", "topic": "own"}, {"group": "mine", "topic": "closed"}
    of_own = {"consumerGroup": "mine", "topic": "closed", "queueId": "0"}
    cases: list[tuple[int, dict[str, str] | None, bytes, str]] = [
        (R.LOCK_BATCH_MQ, None, encode_body(lock), OF_SHUT),
        (R.UNLOCK_BATCH_MQ, None, encode_body(lock), OF_SHUT),
        (R.LOCK_BATCH_MQ, None, encode_body(mine), OF_CLOSED),
        (R.LOCK_BATCH_MQ, None, encode_body(long), OF_CLOSED),
        (R.CLONE_GROUP_OFFSET, {"srcGroup": "mine", "destGroup": "shut", "topic": "own"}, b"", OF_SHUT),
        (R.CLONE_GROUP_OFFSET, {"srcGroup": "shut", "destGroup": "mine"}, b"", OF_SHUT),
        (R.CLONE_GROUP_OFFSET, {"srcGroup": "mine", "destGroup": "mine", "topic": "closed"}, b"", OF_CLOSED),
        (R.QUERY_CONSUMER_OFFSET, of_own, b"", OF_CLOSED),
        (R.QUERY_CONSUMER_OFFSET, {**of_own, "topic": "own", "consumerGroup": "shut"}, b"", OF_SHUT),
        *((code, {"topic": "closed", "queueId": "0", "timestamp": "0"}, b"", OF_CLOSED) for code in (29, 30, 31, 32)),
        *((code, {"topic": "%RETRY%shut", "queueId": "0", "timestamp": "0"}, b"", OF_SHUT) for code in (29, 30, 31)),
        *((code, {**of_shut, "timestamp": "-1"}, b"", OF_SHUT) for code in (222, 223)),
        *((code, {**on_closed, "timestamp": "-1"}, b"", OF_CLOSED) for code in (222, 223)),
        (R.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "shut", "clientId": "c"}, b"", OF_SHUT),
        (R.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "shut", "clientId": "c", "msgId": ""}, b"", OF_SHUT),
        (R.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "shut"}, b"", OF_SHUT),
        (R.GET_CONSUME_STATS, {"consumerGroup": "shut"}, b"", OF_SHUT),
        (R.GET_CONSUME_STATS, {"consumerGroup": "mine", "topic": "closed"}, b"", OF_CLOSED),
        (R.QUERY_CONSUME_TIME_SPAN, {"topic": "own", "group": "shut"}, b"", OF_SHUT),
        (R.QUERY_CORRECTION_OFFSET, {"topic": "closed", "compareGroup": "mine"}, b"", OF_CLOSED),
        (R.QUERY_CONSUME_QUEUE, {"topic": "closed", "queueId": "0", "index": "0", "count": "9"}, b"", OF_CLOSED),
        (R.QUERY_TOPICS_BY_CONSUMER, {"group": "shut"}, b"", OF_SHUT),
        (R.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "shut"}, b"", OF_SHUT),
        *((code, {"topic": "closed"}, b"", OF_CLOSED) for code in (202, 300, 351)),
    ]  # fmt: skip
    async with scene() as on:
        await on.keeper.send("closed", SECRET)
        for code, ext, body, refusal in cases:
            assert (await on.stranger(code, ext, body))[:2] == (1, refusal), R(code).name
        for code in (R.CLEAN_EXPIRED_CONSUMEQUEUE, R.CLEAN_UNUSED_TOPIC, R.DELETE_EXPIRED_COMMITLOG, 401):
            assert "Need admin permission" in (await on.stranger(code, {})).remark
        own = {"topic": "own", "queueId": "0"}
        assert (await on.stranger(R.GET_MAX_OFFSET, own)).code == 0


async def test_a_reply_is_stored_in_the_reply_topic_only(autojump_clock: MockClock) -> None:
    async with scene() as on:
        for code, header in (
            (R.SEND_REPLY_MESSAGE, to_ext(long_header(send_header("closed")))),
            (R.SEND_REPLY_MESSAGE_V2, to_ext(send_header("closed"))),
        ):
            assert (await on.stranger(code, header, b"x"))[:2] == (1, OF_CLOSED)
        assert await stored(on, "closed") == 0
        reply = await on.stranger(
            R.SEND_REPLY_MESSAGE_V2, to_ext(send_header("DefaultCluster_REPLY_TOPIC")), b"x"
        )
        assert "REPLY_TO_CLIENT" in reply.remark


async def test_a_pull_that_waits_ends_with_the_permission(autojump_clock: MockClock) -> None:
    """It would bring the next message to an account that may not read it any more."""
    async with scene() as on:
        code, ext = pull("closed", group="shut")
        ext |= {"sysFlag": "6", "suspendTimeoutMillis": "20000"}
        answers: list[Answer] = []

        async def ask() -> None:
            answers.append(await on.keeper(code, ext))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(5)
            assert not answers
            on.disk.write(PLAIN, ACCOUNTS.replace(b"closed=PUB|SUB", b"closed=PUB"))
            await trio.sleep(1)
            assert [answer.code for answer in answers] == [19]
        await on.keeper.send("closed", SECRET)
        assert (await on.keeper(code, ext))[:2] == (1, OF_CLOSED)


async def test_a_consumer_with_permissions_sends_back_and_commits(
    autojump_clock: MockClock,
) -> None:
    attempts: list[bytes] = []
    done = trio.Event()

    async def take(messages: list[Any], context: ConsumeContext) -> ConsumeResult:
        attempts.extend(message.body for message in messages)
        if len(attempts) == 1:
            return ConsumeResult.RECONSUME_LATER
        done.set()
        return ConsumeResult.SUCCESS

    async with scene() as on:
        options: Any = {**on.cluster.client(), "credentials": KEEPER}
        async with (
            Producer("P", **options) as producer,
            PushConsumer("shut", {"closed": "*"}, take, **options),
        ):
            await producer.send(Message.of("closed", SECRET))
            with trio.fail_after(120):
                await done.wait()
    assert attempts == [SECRET, SECRET], "the first attempt was sent back and came again"
