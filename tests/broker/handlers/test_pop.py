"""Pop consumption by its requests, on the virtual clock."""

from __future__ import annotations

import base64
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.handlers import pop as handlers
from rmqcli.broker.services.pop import in_flight, waiting
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.codec.bodies.pop import BatchAck, BatchAckMessageRequestBody
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.base import from_ext, to_ext
from rmqcli.codec.headers.pop import PopMessageResponseHeader
from rmqcli.codec.receipt_handle import parse_order_counts
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.popping import (
    ACK,
    BATCH_ACK,
    CHANGE,
    GROUP,
    NOTIFICATION,
    PEEK,
    POLLING_INFO,
    POP,
    TOPIC,
    ack,
    change,
    lent_by,
    pop_header,
    pop_reply,
    popped,
)
from tests.broker.support import Client, FakeBroker, fake_broker, written


async def send(client: Client, *bodies: str, queue_id: int = 0, **properties: str) -> None:
    for body in bodies:
        reply = await client.send(TOPIC, body.encode(), queue_id=queue_id, properties=properties)
        assert reply.code == 0, reply.remark


def texts(lent: list[Any]) -> list[str]:
    return [one.body.decode() for one in lent]


def committed(broker: FakeBroker, topic: str = TOPIC, queue_id: int = 0) -> int:
    broker.context.pops.settle()
    return broker.context.offsets.query(GROUP, topic, queue_id)


RETRY = f"%RETRY%{GROUP}_{TOPIC}"


