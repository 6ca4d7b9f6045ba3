"""The gate of access control: permissions by request and kind of header, white addresses, one-way requests."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from trio.testing import MockClock

from rmqcli.broker.auth.control import AccessControl
from rmqcli.broker.auth.following import AccountFiles
from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.net.turns import Turns
from rmqcli.client import (
    Admin,
    ClientInstance,
    ConsumeContext,
    ConsumeResult,
    Credentials,
    NotPermitted,
    Producer,
    PushConsumer,
)
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from rmqcli.codec.bodies.pop import QueryAssignmentRequestBody
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.codes import SerializeType
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.message import Message
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.signature import PIECE
from tests.broker.auth.support import (
    ACCOUNTS,
    FROM,
    OPERATOR,
    ORDINARY,
    PLAIN,
    asking,
    disk_with,
    guarded,
)
from tests.broker.support import send_header
from tests.broker.tls.support import in_place
from tests.certificates import make_certificates

KINDS = pytest.mark.parametrize("kind", SerializeType, ids=lambda kind: kind.name)


def send(topic: str, group: str = "producers") -> dict[str, str]:
    return {**to_ext(send_header(topic, {"UNIQ_KEY": "A" * 32})), "a": group}


def heartbeat(group: str, topic: str) -> bytes:
    consumer = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=topic)])
    producers = [ProducerData(group_name="anything")]
    return encode_body(
        HeartbeatData(client_id="c", producer_data_set=producers, consumer_data_set=[consumer])
    )


def assignment(topic: str, group: str) -> bytes:
    return encode_body(
        QueryAssignmentRequestBody(
            topic=topic,
            consumer_group=group,
            client_id="c",
            strategy_name="AVG",
            message_model=MessageModel.CLUSTERING,
        )
    )


def of_group(topic: str, group: str) -> dict[str, str]:
    return {"topic": topic, "consumerGroup": group, "queueId": "0", "commitOffset": "0"}


MATRIX: list[tuple[str, int, dict[str, str] | None, bytes, str]] = [
    ("send", R.SEND_MESSAGE_V2, send("letters"), b"x", ""),
    ("send to a topic that is read", R.SEND_MESSAGE_V2, send("news"), b"x", "topic:news"),
    ("send by the long names", R.SEND_MESSAGE, {"topic": "closed", "producerGroup": "g"}, b"x", "topic:closed"),
    ("batch", R.SEND_BATCH_MESSAGE, send("closed"), b"x", "topic:closed"),
    ("send to a retry topic", R.SEND_MESSAGE_V2, send("%RETRY%readers", "shut"), b"x", "group:shut"),
    ("send to the retry topic of another", R.SEND_MESSAGE_V2, send("%RETRY%shut", "readers"), b"x", "group:shut"),
    ("the same by long names", R.SEND_MESSAGE, {"topic": "%RETRY%shut", "group": "readers"}, b"x", "group:shut"),
    ("send back", R.CONSUMER_SEND_MSG_BACK, {"group": "shut", "offset": "0", "delayLevel": "0"}, b"", "group:shut"),
    ("pull", R.PULL_MESSAGE, of_group("letters", "readers"), b"", "topic:letters"),
    ("pull as a group", R.PULL_MESSAGE, of_group("news", "shut"), b"", "group:shut"),
    ("query", R.QUERY_MESSAGE, {"topic": "closed", "_UNIQUE_KEY_QUERY": "true"}, b"", "topic:closed"),
    ("heartbeat", R.HEART_BEAT, None, heartbeat("readers", "news"), ""),
    ("heartbeat of a group", R.HEART_BEAT, None, heartbeat("shut", "news"), "group:shut"),
    ("heartbeat with a topic", R.HEART_BEAT, None, heartbeat("readers", "letters"), "topic:letters"),
    ("leave", R.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "shut"}, b"", "group:shut"),
    ("members", R.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "shut"}, b"", "group:shut"),
    ("assignment", R.QUERY_ASSIGNMENT, None, assignment("news", "readers"), ""),
    ("assignment of a retry topic", R.QUERY_ASSIGNMENT, None, assignment("%RETRY%readers", "readers"), ""),
    ("assignment elsewhere", R.QUERY_ASSIGNMENT, None, assignment("letters", "readers"), "topic:letters"),
    ("assignment to a group", R.QUERY_ASSIGNMENT, None, assignment("news", "shut"), "group:shut"),
    ("commit", R.UPDATE_CONSUMER_OFFSET, of_group("news", "readers"), b"", ""),
    ("commit elsewhere", R.UPDATE_CONSUMER_OFFSET, of_group("other", "readers"), b"", "topic:other"),
]  # fmt: skip


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
@KINDS
async def test_permissions(
    autojump_clock: MockClock, tmp_path: Path, kind: SerializeType, secured: bool
) -> None:
    certificates = make_certificates(tmp_path / "tls") if secured else None
    wrong = Credentials("ordinary", "another-secret")
    async with guarded(certificates=certificates) as cluster, asking(cluster, certificates) as ask:
        for name, code, ext, body, refused in MATRIX:
            found = await ask(code, ext, body, account=ORDINARY, kind=kind)
            expected = (1, f"{FROM}No default permission for {refused}") if refused else (0, found[1])
            assert found == expected, name
            assert (await ask(code, ext, body, kind=kind))[1] == f"{FROM}No accessKey is configured", name
            remark = (await ask(code, ext, body, account=wrong, kind=kind))[1]
            assert remark == f"{FROM}Check signature failed for accessKey=ordinary", name
            allowed, remark = await ask(code, ext, body, account=OPERATOR, kind=kind)
            assert FROM not in remark and allowed in (0, 1, 17, 20, 22, 26), name


@KINDS
async def test_requests_of_administrators(autojump_clock: MockClock, kind: SerializeType) -> None:
    async with guarded() as cluster, asking(cluster) as ask:
        for code in (17, 25, 215, 200, 207, 50, 51, 53, R.UPDATE_AND_CREATE_TOPIC_LIST):
            found, remark = await ask(code, {"x": "y"}, account=ORDINARY, kind=kind)
            assert found == 1
            assert remark.startswith(f"{FROM}Need admin permission for request code={code}, but accessKey=")
            assert FROM not in (await ask(code, {"x": "y"}, account=OPERATOR, kind=kind))[1]
        unknown = Credentials("unknown-key", "secret-of-ordinary")
        assert (await ask(17, account=unknown, kind=kind))[1] == f"{FROM}No acl config for unknown-key"
        assert (await ask(9999, account=ORDINARY, kind=kind))[0] == 3
        assert (await ask(9999, kind=kind))[0] == 1


async def test_a_heartbeat_that_cannot_be_read(autojump_clock: MockClock) -> None:
    async with guarded() as cluster, asking(cluster) as ask:
        for body in (b"", b"[]", b"{" * 40_000, b" " * (1 << 20) + b"{}"):
            found, remark = await ask(R.HEART_BEAT, None, body, account=ORDINARY)
            assert (found, remark[: len(FROM)]) == (1, FROM), body[:10]


def long_heartbeat(*groups: str) -> bytes:
    topics = [SubscriptionData(topic="orders", sub_string="x" * 100) for _ in range(300)]
    consumers = [ConsumerData(group_name=group, subscription_data_set=topics) for group in groups]
    return encode_body(HeartbeatData(client_id="c", consumer_data_set=consumers))


LONG: list[tuple[str, int, dict[str, str] | None, bytes, str]] = [
    ("heartbeat", R.HEART_BEAT, None, long_heartbeat("readers"), ""),
    ("heartbeat of another group", R.HEART_BEAT, None, long_heartbeat("readers", "shut"), "group:shut"),
    ("send", R.SEND_MESSAGE_V2, send("letters"), bytes(3 * PIECE), ""),
    ("send elsewhere", R.SEND_MESSAGE_V2, send("closed"), bytes(3 * PIECE + 1), "topic:closed"),
]


class CountedTurns(Turns):
    """Every step takes a turn; they are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    async def next(self) -> None:
        self.taken += 1
        await super().next()


