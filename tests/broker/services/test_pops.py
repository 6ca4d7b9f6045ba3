"""What of pop consumption survives a stop, a kill and a power cut, and what a Java broker left in its folder."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.services.pop import revive
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.pop import PopAck, PopCheckPoint
from rmqcli.codec.receipt_handle import ReceiptHandle
from tests.broker.popping import GROUP, TOPIC, ack, change, pop_reply, popped
from tests.broker.support import START_MS, Client, FakeBroker, fake_broker
from tests.support import CONSUME_QUEUE_FILE_SIZE, INDEX_ITEMS, INDEX_SLOTS, JavaStore

IN_FLIGHT = "config/popInFlight.json"
REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"
SAVE_SECONDS = 5.1
"""Time after which everything is on the disk."""


@asynccontextmanager
async def killed_later(root: Path, target: Path, **settings: Any) -> AsyncIterator[FakeBroker]:
    """A broker over `root`; `target` becomes a copy of its folder at the end of the block, as a kill leaves it."""
    async with fake_broker(root, **settings) as broker:
        yield broker
        shutil.copytree(root, target)


async def send(client: Client, *bodies: str, queue_id: int = 0) -> None:
    for body in bodies:
        await client.send(TOPIC, body.encode(), queue_id=queue_id)


def texts(lent: list[Any]) -> list[str]:
    return [one.body.decode() for one in lent]


async def all_popped(client: Client, **fields: Any) -> list[str]:
    found: list[str] = []
    while lent := await popped(client, **fields):
        found += texts(lent)
    return sorted(found)


async def test_a_stop_keeps_everything(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcdef")
        lent = await popped(client, invisible_time=10_000, max_msg_nums=5)
        await ack(client, lent[0])
        await ack(client, lent[2])
        kept = await change(client, lent[3], 30_000)
        await trio.sleep(1)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert len(broker.context.pops.in_flight) == 3
        assert texts(await popped(client)) == ["f"]
        await ack(client, lent[4])
        await trio.sleep(8.9)
        assert await popped(client) == []
        await trio.sleep(0.2)
        assert texts(await popped(client)) == ["b"]
        await ack(client, kept)
        await trio.sleep(50)
        assert await popped(client) == []


async def test_a_kill_lends_again_what_was_acknowledged_last(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    root, copy = tmp_path / "a", tmp_path / "b"
    async with killed_later(root, copy) as broker:
        client = broker.client()
        await send(client, *"abcdef")
        lent = await popped(client, invisible_time=30_000)
        await ack(client, lent[1])
        await ack(client, lent[3])
        await trio.sleep(SAVE_SECONDS)
        await ack(client, lent[4])
    async with fake_broker(copy) as broker:
        client = broker.client()
        assert await popped(client) == []
        await trio.sleep(31)
        assert await all_popped(client) == ["a", "c", "e", "f"]


async def test_a_kill_before_the_first_save_loses_nothing(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    root, copy = tmp_path / "a", tmp_path / "b"
    async with killed_later(root, copy) as broker:
        await send(broker.client(), *"abc")
        await popped(broker.client())
    async with fake_broker(copy) as broker:
        assert await all_popped(broker.client()) == ["a", "b", "c"]


@pytest.mark.parametrize("lost", [IN_FLIGHT, "config/consumerOffset.json"])
async def test_a_lost_file_repeats_and_loses_nothing(
    tmp_path: Path, autojump_clock: trio.abc.Clock, lost: str
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcd")
        lent = await popped(client, max_msg_nums=3)
        await ack(client, lent[1])
    for name in (lost, lost + ".bak"):
        (tmp_path / name).unlink(missing_ok=True)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        found = await all_popped(client)
        assert {"a", "c", "d"} <= set(found)


async def test_a_damaged_file_does_not_stop_a_start(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        await send(broker.client(), *"ab")
        await popped(broker.client())
    for name in (IN_FLIGHT, IN_FLIGHT + ".bak"):
        (tmp_path / name).write_bytes(b'{"inFlight":7}')
    async with fake_broker(tmp_path) as broker:
        assert await all_popped(broker.client()) == ["a", "b"]


async def test_a_set_clock_neither_freezes_nor_hurries(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    ahead = 0

    def now_ms() -> int:
        return START_MS + round(trio.current_time() * 1000) + ahead

    async with fake_broker(tmp_path, now_ms) as broker:
        client = broker.client()
        await send(client, "a", "b")
        await popped(client, invisible_time=10_000, max_msg_nums=1)
        ahead = 3_600_000
        await trio.sleep(5)
        assert texts(await popped(client, invisible_time=10_000)) == ["b"]
        ahead = -3_600_000
        await trio.sleep(5.1)
        assert texts(await popped(client, invisible_time=10_000)) == ["a"]
        await trio.sleep(5)
        assert texts(await popped(client, invisible_time=10_000)) == ["b"]
    ahead = -7_200_000
    async with fake_broker(tmp_path, now_ms) as broker:
        client = broker.client()
        await trio.sleep(10.1)
        assert await all_popped(client) == ["a", "b"]


async def test_a_shorter_log_after_a_power_cut_hides_no_new_message(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """The positions on the disk may be behind the end of what is left of the log."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        await popped(client)
    saved = json.loads((tmp_path / IN_FLIGHT).read_bytes().replace(b"{0:", b'{"0":'))
    queue = saved["inFlight"][f"{TOPIC}@{GROUP}"]["0"]
    queue["p"], queue["ck"][0]["o"] = 5, [0, 5]
    (tmp_path / IN_FLIGHT).write_text(json.dumps(saved))
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert len(broker.context.pops.in_flight) == 1
        await send(client, "b", "c")
        assert texts(await popped(client)) == ["b", "c"]


