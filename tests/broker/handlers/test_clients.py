"""Heartbeats, groups online, who hears of changes, locks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from rmqcli.broker.errors import NotReady
from rmqcli.broker.handlers.clients import QUEUES_PER_STEP
from rmqcli.broker.net.handling import LONGEST_BODY, LONGEST_ODD_BODY, LONGEST_PROPERTIES
from rmqcli.broker.net.turns import FIRST_STEPS, Pace
from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from rmqcli.codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rmqcli.codec.bodies.running import (
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    ProducerConnection,
    ProducerTableInfo,
)
from rmqcli.codec.message_queue import MessageQueue
from tests.broker.support import Client, fake_broker, virtual_now


def notified(client: Client) -> list[str]:
    """The groups whose change the client heard of since the last call."""
    pushed, client.session.pushed = client.session.pushed, []
    assert {command.code for command in pushed} <= {40}
    return [(command.ext_fields or {})["consumerGroup"] for command in pushed]


async def members(client: Client, group: str) -> list[str]:
    reply = await client.ask(38, {"consumerGroup": group})
    return (
        decode_body(GetConsumerListByGroupResponseBody, reply.body).consumer_id_list
        if reply.code == 0
        else []
    )


async def test_a_heartbeat_makes_group_and_retry_topic(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        reply = await client.heartbeat("G", "T")
        assert (reply.code, dict(reply.ext)) == (0, {})
        assert "G" in broker.context.groups
        retry = broker.context.topics.get("%RETRY%G")
        assert retry is not None
        assert (retry.write_queue_nums, retry.perm) == (1, 6)
        assert await members(client, "G") == [f"client-{client.session.peer[1]}"]


async def test_the_retry_topic_of_a_unit_is_marked(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        await broker.client().heartbeat("G", "T", unit_mode=True)
        retry = broker.context.topics.get("%RETRY%G")
        assert retry is not None
        assert retry.topic_sys_flag == 2


async def test_every_member_hears_of_a_topic_that_is_given_up(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        one, other = broker.client(), broker.client()
        for client in (one, other):
            await client.heartbeat("G", "T", "U")
        notified(one), notified(other)
        await one.heartbeat("G", "T", "U")
        assert (notified(one), notified(other)) == ([], [])
        await one.heartbeat("G", "T")
        assert (notified(one), notified(other)) == (["G"], ["G"])


async def test_a_connection_that_takes_another_client_id_is_a_change(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.heartbeat("G", "T")
        notified(client)
        data = HeartbeatData(
            client_id="renamed",
            consumer_data_set=[
                ConsumerData(
                    group_name="G", subscription_data_set=[SubscriptionData(topic="T", sub_string="*")]
                )
            ],
        )
        await client.ask(34, None, encode_body(data))
        assert await members(client, "G") == ["renamed"]
        assert notified(client) == ["G"]


async def test_every_member_hears_of_a_change_and_only_of_a_change(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        one, two = broker.client(), broker.client()
        await one.heartbeat("G", "T")
        assert notified(one) == ["G"]
        await one.heartbeat("G", "T")
        assert notified(one) == []
        await two.heartbeat("G", "T")
        assert (notified(one), notified(two)) == (["G"], ["G"])
        await two.heartbeat("G", "T", "U", version=2)
        assert (notified(one), notified(two)) == (["G"], ["G"])
        await two.ask(35, {"clientID": "x", "consumerGroup": "G"})
        assert (notified(one), notified(two)) == (["G"], [])
        assert len(await members(one, "G")) == 1


async def test_a_connection_that_closes_leaves_its_groups_at_once(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        one, two = broker.client(), broker.client()
        await one.heartbeat("G", "T")
        await two.heartbeat("G", "T")
        notified(one)
        two.session.close()
        assert notified(one) == ["G"]
        one.session.close()
        reply = await broker.client().ask(38, {"consumerGroup": "G"})
        assert (reply.code, reply.remark) == (1, "no consumer for this group, G")


@pytest.mark.parametrize("switched_off", ["group", "broker"])
async def test_notifications_can_be_switched_off(tmp_path: Path, switched_off: str) -> None:
    async with fake_broker(tmp_path, notify_consumer_ids_changed_enable=switched_off != "broker") as broker:
        client = broker.client()
        enabled = "false" if switched_off == "group" else "true"
        await client.ask(
            200, None, f'{{"groupName":"G","notifyConsumerIdsChangedEnable":{enabled}}}'.encode()
        )
        await client.heartbeat("G", "T")
        assert notified(client) == []


async def test_silent_clients_expire(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        one, two = broker.client(), broker.client()
        await one.heartbeat("G", "T")
        await two.heartbeat("G", "T")
        for _ in range(4):
            await trio.sleep(29)
            await one.heartbeat("G", "T")
        notified(one)
        await trio.sleep(20)
        assert two.session.closed
        assert not one.session.closed
        assert notified(one) == ["G"]
        await trio.sleep(130)
        assert broker.context.consumers.get("G") is None


async def test_clients_and_locks_stay_when_the_clock_is_set_forward(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    ahead = 0
    body = LockBatchRequestBody(consumer_group="G", client_id="c", mq_set=[MessageQueue("T", "broker-a", 0)])
    async with fake_broker(tmp_path, lambda: virtual_now() + ahead) as broker:
        client = broker.client()
        await client.heartbeat("G", "T")
        await client.ask(41, None, encode_body(body))
        ahead = 3_600_000
        await trio.sleep(25)
        assert not client.session.closed
        reply = await client.ask(41, None, encode_body(replace(body, client_id="another")))
        assert decode_body(LockBatchResponseBody, reply.body).lock_ok_mq_set == []


async def test_subscriptions_follow_the_newest_version(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.heartbeat("G", "T", expression="A", version=5)
        await client.heartbeat("G", "T", expression="B", version=4)
        group = broker.context.consumers.get("G")
        assert group is not None
        assert group.subscriptions["T"].sub_string == "A"
        await client.heartbeat("G", "T", expression="B", version=6)
        assert group.subscriptions["T"].sub_string == "B"
        await client.heartbeat("G", "U", version=7)
        assert list(group.subscriptions) == ["U"]


async def test_connections_of_a_group(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client(version=401, language=9)
        await client.heartbeat(
            "G",
            "T",
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        )
        body = decode_body(ConsumerConnection, (await client.ask(203, {"consumerGroup": "G"})).body)
        (connection,) = body.connection_set
        assert (connection.client_addr, connection.language, connection.version) == (
            client.session.peer_text,
            "GO",
            401,
        )
        assert (body.consume_type, body.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
        assert list(body.subscription_table) == ["T"]
        offline = await client.ask(203, {"consumerGroup": "None"})
        assert (offline.code, offline.remark) == (206, "the consumer group[None] not online")


async def test_producers(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        data = HeartbeatData(client_id="c1", producer_data_set=[ProducerData(group_name="P")])
        await client.ask(34, None, encode_body(data))
        found = decode_body(ProducerConnection, (await client.ask(204, {"producerGroup": "P"})).body)
        assert [c.client_id for c in found.connection_set] == ["c1"]
        table = decode_body(ProducerTableInfo, (await client.ask(328)).body).data
        assert table["P"][0].remote_ip == f"/{client.session.peer_text}"
        await client.ask(35, {"clientID": "c1", "producerGroup": "P"})
        assert (await client.ask(204, {"producerGroup": "P"})).code == 1
        await client.ask(34, None, encode_body(data))
        await trio.sleep(131)
        assert client.session.closed
        assert (await client.ask(328)).body == b'{"data":{}}'


@pytest.mark.parametrize(
    ("kind", "text", "code"), [("TAG", "A || B", 0), ("TAG", "||", 0), ("SQL92", "a > 1", 1), (None, "*", 0)]
)
async def test_a_subscription_is_checked(tmp_path: Path, kind: str | None, text: str, code: int) -> None:
    async with fake_broker(tmp_path) as broker:
        body = CheckClientRequestBody(
            client_id="c",
            group="G",
            subscription_data=SubscriptionData(topic="T", sub_string=text, expression_type=kind),  # type: ignore[arg-type]
        )
        assert (await broker.client().ask(46, None, encode_body(body))).code == code


async def test_locks_are_exclusive_and_expire(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    queues = [MessageQueue("T", "broker-a", n) for n in range(2)]

    async def lock(client: Client, who: str, wanted: list[MessageQueue]) -> list[MessageQueue]:
        body = LockBatchRequestBody(consumer_group="G", client_id=who, mq_set=wanted)
        reply = await client.ask(41, None, encode_body(body))
        return decode_body(LockBatchResponseBody, reply.body).lock_ok_mq_set

    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert await lock(client, "one", queues) == queues
        assert await lock(client, "two", queues) == []
        assert await lock(client, "one", queues[:1]) == queues[:1]
        unlock = UnlockBatchRequestBody(consumer_group="G", client_id="two", mq_set=queues)
        assert (await client.ask(42, None, encode_body(unlock))).code == 0
        assert await lock(client, "two", queues) == [], "nobody gives back another's locks"
        await trio.sleep(60)
        assert await lock(client, "one", queues[:1]) == queues[:1]
        await trio.sleep(0.1)
        assert await lock(client, "two", queues) == queues[1:]
        mine = UnlockBatchRequestBody(consumer_group="G", client_id="one", mq_set=queues)
        await client.ask(42, None, encode_body(mine))
        assert await lock(client, "two", queues) == queues


def heartbeat_of(groups: int, first: int = 0) -> bytes:
    names = [f"G{number}" for number in range(first, first + groups)]
    consumers = [ConsumerData(group_name=name) for name in names]
    producers = [ProducerData(group_name=name) for name in names]
    return encode_body(HeartbeatData(client_id="c", consumer_data_set=consumers, producer_data_set=producers))


async def test_a_heartbeat_of_many_groups_takes_as_many_turns_as_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_broker(tmp_path) as broker:
        client, groups, known = broker.client(), 3 * FIRST_STEPS, list[int]()
        turns = client.session.turns

        async def next_turn() -> None:
            known.append(len(broker.context.consumers.groups()))

        monkeypatch.setattr(turns, "next", next_turn)
        monkeypatch.setattr(Pace, "is_over", True)
        opaque = await client.post_when_ready(34, None, heartbeat_of(groups))
        assert (await client.wait(opaque)).code == 0
        assert known[-1] == groups
        assert max(after - before for before, after in pairwise(known)) == 1
        assert set(broker.context.producers.groups()) == {f"G{number}" for number in range(groups)}


async def test_one_connection_is_in_so_many_groups_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.tables.clients.MOST_GROUPS", 8)
    async with fake_broker(tmp_path) as broker:
        client, other = broker.client(), broker.client()
        assert (await client.ask(34, None, heartbeat_of(8))).code == 0
        reply = await client.ask(34, None, heartbeat_of(1, first=8))
        assert (reply.code, reply.remark) == (1, "a connection can be in 8 groups at most")
        assert (await client.ask(34, None, heartbeat_of(8))).code == 0
        assert (await other.ask(34, None, heartbeat_of(8, first=8))).code == 0
        await client.ask(35, {"clientID": "c", "producerGroup": "G0", "consumerGroup": "G0"})
        assert (await client.ask(34, None, heartbeat_of(1, first=8))).code == 0
        client.session.close()
        await trio.testing.wait_all_tasks_blocked()
        assert await members(other, "G8") == ["c"]
        assert await members(other, "G1") == []


async def test_lines_of_properties_that_would_take_long_to_read_are_refused(tmp_path: Path) -> None:
    """1 MiB of them took 360 ms."""
    async with fake_broker(tmp_path) as broker:
        reply = await broker.client().ask(25, None, b"#" * (LONGEST_PROPERTIES + 1))
        assert reply.code == 1
        assert f"{LONGEST_PROPERTIES} is the limit" in (reply.remark or "")


async def test_a_body_that_would_take_long_to_decode_is_refused(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        reply = await broker.client().ask(34, None, heartbeat_of(1) + b" " * LONGEST_BODY)
        assert reply.code == 1
        assert f"{LONGEST_BODY} is the limit" in (reply.remark or "")


async def test_a_body_in_odd_json_is_refused_when_it_is_long(tmp_path: Path) -> None:
    """Such a body is read a hundred times as slowly; short ones of foreign clients are served."""
    odd = heartbeat_of(1).replace(b'"clientID":', b"clientID:")
    assert odd != heartbeat_of(1)
    long = b" " * LONGEST_ODD_BODY
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.ask(34, None, odd)).code == 0
        assert (await client.ask(34, None, heartbeat_of(1) + long)).code == 0
        referring = heartbeat_of(1).replace(b'"clientID":', b'"x":{"$ref":"$"},"clientID":')
        for body in (odd + long, referring + long):
            reply = await client.ask(34, None, body)
            assert (reply.code, f"{LONGEST_ODD_BODY} is the limit" in (reply.remark or "")) == (1, True)


async def test_many_queues_are_locked_and_released_in_steps(tmp_path: Path) -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(40 * QUEUES_PER_STEP)]
    names: Any = {"consumer_group": "G", "client_id": "c", "mq_set": queues}
    async with fake_broker(tmp_path) as broker:
        client, locks = broker.client(), broker.context.locks
        for code, body, before, after in (
            (41, LockBatchRequestBody(**names), 0, len(queues)),
            (42, UnlockBatchRequestBody(**names), len(queues), 0),
        ):
            with pytest.raises(NotReady) as error:
                client.post(code, None, encode_body(body))
            assert abs(len(locks) - before) == FIRST_STEPS * QUEUES_PER_STEP
            await error.value.ready()
            assert len(locks) == after


async def test_a_connection_creates_a_bounded_number_of_topics_and_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.services.clients.MOST_CREATED", 3)
    async with fake_broker(tmp_path) as broker:
        client, topics, groups = broker.client(), broker.context.topics, broker.context.groups
        assert (await client.send("T0")).code == 0
        assert (await client.heartbeat("G0", "T0")).code == 0
        assert (await client.pull("T0", group="G1")).code == 0
        before = len(topics), len(groups)
        for refused in (
            await client.send("T1"),
            await client.heartbeat("G2", "T0"),
            await client.pull("T0", group="G3"),
        ):
            assert refused.remark == "a connection can create 3 topics and groups by using them"
        assert (len(topics), len(groups)) == before
        assert (await client.send("T0")).code == 0
        assert (await broker.client().send("T1")).code == 0
        client.session.close()
        assert broker.context.created.keys().isdisjoint([client.session])


async def test_the_subscriptions_of_a_connection_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a heartbeat replaces count no more, nor do those of groups that it left."""
    monkeypatch.setattr("rmqcli.broker.tables.clients.LONGEST_SUBSCRIPTIONS", 200)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for number in range(5):
            assert (await client.heartbeat("G", "T" * 100, version=number)).code == 0
        for refused in (
            await client.heartbeat("H", "U" * 100),
            await client.heartbeat("H", "U", expression="a||b||c"),
        ):
            assert (refused.code, "can have 200 characters at most" in (refused.remark or "")) == (1, True)
        assert broker.context.consumers.get("H") is None
        await client.ask(35, {"clientID": "c", "consumerGroup": "G"})
        assert (await client.heartbeat("H", "U" * 100)).code == 0
        assert (await broker.client().heartbeat("G", "T" * 100)).code == 0
