"""SQL92 subscriptions at a broker: heartbeats, pulls, held pulls, the file, bit maps, views of queues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.filters import ConsumerFilterManager
from rmqcli.codec.bodies.heartbeat import CheckClientRequestBody, SubscriptionData
from rmqcli.codec.bodies.stats import QueryConsumeQueueResponseBody
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.selector.sql92 import MAX_LENGTH
from rmqcli.codec.selector.sql92_parser import MAX_NESTING
from tests.broker.filters.support import (
    BY_GROUP,
    BY_HEADER,
    REFUSED,
    SQL,
    SUSPENDED,
    bodies,
    fill,
    pull,
    subscribed,
)
from tests.broker.support import Client, fake_broker, pull_header, send_header
from tests.codec.store_readers import extension_entries

EXTENDED = SQL | {"enable_consume_queue_ext": True, "enable_calc_filter_bit_map": True}
FILE = "config/consumerFilter.json"


async def test_a_group_gets_what_its_filter_wants(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        client = broker.client()
        await fill(client)
        await subscribed(client, "a > 1 AND a <> 4")
        reply = await pull(client)
        assert bodies(reply) == ["m2", "m3", "m5"]
        assert reply.ext["nextBeginOffset"] == "6"
        await subscribed(client, "a = 9", version=2)
        reply = await pull(client, subVersion=2)
        assert (reply.code, reply.remark, reply.ext["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "6")


async def test_a_filter_that_is_not_there_or_too_old(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        client = broker.client()
        await fill(client)
        await subscribed(client, "a >", group="Wrong")
        reply = await pull(client, group="Wrong")
        text = "The broker's consumer filter data is not exist!Your expression may be wrong!"
        assert (reply.code, reply.remark, dict(reply.ext)) == (27, text, {})
        await subscribed(client, "a > 1", version=3)
        broker.context.filters.get("T", "G").client_version = 2  # type: ignore[union-attr]
        reply = await pull(client, subVersion=3)
        assert (reply.code, reply.remark) == (28, "the consumer's consumer filter data not latest")
        assert (await pull(client, subVersion=2)).code == 0
        assert (await pull(client, subVersion=4)).code == 25


async def test_without_the_property_filter_it_is_refused(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await fill(client)
        await subscribed(client, "a > 1")
        assert [
            (reply.code, reply.remark) for reply in (await pull(client), await pull(client, "a > 1"))
        ] == [(1, REFUSED)] * 2
        assert (await pull(client, group="Unknown")).code == 24


async def test_a_pull_can_bring_its_own_filter(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        client = broker.client()
        await fill(client)
        assert bodies(await pull(client, "a BETWEEN 1 AND 2")) == ["m1", "m2"]
        empty = await pull(client, "")
        assert (empty.code, empty.remark) == (23, "parse the consumer's subscription failed")


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("SQL92", "a BETWEEN", "at character "),
        ("SQL92", "a = 1" + " " * MAX_LENGTH, "the expression has 65541 characters; at most 65536 can be"),
        ("SQL92", "NOT " * (MAX_NESTING + 1) + "TRUE", "nested more than 256 levels deep"),
        ("SQL92", "a > 9223372036854775808", "9223372036854775808 is greater than"),
        ("XPATH", "x", "no filter of type 'XPATH'"),
    ],
    ids=["malformed", "long", "deep", "great", "of another type"],
)
async def test_a_pull_with_a_filter_that_does_not_compile_is_refused(
    tmp_path: Path, kind: str, text: str, reason: str
) -> None:
    """Java delivers everything."""
    async with fake_broker(tmp_path, **SQL) as broker:
        client = broker.client()
        await fill(client)
        for code in (11, 361):
            header = pull_header("T", expression=text, expressionType=kind, sys_flag=BY_HEADER | SUSPENDED)
            reply = await client.ask(code, header)
            assert (reply.code, reply.body) == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, b"")
            assert reason in (reply.remark or "")


@pytest.mark.parametrize("version", [1, 2])
async def test_a_saved_filter_that_does_not_compile_lets_nothing_through(
    tmp_path: Path, version: int
) -> None:
    """A member comes back whose text another release has accepted."""
    async with fake_broker(tmp_path, **SQL) as broker:
        client, table = broker.client(), broker.context.filters
        await fill(client)
        await subscribed(client, "a = 1")
        saved = encode_body(table.wrapper()).replace(b"a = 1", b"a > >")
        table.load(decode_body(ConsumerFilterManager, saved))
        assert (await pull(client)).code == ResponseCode.FILTER_DATA_NOT_EXIST
        await subscribed(client, "a > >", version=version)
        assert (await pull(client)).code == ResponseCode.FILTER_DATA_NOT_EXIST
        await subscribed(client, "a = 3", version=version)
        assert bodies(await pull(client)) == ["m3"]


@pytest.mark.parametrize(
    "text",
    [None, "a = 2", "a = 2 AND MSG_REGION = 'DefaultRegion'"],
    ids=["by group", "by header", "by region"],
)
async def test_a_pull_waits_for_a_message_that_it_wants(
    tmp_path: Path, autojump_clock: trio.abc.Clock, text: str | None
) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        consumer, producer = broker.client(), broker.client()
        await fill(producer, 1)
        await subscribed(consumer, "a = 2")
        flag = SUSPENDED | (BY_GROUP if text is None else BY_HEADER)
        fields: dict[str, Any] = {"expression": text or "", "expressionType": "SQL92", "subVersion": 1}
        before = trio.current_time()
        opaque = consumer.post(
            11, pull_header("T", offset=1, sys_flag=flag, suspend_ms=30_000, **fields), b""
        )
        await fill(producer, 2)
        await trio.sleep(5)
        assert consumer.replies(opaque) == []
        await fill(producer, 3)
        assert bodies(await consumer.wait(opaque)) == ["m2"]
        assert trio.current_time() - before == pytest.approx(5, abs=0.1)


async def test_filters_die_with_the_last_member(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        one, two, three = (broker.client() for _ in range(3))
        for client in (one, two, three):
            await subscribed(client, "a > 1")
        kept = broker.context.filters.get("T", "G")
        assert kept is not None
        one.session.close()
        await two.ask(35, {"clientID": "client", "consumerGroup": "G"})
        dead = [kept.is_dead]
        await trio.sleep(131)
        dead.append(kept.is_dead)  # the third fell silent
        await subscribed(one, "a > 1")
        dead.append(kept.is_dead)
        await one.ask(35, {"clientID": "client", "consumerGroup": "G"})
        dead.append(kept.is_dead)
        assert dead == [False, True, False, True]


async def test_a_heartbeat_without_subscriptions_changes_none(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        client = broker.client()
        await fill(client)
        await subscribed(client, "a = 5")
        await subscribed(client, "", heartbeat_fingerprint=7, without_sub=True)
        assert bodies(await pull(client)) == ["m5"]
        await subscribed(client, "", group="Other", heartbeat_fingerprint=7, without_sub=True)
        assert broker.context.consumers.get("Other") is not None
        await subscribed(client, "", heartbeat_fingerprint=7, without_sub=False)
        assert (await pull(client)).code == 24


@pytest.mark.parametrize(
    ("settings", "kind", "text", "code", "remark"),
    [
        ({}, "SQL92", "a > 1", 1, REFUSED),
        ({}, "XPATH", "a", 1, REFUSED.replace("SQL92", "XPATH")),
        (SQL, "SQL92", "a > 1", 0, None),
        (SQL, "SQL92", "a > 'x'", 23, "'x' cannot be compared with <, <=, >, >= or BETWEEN"),
        (SQL, "XPATH", "a", 23, "no filter of type 'XPATH'"),
    ],
)
async def test_a_subscription_is_checked(
    tmp_path: Path, settings: dict[str, Any], kind: str, text: str, code: int, remark: str | None
) -> None:
    async with fake_broker(tmp_path, **settings) as broker:
        subscription = SubscriptionData(topic="T", sub_string=text, expression_type=kind)
        body = CheckClientRequestBody(client_id="c", group="G", subscription_data=subscription)
        reply = await broker.client().ask(46, None, encode_body(body))
        assert (reply.code, reply.remark) == (code, remark)


async def test_filters_are_saved_every_ten_seconds_and_at_the_end(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, **SQL) as broker:
        client = broker.client()
        await subscribed(client, "a > 1")
        await trio.sleep(9.9)
        assert not (tmp_path / FILE).exists()
        await trio.sleep(0.2)
        saved = decode_body(ConsumerFilterManager, (tmp_path / FILE).read_bytes())
        one = saved.filter_data_by_topic["T"].group_filter_data["G"]
        assert (one.expression, one.client_version, one.dead) == ("a > 1", 1, False)
        await subscribed(client, "a > 2", version=2)
    async with fake_broker(tmp_path, **SQL) as broker:
        loaded = broker.context.filters.get("T", "G")
        assert loaded is not None
        assert (loaded.expression, loaded.is_dead) == ("a > 2", True)
        client = broker.client()
        await fill(client)
        await subscribed(client, "a > 2", version=2)
        assert bodies(await pull(client)) == ["m3", "m4", "m5"]
    (tmp_path / FILE).unlink()
    async with fake_broker(tmp_path, **SQL):
        await trio.sleep(21)
        assert not (tmp_path / FILE).exists(), "nothing changed"


async def test_a_filter_that_nobody_uses_is_forgotten(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, **SQL, filter_data_clean_time_span=60_000) as broker:
        client = broker.client()
        await subscribed(client, "a > 1")
        client.session.close()
        await trio.sleep(75)
        saved = decode_body(ConsumerFilterManager, (tmp_path / FILE).read_bytes())
        assert saved.filter_data_by_topic == {}


@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
@pytest.mark.parametrize("retry", [True, False])
async def test_messages_of_a_retry_topic(tmp_path: Path, kind: str, retry: bool) -> None:
    """filterSupportRetry: the filter of the topic that a message comes from judges it."""
    async with fake_broker(tmp_path, **SQL, filter_support_retry=retry) as broker:
        client = broker.client()
        await subscribed(client, "a = 2")
        for number in range(4):
            for topic in ("T", "Unfiltered"):
                header = send_header("%RETRY%G", {"a": str(number), "RETRY_TOPIC": topic})
                assert (await client.ask(310, header, f"{topic}{number}".encode())).code == 0
        text = "*" if kind == "TAG" else "a < 9"
        reply = await client.pull("%RETRY%G", expression=text, expressionType=kind)
        others = {f"Unfiltered{number}" for number in range(4)}
        mine = {"T2"} if retry else {f"T{number}" for number in range(4)}
        assert set(bodies(reply)) == others | mine


async def test_bit_maps_spare_the_look_at_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.abc.Clock
) -> None:
    looked: list[bytes] = []

    def look(self: object, record: memoryview) -> bool:
        looked.append(bytes(record))
        return True

    async with fake_broker(tmp_path, **EXTENDED) as broker:
        client = broker.client()
        await subscribed(client, "a = 2")
        await trio.sleep(0.001)
        await fill(client)
        monkeypatch.setattr("rmqcli.broker.filters.SqlSelection.accepts_record", look)
        assert bodies(await pull(client)) == ["m2"]
        assert len(looked) == 1
        (file,) = (tmp_path / "consumequeue_ext" / "T" / "0").iterdir()
        maps = [entry.bit_map for _, entry in extension_entries(file.read_bytes())]
        bit_map = broker.context.filters.bloom.bit_map([broker.context.filters.get("T", "G").bloom])  # type: ignore
        assert maps == [bytes(14)] * 2 + [bit_map] + [bytes(14)] * 3


async def test_bit_maps_are_an_option_of_their_own(tmp_path: Path) -> None:
    settings = EXTENDED | {"enable_calc_filter_bit_map": False}
    async with fake_broker(tmp_path, **settings) as broker:
        client = broker.client()
        await subscribed(client, "a = 2")
        await fill(client)
        assert bodies(await pull(client)) == ["m2"]
        (file,) = (tmp_path / "consumequeue_ext" / "T" / "0").iterdir()
        assert [entry.bit_map for _, entry in extension_entries(file.read_bytes())] == [b""] * 6


async def test_delayed_messages_come_in_time_with_an_extension(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, **EXTENDED) as broker:
        client = broker.client()
        await client.ask(310, send_header("T", {"DELAY": "2", "a": "1"}), b"later")
        await trio.sleep(4.9)
        assert await client.pulled("T") == []
        await trio.sleep(0.2)
        assert [message.body for message in await client.pulled("T")] == [b"later"]


async def looked_up(client: Client, group: str | None) -> QueryConsumeQueueResponseBody:
    header = {"topic": "T", "queueId": "0", "index": "1", "count": "2"}
    reply = await client.ask(321, header | ({"consumerGroup": group} if group else {}))
    return decode_body(QueryConsumeQueueResponseBody, reply.body)


async def test_looking_into_a_queue_shows_what_the_filter_says(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, **EXTENDED) as broker:
        client = broker.client()
        await subscribed(client, "a = 2")
        await trio.sleep(0.001)
        await fill(client)
        body = await looked_up(client, "G")
        entries = body.queue_data or []
        assert [entry.eval for entry in entries] == [False, True]
        assert json.loads(body.filter_data or "")["expression"] == "a = 2"
        assert body.filter_data is not None and body.filter_data.startswith('{\n\t"bloomFilterData":{')
        extension = json.loads(entries[1].extend_data_json or "")
        assert list(extension) == ["filterBitMap", "msgStoreTime", "size", "tagsCode"]
        assert (extension["size"], extension["msgStoreTime"]) == (34, broker.context.now_ms())
        lines = (entries[1].bit_map or "").splitlines()
        assert [len(line) for line in lines] == [48, 64]
        positions = set(broker.context.filters.bloom.positions("G#T"))
        assert {111 - at for at, bit in enumerate("".join(lines)) if bit == "1"} == positions
        assert all(entry.tags_code < -(2**62) for entry in entries)


async def test_looking_into_a_queue_without_a_filter(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, **EXTENDED) as broker:
        client = broker.client()
        await fill(client)
        await client.heartbeat("Tags", "T", expression="Tag1")
        assert [entry.eval for entry in (await looked_up(client, "Tags")).queue_data or []] == [True, False]
        assert (await looked_up(client, "Tags")).filter_data == "null"
        assert (await looked_up(client, "Nobody")).filter_data == "Nobody@T is not online!"
        nobody = await looked_up(client, None)
        assert (nobody.filter_data, nobody.subscription_data) == (None, None)
        assert [entry.bit_map for entry in nobody.queue_data or []] == [None, None]
    async with fake_broker(tmp_path, **SQL) as broker:
        entries = (await looked_up(broker.client(), None)).queue_data or []
        assert [entry.msg for entry in entries] == [
            f"Cq extend not exist!addr: {entry.tags_code}" for entry in entries
        ]