async def test_long_requests_are_admitted_and_refused_as_short_ones(autojump_clock: MockClock) -> None:
    wrong = Credentials("ordinary", "another-secret")
    async with guarded() as cluster, asking(cluster) as ask:
        for name, code, ext, body, refused in LONG:
            found = await ask(code, ext, body, account=ORDINARY)
            assert found == (
                (1, f"{FROM}No default permission for {refused}") if refused else (0, found[1])
            ), name
            unsigned = (1, f"{FROM}Check signature failed for accessKey=ordinary")
            assert await ask(code, ext, body, account=wrong) == unsigned, name
            assert await ask(code, ext, body) == (1, f"{FROM}No accessKey is configured"), name


@pytest.mark.parametrize(("name", "code", "ext", "body", "refused"), LONG, ids=[row[0] for row in LONG])
async def test_a_long_request_is_checked_in_many_turns(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    code: int,
    ext: dict[str, str] | None,
    body: bytes,
    refused: str,
) -> None:
    monkeypatch.setattr("rmqcli.broker.net.turns.TURN_SECONDS", 0.0)
    turns = CountedTurns()
    session: Any = SimpleNamespace(peer=("10.0.0.1", 1), peer_text="10.0.0.1:1", turns=turns)
    files = AccountFiles(PLAIN, disk_with({PLAIN: ACCOUNTS}), in_place, lambda: 0)
    access = AccessControl(lambda: 0, files)
    await files.load()
    command = RemotingCommand(code, ext, body)
    ORDINARY.signer().sign(command)
    with pytest.raises(NotReady) as caught:
        access.gate(session, command)
    await caught.value.ready()
    assert turns.taken >= 3
    assert caught.value.then is not None
    if not refused:
        caught.value.then(session, command)
        return
    with pytest.raises(Refusal, match=refused):
        caught.value.then(session, command)


