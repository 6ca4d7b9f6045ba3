"""Allocation by the broker, on clusters in memory: members of a group ask it which queues are theirs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.client import Admin, ConsumeResult, PushConsumer
from rmqcli.codec.allocation import STRATEGIES
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.support import Reply, fake_broker

TOPIC, GROUP = "T", "G"
Places = list[tuple[str, int]]


async def listen(messages: list[Any], context: Any) -> ConsumeResult:
    return ConsumeResult.SUCCESS


@asynccontextmanager
async def two_brokers(**options: Any) -> AsyncIterator[tuple[MemoryCluster, str, Admin]]:
    """A cluster of two brokers with three queues of T each, the second broker's address, and an Admin."""
    async with (
        broker.embedded_in_memory(broker_name="broker-a", **options) as cluster,
        cluster.broker(broker_name="broker-b") as second,
        Admin(**cluster.client()) as admin,
    ):
        await admin.topics.create(TOPIC, read_queues=3, write_queues=3)
        yield cluster, second.broker_address, admin


def question(client: str, strategy: str = "AVG", model: str = "CLUSTERING", **changed: str) -> bytes:
    said = {"topic": TOPIC, "consumerGroup": GROUP, "clientId": client, "strategyName": strategy}
    return json.dumps({**said, "messageModel": model, **changed}).encode()


async def ask(admin: Admin, address: str, body: bytes) -> RemotingCommand:
    return await admin.invoke(address, R.QUERY_ASSIGNMENT, None, body)


def places(reply: RemotingCommand) -> Places | None:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    assigned = json.loads(bytes(reply.body)).get("messageQueueAssignments")
    if assigned is None:
        return None
    assert {one["mode"] for one in assigned} <= {"PULL"}
    queues = [one["messageQueue"] for one in assigned]
    assert {queue["topic"] for queue in queues} <= {TOPIC}
    return [(queue["brokerName"], queue["queueId"]) for queue in queues]


