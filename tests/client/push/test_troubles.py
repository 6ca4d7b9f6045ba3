"""The errors that a consumer reports for queues without messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from rmqcli import broker
from rmqcli.client import Admin, BrokerRefused, ConsumeContext, ConsumeResult, PushConsumer
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.remoting.command import RemotingCommand

Refuses = Callable[[RemotingCommand], bool]
GROUP, TOPIC = "packers", "orders"
QUEUES = [f"{TOPIC}@broker-a:{number}" for number in range(2)]


class Refusing:
    """Answers requests with NO_PERMISSION while `refuses` is set."""

    def __init__(self, refuses: Refuses) -> None:
        self.refuses = refuses

    async def __call__(self, _: str, request: RemotingCommand) -> RemotingCommand | None:
        return request.reply(ResponseCode.NO_PERMISSION, "no") if self.refuses(request) else None


async def consume(_: list[MessageExt], __: ConsumeContext) -> ConsumeResult:
    return ConsumeResult.SUCCESS


def member(cluster: broker.MemoryCluster) -> PushConsumer:
    return PushConsumer(GROUP, {TOPIC: "*"}, consume, **cluster.client())


def of_queue(code: RequestCode, number: str) -> Refuses:
    def refuses(request: RemotingCommand) -> bool:
        fields = request.ext_fields or {}
        return request.code == code and (fields["topic"], fields["queueId"]) == (TOPIC, number)

    return refuses


@pytest.mark.parametrize(
    ("refuses", "places"),
    [
        (lambda request: request.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP, [TOPIC]),
        (of_queue(RequestCode.PULL_MESSAGE, "1"), [QUEUES[1]]),
        (of_queue(RequestCode.QUERY_CONSUMER_OFFSET, "0"), [QUEUES[0]]),
    ],
)
async def test_the_last_failure_is_reported_until_it_works(
    autojump_clock: MockClock, refuses: Refuses, places: list[str]
) -> None:
    refusing = Refusing(refuses)
    async with broker.embedded_in_memory(on_request=refusing) as cluster:
        async with Admin(**cluster.client()) as admin:
            await admin.topics.create(TOPIC, read_queues=2, write_queues=2)
        async with member(cluster) as consumer:
            await consumer.divided()
            await trio.sleep(0.1)
            troubles = consumer.troubles(TOPIC)
            assert list(troubles) == places
            assert all(isinstance(error, BrokerRefused) for error in troubles.values())
            assert consumer.troubles("other") == {}
            refusing.refuses = lambda _: False
            await trio.sleep(21)
            assert consumer.troubles(TOPIC) == {}
            assert list(map(str, consumer.queues)) == [f"%RETRY%{GROUP}@broker-a:0", *QUEUES]


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.QUERY_CONSUMER_OFFSET])
async def test_a_queue_of_another_member_is_not_an_error(
    autojump_clock: MockClock, code: RequestCode
) -> None:
    async with broker.embedded_in_memory(on_request=Refusing(of_queue(code, "1"))) as cluster:
        async with Admin(**cluster.client()) as admin:
            await admin.topics.create(TOPIC, read_queues=2, write_queues=2)
        async with member(cluster) as first:
            await trio.sleep(1)
            assert list(first.troubles(TOPIC)) == [QUEUES[1]]
            async with member(cluster) as second:
                await trio.sleep(21)
                troubles = [list(one.troubles(TOPIC)) for one in (first, second)]
    assert sorted(troubles) == [[], [QUEUES[1]]]
