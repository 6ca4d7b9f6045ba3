"""enablePropertyFilter switched at run time: as in 4.9.8, pulls and checks heed it, heartbeats do not."""

from __future__ import annotations

from pathlib import Path

import trio

from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import CheckClientRequestBody, SubscriptionData
from tests.broker.filters.support import BY_GROUP, REFUSED, SQL, SUSPENDED, bodies, fill, pull, subscribed
from tests.broker.support import Client, fake_broker, pull_header


async def switch(client: Client, on: bool) -> None:
    assert (await client.ask(25, None, f"enablePropertyFilter={str(on).lower()}\n".encode())).code == 0


async def check(client: Client) -> tuple[int, str | None]:
    subscription = SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92")
    body = CheckClientRequestBody(client_id="c", group="G", subscription_data=subscription)
    reply = await client.ask(46, None, encode_body(body))
    return reply.code, reply.remark


async def test_switched_on_it_serves_the_groups_that_were_there(tmp_path: Path) -> None:
    """A heartbeat registers its filters under either setting, so none has to come again."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        await subscribed(client, "a = 3")
        assert (await check(client), (await pull(client)).code) == ((1, REFUSED), 1)
        await switch(client, True)
        assert await check(client) == (0, None)
        assert bodies(await pull(client)) == ["m3"]
        assert bodies(await pull(client, "a < 2")) == ["m0", "m1"]


async def test_switched_off_it_refuses_sql_and_nothing_else(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        client = broker.client()
        await fill(client)
        await subscribed(client, "a = 3")
        await client.heartbeat("Tags", "T", expression="Tag1")
        assert bodies(await pull(client)) == ["m3"]
        await switch(client, False)
        for reply in (await pull(client), await pull(client, "a < 2")):
            assert (reply.code, reply.remark, dict(reply.ext)) == (1, REFUSED, {})
        other = await client.pull("T", expression="/a", expressionType="XPATH")
        assert (other.code, other.remark) == (1, REFUSED.replace("SQL92", "XPATH"))
        assert await check(client) == (1, REFUSED)
        assert bodies(await client.pull("T", sys_flag=BY_GROUP, group="Tags")) == ["m1"]
        kept = broker.context.filters.get("T", "G")
        assert kept is not None
        assert not kept.is_dead, "the group is still there, and so is its filter"
        await switch(client, True)
        assert bodies(await pull(client)) == ["m3"]


async def test_what_is_wrong_with_the_subscription_is_said_first(tmp_path: Path) -> None:
    """The order of Java's checks: a missing filter, then the setting."""
    async with fake_broker(tmp_path, **SQL) as broker:
        client = broker.client()
        await fill(client)
        await subscribed(client, "a >")
        await switch(client, False)
        assert (await pull(client)).code == 27
        assert (await pull(client, "")).code == 23


async def test_a_pull_that_waits_is_refused_when_its_turn_comes(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        consumer, producer = broker.client(), broker.client()
        await fill(producer, 1)
        await subscribed(consumer, "a = 0")
        header = pull_header("T", offset=1, sys_flag=SUSPENDED, suspend_ms=30_000)
        header |= {"expressionType": "SQL92", "subVersion": "1"}
        opaque = consumer.post(11, header, b"")
        await switch(producer, False)
        await trio.sleep(5)
        assert consumer.replies(opaque) == [], "it was allowed to wait, and waits on"
        await fill(producer, 1)
        refused = await consumer.wait(opaque)
        assert (refused.code, refused.remark, trio.current_time()) == (1, REFUSED, 5)
