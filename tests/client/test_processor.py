"""Dispatch of broker requests to the clients of one instance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from rmqcli.client import (
    ClientInstance,
    ConsumeResult,
    InvalidRequest,
    LitePullConsumer,
    LiteSettings,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
)
from rmqcli.client.group.processor import ConsumerProcessor
from rmqcli.client.processor import ClientRemotingProcessor
from rmqcli.client.produce.request_reply import PushedReply
from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rmqcli.codec.bodies.running import ConsumerRunningInfo
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.operations.messages import PUSH_REPLY_MESSAGE_TO_CLIENT
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.polling import GROUP, TOPIC, fill
from tests.client.watched_cluster import EPOCH, NAMESRV, WatchedCluster, now_ms, open_cluster
from tests.operations import OPERATIONS

CODES = {
    "notified": RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    "reset": RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    "status": RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    "info": RequestCode.GET_CONSUMER_RUNNING_INFO,
    "directly": RequestCode.CONSUME_MESSAGE_DIRECTLY,
}
FIRST = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
LINK: Any = None


@pytest.fixture
async def cluster(autojump_clock: Any) -> AsyncIterator[WatchedCluster]:
    async with open_cluster({TOPIC: 2}) as running:
        yield running


async def taking(messages: Any, context: Any) -> ConsumeResult:
    return ConsumeResult.SUCCESS


def pushing(instance: ClientInstance, group: str) -> PushConsumer:
    return PushConsumer(group, {TOPIC: "*"}, taking, settings=FIRST, instance=instance)


def asked(code: int, group: str, body: bytes = b"") -> RemotingCommand:
    """A request for a group, with the field names of every code."""
    fields = {"consumerGroup": group, "group": group, "topic": TOPIC, "clientId": "c"}
    return RemotingCommand(code, fields | {"timestamp": "0", "isForce": "true"}, body, opaque=5)


async def test_each_group_answers_for_itself(cluster: WatchedCluster, autojump_clock: Any) -> None:
    """Two push consumers and a lite one that came first: none replaces another."""
    fill(cluster, {0: 5, 1: 7})
    async with (
        ClientInstance(NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms) as instance,
        LitePullConsumer("lite", settings=LiteSettings(), instance=instance) as lite,
        pushing(instance, "one"),
        pushing(instance, "two"),
    ):
        await lite.subscribe(TOPIC)
        await trio.sleep(1)
        for group, kind in (("lite", "ACTIVELY"), ("one", "PASSIVELY"), ("two", "PASSIVELY")):
            reply = instance.requests.process(LINK, asked(CODES["info"], group))
            assert reply is not None
            info = decode_body(ConsumerRunningInfo, reply.body)
            assert info.properties["PROP_CONSUME_TYPE"] == f"CONSUME_{kind}"
            retries = {wanted.topic for wanted in info.subscription_set} - {TOPIC}
            assert retries == ({f"%RETRY%{group}"} if group != "lite" else set())
        queue = cluster.queue(TOPIC)
        body = encode_body(ResetOffsetBody(offset_table={queue: 2}))
        assert instance.requests.process(LINK, asked(CODES["reset"], "two", body)) is None
        status = instance.requests.process(LINK, asked(CODES["status"], "one"))
        assert status is not None
        assert decode_body(GetConsumerStatusBody, status.body).message_queue_table[queue] == 5
        await trio.sleep(20)
        commits = [(group, offset) for group, one, offset in cluster.commits if one == queue]
        assert ("two", 2) in commits
        assert ("one", 2) not in commits
    assert not instance.requests.codes


async def test_a_notice_wakes_the_group_that_changed(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with (
        ClientInstance(NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms) as instance,
        LitePullConsumer("lite", settings=LiteSettings(), instance=instance) as lite,
        pushing(instance, "one"),
        pushing(instance, "two"),
    ):
        await lite.subscribe(TOPIC)
        await trio.sleep(10)
        for group in ("one", "lite", "two"):
            cluster.asked.clear()
            instance.requests.process(LINK, asked(CODES["notified"], group))
            await trio.sleep(0.1)
            rounds = cluster.fields(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
            assert {fields["consumerGroup"] for fields in rounds} == {group}


async def test_one_group_has_one_consumer_of_any_kind(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with (
        ClientInstance(NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms) as instance,
        LitePullConsumer(GROUP, settings=LiteSettings(), instance=instance) as first,
    ):
        await first.subscribe(TOPIC)
        for other in (pushing(instance, GROUP), LitePullConsumer(GROUP, instance=instance)):
            with pytest.raises(InvalidRequest, match="already"):
                async with other:
                    pytest.fail("a second consumer of the group")
        async with PullConsumer(GROUP, instance=instance) as reader:
            with pytest.raises(InvalidRequest, match="already"):
                await reader.register({TOPIC: None})
        reply = instance.requests.process(LINK, asked(CODES["info"], GROUP))
        assert reply is not None
        assert reply.code == 0
        await trio.sleep(1)
        assert cluster.members(GROUP) == [instance.client_id]


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        (PullConsumer, "DEFAULT_CONSUMER"),
        (LitePullConsumer, "DEFAULT_CONSUMER"),
        (Producer, "DEFAULT_PRODUCER"),
    ],
)
def test_a_group_that_javas_clients_refuse(
    kind: type[PullConsumer | LitePullConsumer | Producer], group: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"{group} is not allowed"):
        kind(group, namesrv=NAMESRV)


async def test_running_info_of_a_pull_consumer(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with (
        ClientInstance(NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms) as instance,
        PullConsumer(GROUP, instance=instance) as reader,
    ):
        nobody = instance.requests.process(LINK, asked(CODES["info"], GROUP))
        await trio.sleep(2)
        for _ in range(2):
            await reader.register({TOPIC: None})
        await reader.commit(cluster.queue(TOPIC, 1), 7)
        await reader.commit(cluster.queue(TOPIC, 2), 8, "another")
        info = instance.requests.process(LINK, asked(CODES["info"], GROUP))
        status = instance.requests.process(LINK, asked(CODES["status"], GROUP))
    assert nobody is not None and nobody.code == 1
    assert info is not None and status is not None
    told = decode_body(ConsumerRunningInfo, info.body)
    assert told.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert told.properties["PROP_CONSUMER_START_TIMESTAMP"] == str(EPOCH)
    assert [(one.topic, one.sub_version) for one in told.subscription_set] == [(TOPIC, EPOCH + 2000)]
    table = decode_body(GetConsumerStatusBody, status.body).message_queue_table
    assert table == {cluster.queue(TOPIC, 1): 7}
    assert not instance.requests.codes


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_requests_of_other_groups_are_refused(code: int) -> None:
    requests = ClientRemotingProcessor()
    requests.register(OPERATIONS[RequestCode(code)], lambda request: request.refuse("mine"), "G")
    own = requests.process(LINK, asked(code, "G"))
    other = requests.process(LINK, asked(code, "H"))
    assert own is not None
    assert own.remark == "mine"
    assert other is not None
    assert (other.code, other.remark) == (1, "The Consumer Group <H> not exist in this consumer")
    with pytest.raises(CodecError):
        requests.process(LINK, RemotingCommand(code, {}))


def test_codes_without_a_group_reach_all_handlers() -> None:
    requests, heard = ClientRemotingProcessor(), list[str]()

    def first(request: PushedReply) -> None:
        heard.append("first")

    def second(request: PushedReply) -> RemotingCommand:
        heard.append("second")
        return request.reply(None)

    for handler in (first, second):
        requests.register(PUSH_REPLY_MESSAGE_TO_CLIENT, handler)
    request = RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, opaque=3)
    reply = requests.process(LINK, request)
    assert reply is not None
    assert heard == ["first", "second"]
    requests.unregister(PUSH_REPLY_MESSAGE_TO_CLIENT, first)
    requests.unregister(PUSH_REPLY_MESSAGE_TO_CLIENT, first)
    requests.unregister(PUSH_REPLY_MESSAGE_TO_CLIENT, second)
    assert requests.process(LINK, request) is None
    assert not requests.codes


def test_a_consumer_that_is_closed_again_removes_no_handler_of_the_next() -> None:
    instance = ClientInstance(NAMESRV)
    first, second = (
        ConsumerProcessor(instance, GROUP, print, lambda topic: {}, lambda stacks: ConsumerRunningInfo())
        for _ in range(2)
    )
    first.open()
    first.close()
    assert not instance.requests.codes
    second.open()
    first.close()
    assert instance.requests.codes == {CODES["notified"], CODES["info"], CODES["status"]}