@asynccontextmanager
async def members(cluster: MemoryCluster, admin: Admin, count: int) -> AsyncIterator[list[str]]:
    """The client ids of so many members of G, as the broker knows them."""
    async with trio.open_nursery() as nursery:

        async def run(number: int, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            options = {**cluster.client(), "instance_name": f"m{number}"}
            async with PushConsumer(GROUP, {TOPIC: "*"}, listen, **options):
                task_status.started()
                await trio.sleep_forever()

        for number in range(count):
            await nursery.start(run, number)
        header = {"consumerGroup": GROUP}
        reply = await admin.invoke(cluster.broker_address, R.GET_CONSUMER_LIST_BY_GROUP, header)
        yield json.loads(bytes(reply.body))["consumerIdList"]
        nursery.cancel_scope.cancel()


EVERY = [(name, number) for name in ("broker-a", "broker-b") for number in range(3)]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_the_members_share_the_queues_of_all_brokers(autojump_clock: Any, strategy: str) -> None:
    async with two_brokers() as (cluster, other, admin), members(cluster, admin, 4) as clients:
        assert len(clients) == 4
        shares = {one: places(await ask(admin, other, question(one, strategy))) for one in clients}
        taken = Counter(place for share in shares.values() for place in share or ())
        assert taken == Counter(EVERY), "each queue has one owner"
        for client in clients:  # whichever broker is asked
            reply = await ask(admin, cluster.broker_address, question(client, strategy))
            assert places(reply) == shares[client]
        if strategy == "AVG":
            assert [len(shares[one] or ()) for one in sorted(clients)] == [2, 2, 1, 1]


async def test_what_is_no_division(autojump_clock: Any) -> None:
    async with two_brokers() as (cluster, other, admin):
        assert places(await ask(admin, other, question("me"))) is None, "nobody is in the group"
        assert places(await ask(admin, other, question("me", "", "BROADCASTING"))) == EVERY
        async with members(cluster, admin, 1) as (client,):
            assert places(await ask(admin, other, question(client, topic="unknown"))) is None
            assert places(await ask(admin, other, question("a stranger"))) == []
            refused = await ask(admin, other, question(client, "MACHINE_ROOM"))
            assert (refused.code, refused.remark) == (
                ResponseCode.SYSTEM_ERROR,
                "strategy 'MACHINE_ROOM' is not known to brokers, only AVG, AVG_BY_CIRCLE, CONSISTENT_HASH: "
                "allocate in the client",
            )
            refused = await ask(admin, other, question(client, "AVG", "NEITHER"))
            assert refused.remark == "messageModel: BROADCASTING or CLUSTERING is expected"


async def test_a_route_is_read_again_and_survives_the_name_server(autojump_clock: Any) -> None:
    asked: list[str] = []

    async def watch(address: str, request: RemotingCommand) -> None:
        if request.code == R.GET_ROUTEINFO_BY_TOPIC:
            asked.append((request.ext_fields or {})["topic"])

    everything = question("me", "AVG", "BROADCASTING")
    async with two_brokers(on_request=watch) as (cluster, other, admin):

        async def burst() -> list[int]:
            counts: list[int] = []

            async def one() -> None:
                counts.append(len(places(await ask(admin, other, everything)) or ()))

            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(one)
            return counts

        asked.clear()
        assert (await burst(), asked) == ([6] * 20, [TOPIC]), "twenty questions share one answer"
        await admin.topics.create(TOPIC, read_queues=5, write_queues=5)
        assert await burst() == [6] * 20
        await trio.sleep(6)
        assert await burst() == [10] * 20
        cluster.cut(cluster.namesrv, 60)
        await trio.sleep(6)
        assert await burst() == [10] * 20, "what was known holds"
        begun = trio.current_time()
        refused = await ask(admin, other, question("me", "AVG", "BROADCASTING", topic="New"))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert (refused.remark or "").startswith(f"name server {cluster.namesrv}: ")
        assert trio.current_time() - begun <= 1.1


async def test_the_mode_of_a_group_is_set_and_kept(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as fake:
        client = fake.client()
        await client.send(TOPIC)

        async def set_mode(mode: str, **changed: str) -> Reply:
            said = {"topic": TOPIC, "consumerGroup": "New", "mode": mode, **changed}
            return await client.ask(R.SET_MESSAGE_REQUEST_MODE, None, json.dumps(said).encode())

        assert (await set_mode("PUSH")).code == ResponseCode.INVALID_PARAMETER
        assert (await set_mode("POP", topic="%RETRY%G")).code == ResponseCode.NO_PERMISSION
        assert (await set_mode("POP", topic="unknown")).code == ResponseCode.TOPIC_NOT_EXIST
        assert fake.context.groups.get("New") is None
        assert (await set_mode("POP")).code == ResponseCode.SUCCESS
        assert fake.context.groups.get("New") is not None, "Java creates it, too"
        fake.context.groups.auto_create = False
        refused = await set_mode("PULL", consumerGroup="Newer")
        assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        saved = (tmp_path / "config/messageRequestMode.json").read_text()
        assert '"mode":"POP"' in saved
    async with fake_broker(tmp_path) as fake:
        client = fake.client()
        told = (await client.ask(R.GET_ALL_MESSAGE_REQUEST_MODE)).body
        assert json.loads(told)["messageRequestModeMap"][TOPIC]["New"]["mode"] == "POP"
        assert (await client.ask(207, {"groupName": "New"})).code == 0
        assert (await client.ask(R.GET_ALL_MESSAGE_REQUEST_MODE)).body == b'{"messageRequestModeMap":{}}'


async def test_members_that_pop_share_queues(autojump_clock: Any) -> None:
    async with two_brokers() as (cluster, other, admin), members(cluster, admin, 4) as clients:

        async def shares(share: int) -> list[Places]:
            body = {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": share}
            reply = await admin.invoke(other, R.SET_MESSAGE_REQUEST_MODE, None, json.dumps(body).encode())
            assert reply.code == 0, reply.remark
            told = [
                json.loads(bytes((await ask(admin, other, question(one))).body)) for one in sorted(clients)
            ]
            assigned = [one["messageQueueAssignments"] for one in told]
            assert {one["mode"] for each in assigned for one in each} == {"POP"}
            queues = [[one["messageQueue"] for one in each] for each in assigned]
            return [[(one["brokerName"], one["queueId"]) for one in each] for each in queues]

        assert await shares(0) == await shares(3) == [[("broker-a", -1), ("broker-b", -1)]] * 4
        alone = [EVERY[:2], EVERY[2:4], EVERY[4:5], EVERY[5:]]
        assert await shares(1) == [
            alone[0] + alone[1],
            alone[1] + alone[2],
            alone[2] + alone[3],
            alone[3] + alone[0],
        ]
        retry = json.loads(bytes((await ask(admin, other, question(clients[0], topic="%RETRY%G"))).body))
        assert {one["mode"] for one in retry["messageQueueAssignments"]} <= {"PULL"}