async def test_a_message_that_retention_took_leaves(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a", "b")
        await popped(client, invisible_time=1000)
        monkeypatch.setattr("rmqcli.broker.services.pop.engine.lent", lambda *_: None)
        await trio.sleep(1.1)
        assert len(broker.context.pops.in_flight) == 0
        broker.context.pops.settle()
        assert broker.context.offsets.query(GROUP, TOPIC, 0) == 2
        assert revive.real_topic("G", "%RETRY%G+T") == revive.real_topic("G", "%RETRY%G_T") == "T"


async def test_a_store_that_refuses_is_tried_again(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client, stats = broker.client(), broker.context.store.stats
        await send(client, "a", "b")
        await popped(client, invisible_time=1000)
        stats.set_disk(0.99, full=True)
        await trio.sleep(20)
        assert len(broker.context.pops.in_flight) == 2
        stats.set_disk(0.5, full=False)
        await trio.sleep(1.1)
        assert await all_popped(client) == ["a", "b"]


async def test_fifo_blocks_survive_in_javas_file(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    fields: dict[str, Any] = {"order": True, "invisible_time": 10_000}
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcd")
        lent = await popped(client, max_msg_nums=3, **fields)
        await ack(client, lent[1])
    saved = json.loads((tmp_path / "config/consumerOrderInfo.json").read_bytes().replace(b"{0:", b'{"0":'))
    block = saved["table"][f"{TOPIC}@{GROUP}"]["0"]
    assert (block["o"], block["cm"], block["i"]) == ([0, 1, 2], 2, 10_000)
    assert block["popTime"] == lent[0].handle.pop_time
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert await popped(client, **fields) == []
        await ack(client, lent[0])
        await trio.sleep(10.1)
        again = await popped(client, **fields)
        assert texts(again) == ["c", "d"]


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_shorter_fifo_block_forgets_no_acknowledgement_of_a_longer_one(
    tmp_path: Path, autojump_clock: trio.abc.Clock, is_stopped: bool
) -> None:
    fields: dict[str, Any] = {"order": True, "invisible_time": 1000}

    async def rest(client: Client) -> list[str]:
        found = []
        while lent := await popped(client, max_msg_nums=1, **fields):
            found += texts(lent)
            await ack(client, lent[0])
        return found

    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcdef")
        lent = await popped(client, **fields)
        for one in (lent[1], lent[2], lent[4]):
            await ack(client, one)
        await trio.sleep(1.1)
        (first,) = await popped(client, max_msg_nums=1, **fields)
        if not is_stopped:
            await ack(client, first)
            assert await rest(client) == ["d", "f"]
            return
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await ack(client, first)
        assert await rest(client) == ["d", "f"]


async def test_a_test_may_hurry(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, "a")
        await popped(client)
        broker.context.pops.revival.hurry(60_000)
        await trio.sleep(0.01)
        (again,) = await popped(client)
        assert (again.body, again.times) == (b"a", 1)


# --- a Java broker's folder

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 524288,
    "mapped_file_size_consume_queue": CONSUME_QUEUE_FILE_SIZE,
    "max_hash_slot_num": INDEX_SLOTS,
    "max_index_num": INDEX_ITEMS,
}


async def noted(client: Client, tag: str, body: bytes, queue_id: int = 0) -> None:
    """Stores a record as Java's broker does, once it is due."""
    reply = await client.send("X", body, queue_id=queue_id, properties={"TAGS": tag})
    assert reply.code == 0, reply.remark


def java_pop(start: int, count: int, pop_time: int, **fields: Any) -> bytes:
    values = {
        "start_offset": start,
        "pop_time": pop_time,
        "invisible_time": 10_000,
        "num": count,
        "distances": list(range(count)),
        "topic": TOPIC,
        "group": GROUP,
        "broker_name": "broker-a",
        **fields,
    }
    return encode_body(PopCheckPoint(**values))


def java_ack(offset: int, pop_time: int, start: int) -> bytes:
    return encode_body(
        PopAck(ack_offset=offset, start_offset=start, pop_time=pop_time, topic=TOPIC, group=GROUP)
    )


async def test_what_a_java_broker_lent_is_in_flight(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.services.pop.java_records.REVIVE_PREFIX", "X")
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await send(client, *"abcdef")
        broker.context.offsets.commit(GROUP, TOPIC, 0, 5)
    async with fake_broker(tmp_path) as broker:
        client, now = broker.client(), broker.context.now_ms()
        await noted(client, "ck", java_pop(0, 3, now))
        await noted(client, "ck", java_pop(3, 2, now + 1, bit_map=1))
        # The time of one message was changed: a record of its own, then the acknowledgement of the first.
        await noted(client, "ck", java_pop(2, 1, now + 2, invisible_time=60_000))
        await noted(client, "ack", java_ack(2, now, 0))
        await noted(client, "ack", java_ack(0, now, 0))
        await noted(client, "ack", b"no json")
        await trio.sleep(0.1)
        assert len(broker.context.pops.in_flight) == 3
        assert texts(await popped(client, max_msg_nums=1)) == ["f"]
        await trio.sleep(SAVE_SECONDS)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert broker.context.offsets.query("CID_RMQ_SYS_REVIVE_GROUP", "X", 0) == 5
        old = ReceiptHandle(2, now + 2, 60_000, 0, "0", "broker-a", 0, 2)
        await trio.sleep(9)
        assert await all_popped(client) == ["b", "e"]
        await ack(client, old)
        await trio.sleep(100)
        assert "c" not in await all_popped(client)


async def test_an_acknowledgement_may_come_before_the_record_of_its_pop(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.services.pop.java_records.REVIVE_PREFIX", "X")
    async with fake_broker(tmp_path) as broker:
        client, now = broker.client(), broker.context.now_ms()
        await send(client, *"ab")
        broker.context.offsets.commit(GROUP, TOPIC, 0, 2)
        await noted(client, "ack", java_ack(9, now, 9))
        broker.context.groups.find(GROUP)
        handle = ReceiptHandle(0, now, 10_000, 0, "0", "broker-a", 0, 0)
        assert await ack(client, handle) == 0
        await trio.sleep(9)
        await noted(client, "ck", java_pop(0, 2, now))
        await trio.sleep(10)
        assert await all_popped(client) == ["b"]


async def test_the_folder_of_a_java_broker_starts(
    copy_java_store: Callable[[str], JavaStore], autojump_clock: trio.abc.Clock
) -> None:
    root = copy_java_store("store-five").root
    async with fake_broker(root, **SIZES, ignore_unsupported=True) as broker:
        pops, client = broker.context.pops, broker.client()
        assert REVIVE in broker.context.store.topics()
        waiting = sum(
            broker.context.store.search.max_offset(REVIVE, queue_id)
            for queue_id in broker.context.store.queue_ids(REVIVE)
        )
        assert waiting > 0
        await trio.sleep(700)
        await trio.sleep(SAVE_SECONDS)
        assert len(pops.in_flight) == 0
        reply = await pop_reply(client, topic="FivePopRetry", consumer_group="five_pop_retry")
        assert reply.code in (0, 210)


# --- a model


class Model:
    """A reference: what a group may and must still get. Messages are named by their bodies."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.acked: dict[str, float] = {}
        """Acknowledged messages, and when."""
        self.kills: list[float] = []
        self.first: dict[str, float] = {}

    def sees(self, body: str, now: float) -> None:
        assert body in self.sent
        at = self.acked.get(body)
        # What was acknowledged comes again only if the broker was killed before that was saved, or before it was
        # saved that the message was stored again.
        first = self.first.setdefault(body, now)
        is_lost = at is not None and any(first <= kill <= at + SAVE_SECONDS for kill in self.kills)
        assert at is None or is_lost, f"{body} was acknowledged at {at}, and came at {now}"
        self.acked.pop(body, None)

    @property
    def missing(self) -> set[str]:
        return self.sent - set(self.acked)


@pytest.mark.parametrize("seed", range(6))
async def test_random_pops_acks_changes_and_kills(
    tmp_path: Path, autojump_clock: trio.abc.Clock, seed: int
) -> None:
    rng, model, number = random.Random(seed), Model(), 0
    handles: dict[str, ReceiptHandle] = {}

    async def act(client: Client) -> None:
        nonlocal number
        what = rng.random()
        if what < 0.25:
            for _ in range(rng.randrange(1, 12)):
                number += 1
                model.sent.add(str(number))
                await send(client, str(number), queue_id=rng.randrange(2))
        elif what < 0.55:
            fields = {
                "invisible_time": rng.choice([1000, 3000, 20_000]),
                "max_msg_nums": rng.randrange(1, 33),
            }
            for one in await popped(client, **fields):
                model.sees(one.body.decode(), trio.current_time())
                handles[one.body.decode()] = one.handle
        elif what < 0.8:
            for body in rng.sample(sorted(handles), min(len(handles), 6)):
                handle = handles.pop(body)
                known = broker.context.pops.in_flight
                queue = known.find(GROUP, handle.topic(GROUP, TOPIC), handle.queue_id)
                is_lent = known.point_of(queue, handle.offset, handle.pop_time) is not None
                await ack(client, handle)
                if is_lent:
                    model.acked[body] = trio.current_time()
        elif what < 0.9:
            for body in rng.sample(sorted(handles), min(len(handles), 4)):
                handles[body] = await change(client, handles[body], rng.choice([0, 500, 5000]))
        else:
            await trio.sleep(rng.choice([0.1, 1, 4, 7]))

    roots = [tmp_path / str(run) for run in range(5)]
    for run, root in enumerate(roots):
        target = roots[run + 1] if run + 1 < len(roots) else tmp_path / "last"
        async with killed_later(root, target) as broker:
            await broker.client().ask(
                17,
                {
                    "topic": TOPIC,
                    "defaultTopic": "TBW102",
                    "readQueueNums": "2",
                    "writeQueueNums": "2",
                    "perm": "6",
                    "topicFilterType": "SINGLE_TAG",
                },
            )
            group = broker.context.groups.find(GROUP)[0]
            assert group is not None
            broker.context.groups.put(type(group)(group_name=GROUP, retry_max_times=1000))
            await broker.context.files.save_changed()
            for _ in range(60):
                await act(broker.client())
            model.kills.append(trio.current_time())
    async with fake_broker(tmp_path / "last") as broker:
        client = broker.client()
        for _ in range(40):
            while lent := await popped(client, invisible_time=30_000):
                for one in lent:
                    model.sees(one.body.decode(), trio.current_time())
                    await ack(client, one)
                    model.acked[one.body.decode()] = trio.current_time()
            await trio.sleep(1)
        assert model.missing == set()
        assert len(broker.context.pops.in_flight) == 0
