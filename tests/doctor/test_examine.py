"""The survey and the probe on a cluster in memory, on the virtual clock."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import LOST, Lost, embedded_in_memory
from rmqcli.client import UNREACHED, Admin, PushConsumer
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.doctor.checks import judge
from rmqcli.doctor.finding import Status
from rmqcli.doctor.servers import PREFIX, probe
from rmqcli.doctor.survey import Reading, Survey, examine

LIMIT = 3.0


async def lose_sends(address: str, request: RemotingCommand) -> Lost | None:
    return LOST if request.code == RequestCode.SEND_MESSAGE_V2 else None


async def test_a_dead_broker_costs_one_time_limit(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, cluster.broker(broker_name="broker-b") as other:
        cluster.cut(other.broker_address, 3600)
        async with Admin(**cluster.client() | {"timeout": LIMIT}) as admin:
            began = trio.current_time()
            survey = await examine(admin, "nowhere", "nobody")
            assert trio.current_time() - began <= LIMIT + 1
    assert isinstance(survey.readings[other.broker_address], UNREACHED)
    assert survey.masters == {"broker-a": cluster.broker_address}
    found = {finding.check: finding.status for finding in judge(survey)}
    assert found["broker"] is Status.FAIL
    assert found["route"] is Status.FAIL


async def test_a_silent_broker_costs_one_time_limit(autojump_clock: MockClock) -> None:
    silent: list[str] = []

    async def lose(address: str, request: RemotingCommand) -> Lost | None:
        return LOST if address in silent else None

    async with (
        embedded_in_memory(on_request=lose) as cluster,
        cluster.broker(broker_name="broker-b") as other,
    ):
        silent.append(other.broker_address)
        async with Admin(**cluster.client() | {"timeout": LIMIT}) as admin:
            began = trio.current_time()
            survey = await examine(admin, None, "nobody")
            assert trio.current_time() - began <= LIMIT + 1
        assert isinstance(survey.readings[other.broker_address], UNREACHED)
        assert isinstance(survey.readings[cluster.broker_address], Reading)


async def test_a_running_group(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        await admin.topics.create("orders")
        async with PushConsumer("g", {"orders": "*"}, lambda messages, context: None, **cluster.client()):
            await trio.sleep(1)
            survey = await examine(admin, "orders", "g")
    found = {finding.check: finding.status for finding in judge(survey)}
    assert found == dict.fromkeys(found, Status.OK) | {"same view": Status.SKIP, "VIP port": Status.WARN}
    assert {"route", "group", "subscriptions", "clock", "disk"} <= found.keys()


async def test_the_probe_leaves_nothing(autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory() as cluster,
        cluster.broker(broker_name="broker-b"),
        Admin(**cluster.client()) as admin,
    ):
        found = await probe(admin, (await examine(admin)).masters)
        assert [(one.status, one.target) for one in found] == [
            (Status.OK, "broker-a"),
            (Status.OK, "broker-b"),
        ]
        assert not [name for name in await admin.topics.names() if name.startswith(PREFIX)]
        assert (await probe(admin, {}))[0].status is Status.SKIP


async def test_a_probe_that_cannot_send(autojump_clock: MockClock) -> None:
    async with embedded_in_memory(on_request=lose_sends) as cluster, Admin(**cluster.client()) as admin:
        (found,) = await probe(admin, {cluster.broker_name: cluster.broker_address})
        assert found.status is Status.FAIL
        assert not [name for name in await admin.topics.names() if name.startswith(PREFIX)]


async def test_a_probe_that_cannot_make_its_topic(autojump_clock: MockClock) -> None:
    async def refused(address: str, request: RemotingCommand) -> RemotingCommand | None:
        making = request.code == RequestCode.UPDATE_AND_CREATE_TOPIC
        return request.reply(ResponseCode.NO_PERMISSION, "no") if making else None

    async with embedded_in_memory(on_request=refused) as cluster, Admin(**cluster.client()) as admin:
        (found,) = await probe(admin, {cluster.broker_name: cluster.broker_address})
    assert (found.status, "NO_PERMISSION" in found.text) == (Status.FAIL, True)


async def test_a_probe_that_cannot_be_removed(autojump_clock: MockClock) -> None:
    async def refused(address: str, request: RemotingCommand) -> RemotingCommand | None:
        removing = request.code == RequestCode.DELETE_TOPIC_IN_BROKER
        return request.reply(ResponseCode.NO_PERMISSION, "no") if removing else None

    async with embedded_in_memory(on_request=refused) as cluster, Admin(**cluster.client()) as admin:
        sent, left = await probe(admin, {cluster.broker_name: cluster.broker_address})
    assert (sent.status, left.status) == (Status.OK, Status.WARN)
    assert left.fix == f"remove it with: rmq topic delete {left.target}"


async def test_a_probe_that_is_cancelled_leaves_nothing(autojump_clock: MockClock) -> None:
    async with embedded_in_memory(on_request=lose_sends) as cluster, Admin(**cluster.client()) as admin:
        with trio.move_on_after(1):
            await probe(admin, {cluster.broker_name: cluster.broker_address})
        assert not [name for name in await admin.topics.names() if name.startswith(PREFIX)]


def test_a_survey_without_name_servers() -> None:
    assert Survey({}).seats == [] and not Survey({}).answered
