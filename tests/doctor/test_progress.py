"""Groups that stand still, on a cluster in memory and the virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import LOST, Lost, MemoryCluster, embedded_in_memory
from rmqcli.client import Admin, ConsumeResult, Producer, PushConsumer, PushSettings
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.doctor.checks import judge
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.group_facts import members_of
from rmqcli.doctor.members import judged
from rmqcli.doctor.survey import examine
from rmqcli.monitor.measures import stuck
from rmqcli.monitor.verdict import Figure


class Group:
    """A member of group `g` of topic `T` with two queues, whose listener hangs until `go` is set."""

    def __init__(self, cluster: MemoryCluster, admin: Admin) -> None:
        self.cluster, self.admin, self.go = cluster, admin, trio.Event()

    async def listen(self, messages: list[MessageExt], context: Any) -> ConsumeResult:
        await self.go.wait()
        return ConsumeResult.SUCCESS

    async def send(self, count: int = 4) -> None:
        async with Producer("p", **self.cluster.client()) as producer:
            for _ in range(count):
                await producer.send(Message(topic="T", body=b"x"))

    async def findings(self, check: str = "progress") -> list[Finding]:
        found = await members_of(self.admin, "g", {})
        return [finding for finding in judged(found) if finding.check == check]

    def member(self) -> PushConsumer:
        settings = PushSettings(grace=0.0, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        return PushConsumer("g", {"T": "*"}, self.listen, settings=settings, **self.cluster.client())


@asynccontextmanager
async def group(**settings: Any) -> AsyncIterator[Group]:
    async with (
        embedded_in_memory(**settings) as cluster,
        Admin(**cluster.client()) as admin,
    ):
        await admin.topics.create("T", read_queues=2, write_queues=2)
        yield Group(cluster, admin)


async def test_a_listener_that_hangs_is_found(autojump_clock: MockClock) -> None:
    async with group() as one, one.member() as member:
        await one.send()
        await trio.sleep(20)
        assert [finding.status for finding in await one.findings()] == [Status.OK]
        assert (await stuck(one.admin)).figures == [Figure(0, "g")]
        await trio.sleep(30)
        (finding,) = await one.findings()
        assert (finding.status, finding.target) == (Status.WARN, "g T")
        await trio.sleep(100)
        (finding,) = await one.findings()
        assert finding.status is Status.FAIL
        assert finding.text.startswith(
            "queues broker-a:0-1 have not moved for 2 min 30 s: 4 messages to consume, "
        )
        assert f"held by {member.instance.client_id} with 4 cached" in finding.text
        assert finding.fix is not None and "--stack" in finding.fix
        assert (
            (await stuck(one.admin)).figures == (await stuck(one.admin, ["g"])).figures == [Figure(150, "g")]
        )
        told = [
            finding.status
            for finding in judge(await examine(one.admin, others=True))
            if finding.check == "progress"
        ]
        named = [
            finding.status
            for finding in judge(await examine(one.admin, None, "g"))
            if finding.check == "progress"
        ]
        assert told == named == [Status.FAIL]
        one.go.set()
        await trio.sleep(20)
        assert [finding.status for finding in await one.findings()] == [Status.OK]
        assert (await stuck(one.admin, ["g"])).figures == [Figure(0, "g")]


async def test_a_quiet_topic_with_a_new_message_does_not_stand_still(autojump_clock: MockClock) -> None:
    async with group() as one, one.member():
        one.go.set()
        await one.send()
        await trio.sleep(110)
        one.go = trio.Event()
        await one.send()
        await trio.sleep(3)
        assert [finding.status for finding in await one.findings()] == [Status.OK]


async def test_a_client_that_does_not_report_is_named(autojump_clock: MockClock) -> None:
    async def silent(address: str, request: RemotingCommand) -> RemotingCommand | Lost | None:
        return LOST if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO else None

    async with group(on_request=silent) as one, one.member() as member:
        await one.send()
        await trio.sleep(60)
        (finding,) = await one.findings()
        assert finding.status is Status.WARN
        assert f"held by a client that does not report ({member.instance.client_id})" in finding.text


async def test_messages_that_nobody_consumes_are_told(autojump_clock: MockClock) -> None:
    async with group() as one:
        one.go.set()
        async with one.member():
            await one.send()
            await trio.sleep(20)
        await one.send(3)
        await trio.sleep(100)
        (finding,) = await one.findings("clients")
        text = "no client is running, and 3 messages to consume, the first for 1 min 40 s"
        assert (finding.status, finding.text) == (Status.WARN, text)


async def test_two_clients_may_share_the_queue_of_a_retry_topic(autojump_clock: MockClock) -> None:
    async with group() as one:
        one.go.set()
        async with one.member(), one.member():
            await one.send()
            await trio.sleep(60)
            found = await one.findings("queues")
    assert {(finding.target, finding.status) for finding in found} == {
        ("g T", Status.OK),
        ("g %RETRY%g", Status.OK),
    }


async def test_messages_that_were_deleted_before_they_were_consumed(autojump_clock: MockClock) -> None:
    """Brokers give no age of a message that is gone: it is not taken for one that has just come."""
    small = {"mapped_file_size_commit_log": 1 << 16, "file_reserved_time": 1}
    async with group(**small) as one:
        one.go.set()
        async with one.member():
            await one.send(2)
            await trio.sleep(20)
        async with Producer("p", **one.cluster.client()) as producer:
            for _ in range(80):
                await producer.send(Message(topic="T", body=bytes(4000)))
        await trio.sleep(3660)
        await one.admin.brokers.clean(await one.admin.brokers.masters(), "log")
        (offsets,) = await one.findings("offsets")
        assert offsets.status is Status.WARN, "nobody reads it now"
        assert offsets.text == "messages were deleted before they were consumed: queues broker-a:0-1"
        (clients,) = await one.findings("clients")
        assert "the first for 1 h 1 min" in clients.text
