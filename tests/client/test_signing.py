"""Clients with credentials sign every request, to brokers and name servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import (
    Admin,
    ConsumeContext,
    ConsumeResult,
    Credentials,
    InvalidRequest,
    LitePullConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
    create_reply_message,
)
from rmqcli.client.trace.dispatcher import TRACE_TOPIC
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.signed import ACCESS_KEY, SECURITY_TOKEN
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.signature import Mac, is_signed

SECRET = "very-secret-key"
ACCOUNT = Credentials("rocketmq2", SECRET, "a-token")
OF_SERVERS = {RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.QUERY_DATA_VERSION}


class Seen:
    """The codes of all requests of clients; `unsigned` are those without a right signature."""

    def __init__(self) -> None:
        self.codes: set[int] = set()
        self.unsigned: list[str] = []
        self.topics: set[str] = set()

    async def __call__(self, address: str, request: RemotingCommand) -> None:
        if request.code in OF_SERVERS:
            return
        ext = request.ext_fields or {}
        self.codes.add(request.code)
        self.topics.add(ext.get("b", ""))
        keys = (ext.get(ACCESS_KEY), ext.get(SECURITY_TOKEN))
        if keys != ("rocketmq2", "a-token") or not is_signed(Mac(SECRET), request):
            self.unsigned.append(f"{RequestCode(request.code).name} {ext}")


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    yield found
    assert found.unsigned == []


async def commit(message: Message) -> TransactionState:
    return TransactionState.COMMIT_MESSAGE


async def unknown(half: MessageExt) -> TransactionState:
    return TransactionState.UNKNOW


async def test_producers_sign(autojump_clock: MockClock, seen: Seen) -> None:
    async with embedded_in_memory(on_request=seen) as cluster:
        options: Any = {**cluster.client(), "credentials": ACCOUNT}
        async with (
            TransactionProducer("TX", unknown, **options) as transactions,
            Producer("PG", trace=True, **options) as producer,
        ):
            await producer.send(Message.of("T", b"plain", tags="é"))
            await producer.send_batch([Message.of("T", b"1"), Message.of("T", b"2")])
            await producer.send_oneway(Message.of("T", b"one-way"))
            await producer.send_soon(Message.of("T", b"soon"))
            await transactions.send_in_transaction(Message.of("T", b"half"), commit)
    wanted = {
        *(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.END_TRANSACTION),
        *(RequestCode.HEART_BEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.UNREGISTER_CLIENT),
    }
    assert wanted <= seen.codes
    assert TRACE_TOPIC in seen.topics


async def test_consumers_sign(autojump_clock: MockClock, seen: Seen) -> None:
    async with embedded_in_memory(on_request=seen) as cluster:
        options: Any = {**cluster.client(), "credentials": ACCOUNT}

        async def answer(messages: list[Any], context: ConsumeContext) -> ConsumeResult:
            for message in messages:
                if message.body == b"question":
                    await asking.send(create_reply_message(message, b"answer"))
                elif message.reconsume_times == 0:
                    return ConsumeResult.RECONSUME_LATER
            return ConsumeResult.SUCCESS

        async with Producer("PG", **options) as asking:
            await asking.send(Message.of("T", b"again"))
            async with (
                PushConsumer("PushGroup", {"T": "*"}, answer, **options),
                LitePullConsumer("LiteGroup", **options) as lite,
                PullConsumer("PullGroup", **options) as pulling,
            ):
                reply = await asking.request(Message.of("T", b"question"), timeout=60)
                assert reply.body == b"answer"
                await lite.subscribe("T")
                await lite.poll(30)
                for queue in await pulling.message_queues("T"):
                    await pulling.pull(queue, 0)
    wanted = {
        *(RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET),
        *(RequestCode.SEND_REPLY_MESSAGE_V2, RequestCode.CONSUMER_SEND_MSG_BACK),
        *(RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.HEART_BEAT),
    }
    assert wanted <= seen.codes


async def test_administration_signs_and_queries_leave_out_their_kind(
    autojump_clock: MockClock, seen: Seen
) -> None:
    async with embedded_in_memory(on_request=seen) as cluster:
        options: Any = {**cluster.client(), "credentials": ACCOUNT}
        async with Producer("PG", **options) as producer, Admin(**options) as admin:
            sent = await producer.send(Message.of("T", b"x", keys=["k"]))
            await admin.topics.names()
            found = await admin.messages.query_by_key("T", "k")
            assert [message.msg_id for message in found.messages] == [sent.msg_id]
    assert {RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.QUERY_MESSAGE} <= seen.codes


def test_only_the_access_key_is_shown() -> None:
    assert repr(ACCOUNT) == "Credentials(access_key='rocketmq2')"


@pytest.mark.parametrize(("access", "secret"), [("", "secretkey"), ("rocketmq", " "), ("rocketmq", "\ud800")])
def test_keys_that_cannot_be(access: str, secret: str) -> None:
    with pytest.raises(InvalidRequest, match=r"the (access|secret) key is (empty|no Unicode text)") as caught:
        Credentials(access, secret)
    assert secret not in str(caught.value) or secret == " "