async def test_what_is_acknowledged_does_not_come_again(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a", "b", "c")
        lent = await popped(client)
        assert texts(lent) == ["a", "b", "c"]
        assert [one.handle.offset for one in lent] == [0, 1, 2]
        assert committed(broker) == 0
        for one in lent:
            assert await ack(client, one) == 0
        assert committed(broker) == 3
        await trio.sleep(200)
        assert await popped(client) == []
        assert RETRY not in broker.context.topics


async def test_what_is_not_acknowledged_comes_again_at_its_time(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a", "b", KEYS="k")
        first, second = await popped(client, invisible_time=10_000)
        await ack(client, first)
        await trio.sleep(9.99)
        assert await popped(client) == []
        assert committed(broker) == 1
        await trio.sleep(0.02)
        (again,) = await popped(client, invisible_time=10_000)
        assert (again.body, again.times, again.message.topic, again.handle.retry) == (b"b", 1, TOPIC, "1")
        assert again.message.properties["KEYS"] == "k"
        assert again.message.properties["1ST_POP_TIME"] == str(second.handle.pop_time)
        assert committed(broker) == 2
        # The old handle has no effect any more.
        assert await ack(client, second) == 0
        await trio.sleep(10.01)
        (third,) = await popped(client)
        assert (third.times, third.message.properties["1ST_POP_TIME"]) == (2, str(second.handle.pop_time))
        assert await ack(client, third) == 0
        await trio.sleep(200)
        assert await popped(client) == []
        assert broker.context.topics.get(RETRY) is not None


@pytest.mark.parametrize("queue_id", [1, -1])
@pytest.mark.parametrize("count", [1, 32])
async def test_a_reply_in_one_piece_equals_one_of_views(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.abc.Clock,
    queue_id: int,
    count: int,
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for number in range(12):
            await send(client, "x" * 3000 * (number % 3), queue_id=number % 2)
        frames = []
        for group, limit in (("whole", handlers.SHORT_BODY), ("views", -1)):
            monkeypatch.setattr(handlers, "SHORT_BODY", limit)
            broker.context.pops._revive_queue, broker.context.rng = 0, random.Random(1)
            wanted = to_ext(pop_header(consumer_group=group, queue_id=queue_id, max_msg_nums=count))
            frame = broker.handlers[POP](client.session, RemotingCommand(POP, wanted, opaque=5))  # type: ignore[arg-type]
            assert isinstance(frame, bytes) is (limit > 0)
            frames.append(written(client, frame))
        assert frames[0] == frames[1]
        assert b"FOUND" in frames[0]


async def test_a_late_acknowledgement_counts_until_the_message_is_stored_again(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        (one,) = await popped(client, invisible_time=1000)
        assert await ack(client, one) == await ack(client, one) == 0
        await trio.sleep(2)
        assert await popped(client) == []


async def test_an_acknowledgement_in_the_last_moment_counts(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """Issues 4153 and 3787 of Java's broker: consumed twice although acknowledged in time."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *map(str, range(32)))
        lent = await popped(client, invisible_time=1000)
        await trio.sleep(0.999)
        for one in lent:
            await ack(client, one)
        await trio.sleep(100)
        assert await popped(client) == []


async def test_another_time_counts_from_the_change_on(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a", "b")
        first, second = await popped(client, invisible_time=10_000)
        await trio.sleep(5)
        longer = await change(client, first, 30_000)
        shorter = await change(client, second, 1000)
        assert longer.pop_time == first.handle.pop_time + 5000
        await trio.sleep(1.01)
        (again,) = await popped(client)
        assert (texts([again]), again.times) == (["b"], 1)
        await ack(client, again)
        # Neither of the old handles has an effect.
        assert await ack(client, first) == await ack(client, shorter) == await ack(client, second) == 0
        await trio.sleep(28.9)
        assert await popped(client) == []
        await trio.sleep(0.2)
        assert texts(await popped(client)) == ["a"]


async def test_many_changes_at_once_neither_lose_nor_repeat(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """Issue 9956 of Java's broker: revival is stuck after many changes at the same time."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *map(str, range(200)))
        handles = []
        while lent := await popped(client, invisible_time=10_000):
            handles += [one.handle for one in lent]
        for _ in range(20):
            handles = [await change(client, handle, 1000) for handle in handles]
        for handle in handles[::2]:
            await ack(client, handle)
        await trio.sleep(1.01)
        seen: Counter[str] = Counter()
        while lent := await popped(client):
            seen.update(texts(lent))
        assert seen == Counter(map(str, range(1, 200, 2)))
        assert len(broker.context.pops.in_flight) == 100


async def test_attempts_end_with_a_dead_letter(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    """Issue 8332 of Java's broker: the attempts of the group are not obeyed."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        group, _ = broker.context.groups.find(GROUP)
        assert group is not None
        limited = type(group)(group_name=GROUP, retry_max_times=2)
        broker.context.groups.put(limited)
        attempts = []
        for _ in range(3):
            (one,) = await popped(client, invisible_time=1000)
            attempts.append(one.times)
            await trio.sleep(1.01)
        assert attempts == [0, 1, 2]
        assert await popped(client) == []
        (dead,) = await client.pulled(f"%DLQ%{GROUP}")
        assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"a", TOPIC)
        assert len(broker.context.pops.in_flight) == 0


async def test_all_queues_are_looked_at(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for queue_id in range(4):
            await send(client, f"{queue_id}a", f"{queue_id}b", queue_id=queue_id)
        assert sorted(texts(await popped(client, queue_id=2))) == ["2a", "2b"]
        first = await popped(client, max_msg_nums=3)
        rest = await popped(client)
        assert sorted(texts(first + rest)) == ["0a", "0b", "1a", "1b", "3a", "3b"]


async def test_the_reply_says_what_is_left(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcde")
        reply = await pop_reply(client, max_msg_nums=2)
        header = from_ext(PopMessageResponseHeader, dict(reply.ext))
        assert (header.rest_num, header.start_offset_info, header.msg_offset_info) == (3, "0 0 0", "0 0 0,1")
        assert (reply.remark, header.invisible_time) == ("FOUND", 60_000)
        await popped(client)
        reply = await pop_reply(client)
        assert (reply.code, reply.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
        assert {"popTime", "invisibleTime", "reviveQid", "restNum"} <= set(reply.ext)
        assert reply.ext["msgOffsetInfo"] == ""


async def test_only_wanted_tags_are_lent(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, enable_property_filter=True) as broker:
        client = broker.client()
        for number in range(6):
            await send(client, str(number), TAGS="A" if number % 2 else "B")
        lent = await popped(client, exp="A", exp_type="TAG", invisible_time=1000)
        assert texts(lent) == ["1", "3", "5"]
        await ack(client, lent[0])
        assert committed(broker) == 3
        await trio.sleep(1.01)
        assert texts(await popped(client, exp="A")) == ["3", "5"]
        sql = await popped(client, exp="TAGS = 'C'", exp_type="SQL92", consumer_group="H")
        assert sql == []
        sql = await popped(client, exp="TAGS = 'B'", exp_type="SQL92", consumer_group="I")
        assert texts(sql) == ["0", "2", "4"]


async def test_groups_do_not_share(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        assert texts(await popped(client)) == texts(await popped(client, consumer_group="H")) == ["a"]


async def test_a_new_group_begins_where_it_wants(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, access_message_in_memory_max_ratio=0) as broker:
        client = broker.client()
        await send(client, "a", "b", "c")
        assert texts(await popped(client, init_mode=1)) == ["c"]
        assert texts(await popped(client, init_mode=0, consumer_group="H")) == ["a", "b", "c"]
    async with fake_broker(tmp_path) as broker:
        assert texts(await popped(broker.client(), init_mode=1, consumer_group="I")) == ["a", "b", "c"]


async def test_where_a_group_begins_is_saved_before_it_is_lent_anything(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """After a crash, it would begin behind what was sent meanwhile."""
    async with fake_broker(tmp_path, access_message_in_memory_max_ratio=0) as broker:
        client = broker.client()
        await send(client, "a", "b")
        assert texts(await popped(client, init_mode=1)) == ["b"]
        saved = (tmp_path / "config/consumerOffset.json").read_text()
        assert f'"{TOPIC}@{GROUP}":{{' in saved
        assert "0:1" in saved.partition(f"{TOPIC}@{GROUP}")[2][:20]


# --- waiting


async def test_a_pop_waits_for_a_message(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        client, sender = broker.client(), broker.client()
        await send(sender, "first", queue_id=1)
        await popped(client)
        got: list[Any] = []

        async def wait() -> None:
            got.extend([await popped(client, poll_time=15_000), trio.current_time()])

        nursery.start_soon(wait)
        await trio.sleep(7)
        assert not got
        assert broker.context.pops.waiting.of(GROUP, TOPIC, -1) == 1
        await send(sender, "a", queue_id=3)
        await trio.sleep(0.01)
        lent, at = got
        assert texts(lent) == ["a"]
        assert at == pytest.approx(7, abs=0.01)
        assert len(broker.context.pops.waiting) == 0


async def test_a_pop_ends_before_its_client_stops_to_wait(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        await popped(client)
        began = trio.current_time()
        # The clock of the client does not matter.
        reply = await pop_reply(client, poll_time=5000, born_time=1)
        assert reply.code == ResponseCode.POLLING_TIMEOUT
        assert trio.current_time() - began == pytest.approx(4.95, abs=0.01)


async def test_a_message_that_comes_again_wakes_a_pop(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    """Issue 4815 of Java's broker: it comes minutes later."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        (one,) = await popped(client)
        await change(client, one, 2000)
        began = trio.current_time()
        (again,) = await popped(client, poll_time=15_000)
        assert trio.current_time() - began == pytest.approx(2, abs=0.01)
        assert again.times == 1


async def test_one_message_wakes_one_pop_and_many_wake_all(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        sender = broker.client()
        await send(sender, "first")
        await popped(sender)
        got: list[list[str]] = []

        async def wait() -> None:
            got.append(texts(await popped(broker.client(), poll_time=10_000, max_msg_nums=1)))

        for _ in range(5):
            nursery.start_soon(wait)
        await trio.sleep(1)
        await send(sender, "a")
        await trio.sleep(1)
        assert got == [["a"]]
        await send(sender, "b", "c", "d", "e")
        await trio.sleep(1)
        assert sorted(got) == [["a"], ["b"], ["c"], ["d"], ["e"]]


async def test_too_many_pops_are_told(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_OF_PLACE", 2)
    async with fake_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        client = broker.client()
        await send(client, "first")
        await popped(client)
        for _ in range(2):
            nursery.start_soon(popped, broker.client())
            nursery.start_soon(lambda: popped(broker.client(), poll_time=5000))
        await trio.sleep(0.1)
        reply = await pop_reply(client, poll_time=5000)
        assert reply.code == ResponseCode.POLLING_FULL
        info = await client.ask(POLLING_INFO, {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1"})
        assert info.ext["pollingNum"] == "2"


async def test_the_pops_of_a_deleted_topic_end(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        client = broker.client()
        await send(client, "first")
        await popped(client)
        codes: list[int] = []

        async def wait() -> None:
            codes.append((await pop_reply(broker.client(), poll_time=10_000)).code)

        nursery.start_soon(wait)
        await trio.sleep(1)
        assert (await client.ask(215, {"topic": TOPIC})).code == 0
        await trio.sleep(0.1)
        assert codes == [ResponseCode.POLLING_TIMEOUT]
        assert (await pop_reply(client)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_topic_that_is_created_again_has_its_own_messages(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """Issue 8479 of Java's broker: revival of what is gone goes on for ever."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcdef")
        old = await popped(client, invisible_time=1000)
        await client.ask(215, {"topic": TOPIC})
        await trio.sleep(0.5)
        await send(client, "x", "y")
        new = await popped(client)
        assert texts(new) == ["x", "y"]
        for one in old:
            await ack(client, one)
        await trio.sleep(59)
        assert await popped(client) == []
        assert len(broker.context.pops.in_flight) == 2
        await trio.sleep(1.1)
        assert sorted(texts(await popped(client))) == ["x", "y"]


# --- limits


async def test_a_queue_with_too_much_in_flight_lends_no_more(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "MOST_OF_QUEUE", 3)
    async with fake_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        client = broker.client()
        await send(client, *"abcde")
        lent = await popped(client)
        assert texts(lent) == ["a", "b", "c"]
        reply = await pop_reply(client)
        assert (reply.code, reply.ext["restNum"]) == (ResponseCode.POLLING_TIMEOUT, "2")
        got: list[str] = []

        async def wait() -> None:
            got.extend(texts(await popped(broker.client(), poll_time=10_000)))

        nursery.start_soon(wait)
        await trio.sleep(1)
        assert got == []
        await ack(client, lent[1])
        await trio.sleep(0.1)
        assert got == ["d"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_nums": 0}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_nums": -1}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": 4}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"invisible_time": -1}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": (1 << 63) - 1}, ResponseCode.INVALID_PARAMETER),
        ({"exp": "x" * 40_000}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"exp": "a >", "exp_type": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"consumer_group": "G" * 119}, ResponseCode.INVALID_PARAMETER),
        ({"consumer_group": " "}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_what_cannot_be_popped_is_refused(
    tmp_path: Path, autojump_clock: trio.abc.Clock, fields: dict[str, Any], code: int
) -> None:
    async with fake_broker(tmp_path, enable_property_filter=True) as broker:
        client = broker.client()
        await send(client, "a")
        reply = await pop_reply(client, **fields)
        assert (reply.code, bool(reply.remark)) == (code, True)
        assert len(broker.context.pops.in_flight) == 0


async def test_a_slave_lends_nothing(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        await send(broker.client(), "a")
    async with fake_broker(tmp_path, broker_role="SLAVE", broker_id=1) as broker:
        reply = await pop_reply(broker.client())
        assert reply.code == ResponseCode.NO_PERMISSION
        assert "its master" in (reply.remark or "")


async def test_a_group_to_which_a_topic_is_forbidden_gets_nothing_of_it(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        await popped(client, max_msg_nums=1)
        header = {"group": GROUP, "topic": TOPIC, "readable": "false"}
        assert (await client.ask(353, header)).code == 0
        assert (await pop_reply(client)).code == ResponseCode.NO_PERMISSION
        assert (await client.pull(TOPIC, group=GROUP)).code == ResponseCode.NO_PERMISSION
        assert texts(await popped(client, consumer_group="H")) == ["a"]
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        told = await client.ask(353, {"group": GROUP, "topic": TOPIC})
        assert b'"readable":false' in told.body
        await client.ask(353, header | {"readable": "true"})
        assert (await client.pull(TOPIC, group=GROUP)).code == 0
        assert (
            await client.ask(353, header | {"group": "nobody"})
        ).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


# --- other requests


async def test_peeking_lends_nothing(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a", "b")
        header = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "maxMsgNums": "8"}
        for _ in range(2):
            assert texts(lent_by(await client.ask(PEEK, header))) == ["a", "b"]
        assert texts(await popped(client)) == ["a", "b"]
        assert (await client.ask(PEEK, header)).code == ResponseCode.PULL_NOT_FOUND


async def test_a_notification_tells_once_there_are_messages(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        client = broker.client()
        await send(client, "a")
        header = {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "queueId": "-1",
            "pollTime": "5000",
            "bornTime": "0",
        }
        assert (await client.ask(NOTIFICATION, header)).ext["hasMsg"] == "true"
        await popped(client)
        began = trio.current_time()
        assert (await client.ask(NOTIFICATION, header)).ext["hasMsg"] == "false"
        assert trio.current_time() - began == pytest.approx(4.95, abs=0.01)

        async def later() -> None:
            await trio.sleep(2)
            await send(broker.client(), "b")

        nursery.start_soon(later)
        began = trio.current_time()
        assert (await client.ask(NOTIFICATION, header)).ext["hasMsg"] == "true"
        assert trio.current_time() - began == pytest.approx(2, abs=0.01)


def batch(one: Any, *offsets: int, **fields: Any) -> bytes:
    bits = sum(1 << offset - one.handle.start_offset for offset in offsets)
    values: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "retry": one.handle.retry,
        "start_offset": one.handle.start_offset,
        "queue_id": one.handle.queue_id,
        "revive_queue_id": one.handle.revive_queue,
        "pop_time": one.handle.pop_time,
        "invisible_time": one.handle.invisible_time,
        "bit_set": base64.b64encode(bits.to_bytes(bits.bit_length() // 8 + 1, "little")).decode(),
        **fields,
    }
    return encode_body(BatchAckMessageRequestBody(broker_name="broker-a", acks=[BatchAck(**values)]))


async def test_many_messages_are_acknowledged_together(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *map(str, range(12)))
        lent = await popped(client, invisible_time=1000)
        assert (await client.ask(BATCH_ACK, None, batch(lent[0], 0, 1, 9, 10))).code == 0
        await trio.sleep(1.01)
        again = await popped(client)
        assert texts(again) == ["2", "3", "4", "5", "6", "7", "8", "11"]
        # Messages of a retry topic
        assert (await client.ask(BATCH_ACK, None, batch(again[0], *range(8)))).code == 0
        await trio.sleep(100)
        assert await popped(client) == []


async def test_a_hostile_batch_is_refused(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        (one,) = await popped(client)
        empty = encode_body(BatchAckMessageRequestBody())
        assert (await client.ask(BATCH_ACK, None, empty)).code == ResponseCode.NO_MESSAGE
        many = batch(one, bit_set=base64.b64encode(b"\xff" * 2000).decode())
        assert (await client.ask(BATCH_ACK, None, many)).code == ResponseCode.INVALID_PARAMETER
        for wrong in ({"bit_set": "%"}, {"retry": "7"}):
            reply = await client.ask(BATCH_ACK, None, batch(one, **wrong))
            assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.ask(BATCH_ACK, None, batch(one, 0, topic="gone"))).code == 0
        assert len(broker.context.pops.in_flight) == 1


@pytest.mark.parametrize("code", [ACK, CHANGE])
async def test_a_hostile_handle_is_refused(tmp_path: Path, autojump_clock: trio.abc.Clock, code: int) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        (one,) = await popped(client)
        good = {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "queueId": "0",
            "extraInfo": one.handle.encode(),
            "offset": "0",
            "invisibleTime": "1000",
        }
        for wrong, expected in (
            ({"topic": "gone"}, ResponseCode.TOPIC_NOT_EXIST),
            ({"queueId": "4"}, ResponseCode.MESSAGE_ILLEGAL),
            ({"queueId": "-1"}, ResponseCode.MESSAGE_ILLEGAL),
            ({"offset": "2"}, ResponseCode.NO_MESSAGE),
            ({"offset": "-1"}, ResponseCode.NO_MESSAGE),
        ):
            assert (await client.ask(code, good | wrong)).code == expected, wrong
        if code == CHANGE:
            assert (await client.ask(code, good | {"offset": "1"})).code == ResponseCode.NO_MESSAGE
            assert (
                await client.ask(code, good | {"invisibleTime": "-1"})
            ).code == ResponseCode.INVALID_PARAMETER
        assert len(broker.context.pops.in_flight) == 1
        assert (await client.ask(code, good)).code == 0


# --- other tools and the same group


async def test_the_lag_is_what_was_not_acknowledged(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcde")
        await popped(client, max_msg_nums=2)
        header = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
        assert (await client.ask(14, header)).ext["offset"] == "2"
        stats = (await client.ask(208, {"consumerGroup": GROUP, "topic": TOPIC})).body
        assert b'"consumerOffset":0' in stats and b'"pullOffset":2' in stats
        assert committed(broker) == 0


async def test_a_group_that_is_moved_back_gets_all_again(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcde")
        lent = await popped(client)
        for one in lent[:4]:
            await ack(client, one)
        await trio.sleep(6)
        move = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": "1"}
        await client.ask(15, move)
        assert texts(await popped(client)) == ["b", "c", "d", "e"]
        await ack(client, lent[4])
        await client.ask(15, move | {"commitOffset": "5"})
        await send(client, "f")
        assert texts(await popped(client)) == ["f"]


# --- FIFO


def counts_of(reply: Any) -> dict[tuple[str, int, int], int]:
    return parse_order_counts(reply.ext.get("orderCountInfo"))


async def test_a_fifo_queue_lends_nothing_until_all_is_acknowledged(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcd")
        first = lent_by(await pop_reply(client, order=True, max_msg_nums=2))
        assert texts(first) == ["a", "b"]
        assert first[0].handle.is_order
        assert await popped(client, order=True) == []
        await ack(client, first[1])
        assert await popped(client, order=True) == []
        assert committed(broker) == 0
        await ack(client, first[0])
        assert committed(broker) == 2
        assert texts(await popped(client, order=True)) == ["c", "d"]


async def test_a_fifo_queue_lends_the_same_again_in_order(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcd")
        first = await popped(client, order=True, max_msg_nums=3, invisible_time=1000)
        await ack(client, first[1])
        await trio.sleep(1.01)
        reply = await pop_reply(client, order=True, invisible_time=1000)
        again = lent_by(reply)
        # What was acknowledged out of order does not come again.
        assert texts(again) == ["a", "c", "d"]
        assert counts_of(reply) == {("0", 0, 0): 1, ("0", 0, 2): 1}
        assert reply.ext["orderCountInfo"].endswith("0 0 0")
        assert await ack(client, first[0]) == 0  # an old handle
        assert committed(broker) == 0
        for one in again:
            await ack(client, one)
        assert committed(broker) == 4
        assert len(broker.context.pops.orders) == 0
        assert RETRY not in broker.context.topics


async def create_by_priority(broker: FakeBroker, queues: int = 8) -> None:
    attributes = {"message.type": "PRIORITY"}
    broker.context.topics.put(TopicConfig(TOPIC, queues, queues, attributes=attributes))


async def test_the_highest_priority_comes_first_and_what_comes_again_last(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await create_by_priority(broker)
        for body in ("3", "100", "0", "7"):
            await send(client, body, _SYS_MSG_PRIORITY_=body)
        assert [one.handle.queue_id for one in await popped(client, invisible_time=1000)] == [7, 7, 3, 0]
        await trio.sleep(1.1)
        for body in ("1", "5"):
            await send(client, body, _SYS_MSG_PRIORITY_=body)
        order = [texts(await popped(client, max_msg_nums=1)) for _ in range(20)]
        assert order[:2] == [["5"], ["1"]]
        assert sorted(text for some in order[2:] for text in some) == ["0", "100", "3", "7"]


async def test_messages_of_another_type_have_no_priority(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await create_by_priority(broker)
        await send(client, "fifo", queue_id=1, _SYS_MSG_PRIORITY_="5", __SHARDINGKEY="k")
        await send(client, "odd", queue_id=2, _SYS_MSG_PRIORITY_="high")
        found = {one.body: one for one in await popped(client)}
        assert {body: one.handle.queue_id for body, one in found.items()} == {b"fifo": 1, b"odd": 2}
        assert all("_SYS_MSG_PRIORITY_" not in one.message.properties for one in found.values())


async def test_a_group_may_look_at_some_queues_by_priority_only(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await create_by_priority(broker)
        broker.context.groups.put(SubscriptionGroupConfig(GROUP, attributes={"priority.factor": "50"}))
        for number in range(8):
            await send(client, *["x"] * 100, _SYS_MSG_PRIORITY_=str(number))
        firsts = Counter([(await popped(client, max_msg_nums=1))[0].handle.queue_id for _ in range(80)])
        # 40 by priority, and one of eight of the others
        assert 30 < firsts[7] < 60 and len(firsts) > 5
        broker.context.groups.put(SubscriptionGroupConfig(GROUP, attributes={"priority.factor": "0"}))
        firsts = Counter([(await popped(client, max_msg_nums=1))[0].handle.queue_id for _ in range(80)])
        assert firsts[7] < 25 and len(firsts) > 5


async def test_the_handle_of_a_late_change_has_no_effect_either(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        (first,) = await popped(client, order=True, invisible_time=1000)
        await trio.sleep(1.01)
        (again,) = await popped(client, order=True)
        late = await change(client, first, 5000)  # in the same millisecond
        await ack(client, late)
        assert committed(broker) == 0
        await ack(client, again)
        assert committed(broker) == 1


async def test_a_fifo_attempt_that_is_repeated_gets_the_same(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"ab")
        fields: dict[str, Any] = {"order": True, "attempt_id": "one"}
        await popped(client, **fields)
        reply = await pop_reply(client, **fields)
        assert texts(lent_by(reply)) == ["a", "b"]
        assert counts_of(reply) == {}
        assert await popped(client, order=True, attempt_id="other") == []
        assert await popped(client, order=True) == []


async def test_a_waiting_fifo_pop_is_woken(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        client = broker.client()
        await send(client, *"abc")
        (first,) = await popped(client, order=True, max_msg_nums=1)
        got: list[Any] = []

        async def wait() -> None:
            lent = await popped(
                broker.client(), order=True, max_msg_nums=1, invisible_time=2000, poll_time=15_000
            )
            got.append((texts(lent), trio.current_time()))

        nursery.start_soon(wait)
        await trio.sleep(1)
        await ack(client, first)  # wakes it
        await trio.sleep(0.1)
        nursery.start_soon(wait)  # is woken when the time of the other is over
        await trio.sleep(5)
        assert [one for one, _ in got] == [["b"], ["b"]]
        assert [at for _, at in got] == pytest.approx([1, 3], abs=0.05)


async def test_the_time_of_a_fifo_message_is_changed(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        (one,) = await popped(client, order=True, invisible_time=10_000)
        await trio.sleep(1)
        new = await change(client, one, 3000)
        assert (new.pop_time, new.invisible_time) == (one.handle.pop_time, 4000)
        await trio.sleep(2.9)
        assert await popped(client, order=True) == []
        began = trio.current_time()
        assert texts(await popped(client, order=True, poll_time=5000)) == ["a"]
        assert trio.current_time() - began == pytest.approx(0.1, abs=0.02)


async def test_an_acknowledgement_of_what_the_block_does_not_have_is_refused(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abc")
        first, _ = await popped(client, order=True, max_msg_nums=2)
        assert await ack(client, first.handle._replace(offset=2)) == ResponseCode.MESSAGE_ILLEGAL
        assert await ack(client, first.handle._replace(offset=2, pop_time=1)) == 0
        assert committed(broker) == 0


# --- functions that only the other wire uses


async def test_what_was_never_delivered_is_lent_again_at_once(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client, pops = broker.client(), broker.context.pops
        await send(client, "a", "b")
        first, second = await popped(client)
        assert await pops.release(GROUP, TOPIC, first.handle)
        assert not await pops.release(GROUP, TOPIC, first.handle)
        assert await pops.release(GROUP, TOPIC, second.handle, counts=True)
        assert {one.body: one.times for one in await popped(client)} == {b"a": 0, b"b": 1}
        await send(client, "c", queue_id=1)
        (third,) = await popped(client, order=True, queue_id=1)
        assert await pops.release(GROUP, TOPIC, third.handle)
        reply = await pop_reply(client, order=True, queue_id=1)
        assert texts(lent_by(reply)) == ["c"]
        assert counts_of(reply) == {}


async def test_a_message_goes_to_the_dead_letters(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client, pops = broker.client(), broker.context.pops
        await send(client, "a", "b")
        first, second = await popped(client)
        assert await pops.to_dead_letters(GROUP, TOPIC, first.handle)
        assert not await pops.to_dead_letters(GROUP, TOPIC, first.handle)
        await send(client, "c", queue_id=1)
        (third,) = await popped(client, order=True, queue_id=1)
        assert await pops.to_dead_letters(GROUP, TOPIC, third.handle)
        dead = await client.pulled(f"%DLQ%{GROUP}")
        assert [one.body for one in dead] == [b"a", b"c"]
        assert committed(broker, queue_id=1) == 1
        await trio.sleep(61)
        assert texts(await popped(client)) == ["b"]
        assert second.body == b"b"