HOSTILE: list[dict[str, str]] = [
    {"Signature": ""},
    {"Signature": "x" * 65_000},
    {"Signature": "\u00e9\u6f22\U0001f600="},
    {"AccessKey": "x" * 65_000},
    {"AccessKey": "\u00e9\u6f22"},
    {"AccessKey": "ordinary\n"},
    {"SecurityToken": "y" * 65_000},
]


@KINDS
async def test_hostile_fields_are_refused(autojump_clock: MockClock, kind: SerializeType) -> None:
    async with guarded() as cluster, ClientInstance(**cluster.client()) as instance:
        for fields in HOSTILE:
            command = RemotingCommand(R.SEND_MESSAGE_V2, send("letters"), b"x", serialize_type=kind)
            ORDINARY.signer().sign(command)
            command.ext_fields = {**(command.ext_fields or {}), **fields}
            reply = await instance.pool.request(cluster.broker_address, command, 30)
            assert (reply.code, (reply.remark or "")[: len(FROM)]) == (1, FROM), fields


async def test_white_addresses_need_no_account(autojump_clock: MockClock) -> None:
    white = b"globalWhiteRemoteAddresses: [127.0.0.*]\n" + ACCOUNTS
    async with guarded(disk_with({PLAIN: white})) as cluster, asking(cluster) as ask:
        assert (await ask(R.SEND_MESSAGE_V2, send("closed"), b"x"))[0] == 0
        assert (await ask(R.UPDATE_BROKER_CONFIG, None, b"brokerPermission=6\n"))[0] == 0


async def test_the_address_of_one_account(autojump_clock: MockClock) -> None:
    text = ACCOUNTS.replace(b"10.*.*.*", b"127.0.0.1")
    async with guarded(disk_with({PLAIN: text})) as cluster, asking(cluster) as ask:
        unsigned = {**send("closed"), "AccessKey": "elsewhere"}
        assert (await ask(R.SEND_MESSAGE_V2, unsigned, b"x"))[0] == 0
        assert (await ask(R.SEND_MESSAGE_V2, {**unsigned, "AccessKey": "ordinary"}, b"x"))[0] == 1


async def test_sends_that_come_together_do_not_go_round_the_gate(autojump_clock: MockClock) -> None:
    async with guarded() as cluster:
        options: Any = {**cluster.client(), "retries": 0}
        async with Producer("PG", credentials=ORDINARY, **options) as producer:
            errors: list[object] = []
            for n in range(200):
                topic = "letters" if n % 2 else "closed"
                await producer.send_soon(Message.of(topic, b"x"), errors.append)
        refused = [one for one in errors if isinstance(one, NotPermitted)]
        assert (len(errors), len(refused)) == (200, 100)
        async with Producer("PG", **options) as stranger:
            with pytest.raises(NotPermitted, match="No accessKey is configured; the request is not signed"):
                await stranger.send(Message.of("letters", b"x"))


async def test_a_one_way_request_is_refused_in_silence(autojump_clock: MockClock) -> None:
    async with guarded() as cluster, Admin(**cluster.client(), credentials=OPERATOR) as admin:
        await admin.topics.create("closed", read_queues=1, write_queues=1)
        for account, stored in ((None, 0), (ORDINARY, 0), (OPERATOR, 1)):
            options: Any = {**cluster.client(), "credentials": account}
            async with ClientInstance(**options) as instance:
                command = RemotingCommand(R.SEND_MESSAGE_V2, send("closed"), b"x")
                await instance.pool.oneway(cluster.broker_address, command, 3)
            offsets = await admin.topics.stats("closed")
            assert [one.max_offset for one in offsets.values()] == [stored]


async def test_clients_of_an_account_work_as_before(autojump_clock: MockClock) -> None:
    taken: list[bytes] = []

    async def take(messages: list[Any], context: ConsumeContext) -> ConsumeResult:
        taken.extend(message.body for message in messages)
        return ConsumeResult.SUCCESS

    async with guarded() as cluster:
        options: Any = {**cluster.client(), "credentials": ORDINARY}
        async with Producer("PG", trace=True, **options) as producer:
            await producer.send(Message.of("orders", b"first"))
            async with PushConsumer("readers", {"orders": "*"}, take, **options):
                while len(taken) < 2:
                    await producer.send(Message.of("orders", b"next"))
    assert b"next" in taken
