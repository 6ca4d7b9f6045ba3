"""Checks of open half messages with their producers, on a virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from rmqcli.broker.services.transactions import check_half_messages
from rmqcli.codec.codes import ResponseCode
from tests.broker.support import Client, FakeBroker, fake_broker, virtual_now
from tests.broker.transactions.support import (
    COMMIT,
    GIVEN_UP,
    HALF,
    OP,
    ROLLBACK,
    answer,
    bodies,
    end,
    half_header,
    log,
    of_topic,
    producer,
    progress,
    questions,
    send_half,
)

MINUTE = 60


async def test_an_open_half_message_is_checked_and_committed(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        sent = await send_half(client, properties={"TAGS": "A"})
        await trio.sleep(MINUTE - 1)
        assert questions(client) == []
        await trio.sleep(2)
        ((header, message),) = questions(client)
        first, copy = of_topic(broker, HALF)
        assert client.session.pushed[-1].ext_fields == {
            "tranStateTableOffset": "1",
            "commitLogOffset": str(copy.commit_log_offset),
            "msgId": "KEY-half",
            "transactionId": "KEY-half",
            "offsetMsgId": copy.offset_msg_id,
        }
        assert header.offset_msg_id != sent.ext["msgId"]
        assert copy.properties == first.properties | {"TRANSACTION_CHECK_TIMES": "1"}
        assert (message.topic, message.queue_id, message.body) == ("T", 2, b"half")
        assert message.properties == copy.properties
        assert (message.queue_offset, message.commit_log_offset) == (1, copy.commit_log_offset)
        assert (message.born_timestamp, message.born_host) == (first.born_timestamp, first.born_host)
        assert (await answer(client, COMMIT)).code == 0
        assert [m.body for m in await client.pulled("T", 2, expression="A")] == [b"half"]
        await trio.sleep(10 * MINUTE)
        assert len(questions(client)) == 1
        assert bodies(broker) == [b"half"]
        assert progress(broker) == (2, 1)


async def test_ended_half_messages_are_skipped(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        sent = [await send_half(client, str(n).encode()) for n in range(100)]
        for n in (*range(99, 50, -1), *range(50)):
            await end(client, sent[n], COMMIT if n % 2 else ROLLBACK)
        await trio.sleep(MINUTE + 1)
        assert [message.body for _, message in questions(client)] == [b"50"]
        assert progress(broker) == (100, 99)
        await answer(client, ROLLBACK)
        await trio.sleep(MINUTE)
        assert len(questions(client)) == 1
        assert progress(broker) == (101, 100)
        assert len(bodies(broker)) == 50


async def test_op_messages_behind_an_open_one_are_not_used_up(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await trio.sleep(MINUTE - 5)
        await send_half(client, b"young")
        await end(client, await send_half(client, b"ended"))
        await trio.sleep(6)
        assert progress(broker) == (-1, -1), "the walk ends at the young one"
        await trio.sleep(MINUTE)
        assert progress(broker) == (2, 1)
        assert [message.body for _, message in questions(client)] == [b"young"]


@pytest.mark.parametrize(("age", "asked"), [(5, 0), (7, 1)])
async def test_the_timeout_is_the_least_age(
    tmp_path: Path, autojump_clock: trio.abc.Clock, age: int, asked: int
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await trio.sleep(MINUTE - age)
        await send_half(client)
        await trio.sleep(age + 1)
        assert len(questions(client)) == asked


async def test_interval_timeout_and_number_of_checks_are_configured(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    settings = {
        "transaction_check_interval": 2000,
        "transaction_time_out": 1000,
        "transaction_check_max": 3,
    }
    async with fake_broker(tmp_path, **settings) as broker:
        client = await producer(broker)
        await send_half(client)
        await trio.sleep(20)
        assert len(questions(client)) == 3
        assert bodies(broker, GIVEN_UP) == [b"half"]


async def test_a_half_message_is_given_up_after_15_checks(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await send_half(client, properties={"DELAY": "1"})
        for n in range(15):
            await trio.sleep(MINUTE if n else MINUTE + 1)
            assert len(questions(client)) == n + 1
        await trio.sleep(2 * MINUTE)
        assert len(questions(client)) == 15
        assert [m.properties.get("TRANSACTION_CHECK_TIMES") for m in of_topic(broker, HALF)] == [
            None,
            *(str(n) for n in range(1, 16)),
        ]
        (given_up,) = of_topic(broker, GIVEN_UP)
        newest = of_topic(broker, HALF)[-1]
        assert given_up.properties == newest.properties
        assert (given_up.queue_id, given_up.body, given_up.sys_flag) == (0, b"half", 0)
        assert (await client.ask(29, {"topic": GIVEN_UP, "queueId": "0", "timestamp": "0"})).code == 0
        assert progress(broker) == (16, -1)
        await trio.sleep(10 * MINUTE)
        assert len(of_topic(broker, GIVEN_UP)) == 1
        assert (await client.send(GIVEN_UP)).code == ResponseCode.NO_PERMISSION


async def test_a_check_can_be_resumed(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, transaction_check_max=1) as broker:
        client = await producer(broker)
        await send_half(client)
        await trio.sleep(2 * MINUTE + 1)
        (given_up,) = of_topic(broker, GIVEN_UP)
        asked = len(questions(client))
        reply = await client.ask(323, {"msgId": given_up.offset_msg_id})
        assert (reply.code, reply.remark) == (0, None)
        newest = of_topic(broker, HALF)[-1]
        assert newest.properties["TRANSACTION_CHECK_TIMES"] == "0"
        await trio.sleep(MINUTE)
        assert len(questions(client)) == asked + 1
        assert (await answer(client, COMMIT)).code == 0
        assert [m.body for m in await client.pulled("T", 2)] == [b"half"]


@pytest.mark.parametrize("msg_id", ["", "no id", "7F00000100002A9F0000000000000000", "F" * 32, None])
async def test_resumes_that_are_refused(tmp_path: Path, msg_id: str | None) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", b"no half message")
        reply = await client.ask(323, {} if msg_id is None else {"msgId": msg_id})
        remark = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
        assert (reply.code, reply.remark) == (1, remark)
        assert len(log(broker.context.store)) == 1


async def test_a_half_message_older_than_the_files_is_given_up(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, file_reserved_time=2) as broker:
        client = await producer(broker)
        await send_half(client, born_timestamp=virtual_now() - 2 * 3600 * 1000)
        await trio.sleep(MINUTE + 1)
        assert questions(client) == []
        (given_up,) = of_topic(broker, GIVEN_UP)
        assert given_up.properties["TRANSACTION_CHECK_TIMES"] == "1"


async def test_a_message_from_the_future_is_checked_at_once(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await send_half(client, born_timestamp=virtual_now() + 3_600_000)
        await trio.sleep(MINUTE + 1)
        assert len(questions(client)) == 1


async def test_the_immunity_of_a_message_postpones_the_check(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await send_half(client, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "150"})
        await trio.sleep(2 * MINUTE + 1)
        assert questions(client) == []
        first, *copies = of_topic(broker, HALF)
        put_off = {"TRAN_PREPARED_QUEUE_OFFSET": "0", "WAIT": "false"}
        assert [m.properties for m in copies] == [
            first.properties | put_off | {"TRANSACTION_CHECK_TIMES": str(n)} for n in (1, 2)
        ]
        await trio.sleep(MINUTE)
        ((_, message),) = questions(client)
        assert message.properties == first.properties | put_off | {"TRANSACTION_CHECK_TIMES": "3"}


@pytest.mark.parametrize("text", ["-1", "soon", "9" * 40])
async def test_an_invalid_immunity_is_the_timeout(
    tmp_path: Path, autojump_clock: trio.abc.Clock, text: str
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await send_half(client, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": text})
        await trio.sleep(MINUTE + 1)
        assert len(questions(client)) == 1


@pytest.mark.parametrize("immunity", [{}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "90"}])
async def test_an_end_that_names_an_earlier_copy_ends_the_newest(
    tmp_path: Path, autojump_clock: trio.abc.Clock, immunity: dict[str, str]
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        sent = await send_half(client, properties=immunity)
        await trio.sleep(2 * MINUTE + 1)
        asked = len(questions(client))
        assert (await end(client, sent)).code == 0
        assert bodies(broker, OP) == [b"0", b"2"]
        await trio.sleep(5 * MINUTE)
        assert len(questions(client)) == asked
        assert bodies(broker) == [b"half"]
        assert progress(broker) == (3, 2)
        assert len(broker.context.half_copies) == 0


async def test_producers_take_turns_and_closed_ones_are_skipped(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        first, second, gone, other = (
            await producer(broker),
            await producer(broker),
            await producer(broker),
            await producer(broker, "Another"),
        )
        gone.session.close()
        for n in range(6):
            await send_half(first, str(n).encode())
        await trio.sleep(MINUTE + 1)
        assert [len(questions(one)) for one in (first, second, gone, other)] == [3, 3, 0, 0]
        assert sorted(m.body for one in (first, second) for _, m in questions(one)) == [
            str(n).encode() for n in range(6)
        ]


async def test_without_a_producer_the_check_counts_and_waits(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        await send_half(broker.client())
        await trio.sleep(2 * MINUTE + 1)
        client = await producer(broker)
        await trio.sleep(MINUTE)
        ((_, message),) = questions(client)
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "3"


async def test_a_full_disk_ends_the_scan_and_loses_nothing(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, transaction_check_max=1) as broker:
        client = await producer(broker)
        await send_half(client)
        await trio.sleep(10)
        for _ in range(2):  # first for the copy, then for giving up
            stats, before = broker.context.store.stats, progress(broker)
            stats.set_disk(0.95, full=True)
            await check_half_messages(broker.context)
            assert progress(broker) == before
            stats.set_disk(0.5, full=False)
            await trio.sleep(MINUTE)
        assert len(questions(client)) == 1
        assert bodies(broker, GIVEN_UP) == [b"half"]


async def test_a_half_message_without_room_for_a_counter_is_given_up(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        used = len(b"UNIQ_KEY_KEY-half_WAIT_true_TRAN_MSG_true_PGROUP_PG_x_")
        used += len(b"_CLUSTER_DefaultCluster_MSG_REGION_DefaultRegion_TRACE_ON_true_REAL_TOPIC_T_REAL_QID_2")
        assert (await send_half(client, properties={"x": "y" * (32767 - used)})).code == 0
        await send_half(client, b"next")
        await trio.sleep(MINUTE + 1)
        assert bodies(broker, GIVEN_UP) == [b"half"]
        assert [message.body for _, message in questions(client)] == [b"next"]


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_copies_are_on_the_disk_before_the_progress_counts(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch, flush: str
) -> None:
    async with fake_broker(tmp_path, flush_disk_type=flush) as broker:
        store, client = broker.context.store, await producer(broker)
        waiting = client.post(310, half_header("half"), b"half")
        assert (await client.wait(waiting)).code == 0
        seen = []
        commit = broker.context.offsets.commit

        def watched(group: str, topic: str, queue_id: int, offset: int) -> None:
            seen.append(store.flushed_offset == store.commit_log_max_offset)
            commit(group, topic, queue_id, offset)

        monkeypatch.setattr(broker.context.offsets, "commit", watched)
        await trio.sleep(MINUTE + 1)
        assert len(of_topic(broker, HALF)) == 2
        assert seen == [True]


async def test_a_message_is_checked_that_is_larger_than_others_may_be_now(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        large = await send_half(client, b"x" * 2000)
        await send_half(client, b"small")
        broker.context.reconfigure(replace(broker.context.config, max_message_size=1000))
        await trio.sleep(MINUTE + 1)
        assert [message.body for _, message in questions(client)] == [b"x" * 2000, b"small"]
        assert (await end(client, large)).code == 0
        assert bodies(broker) == [b"x" * 2000]


async def test_a_slave_checks_nothing(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await send_half(client)
        broker.context.is_slave = True
        await trio.sleep(3 * MINUTE)
        assert questions(client) == []


async def test_a_scan_yields_to_other_tasks_and_ends_after_60_s(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        for n in range(200):
            await send_half(client, str(n).encode())
        await trio.sleep(10)
        looks = iter(range(1000))

        def slow_clock() -> int:
            return virtual_now() + next(looks) * 250

        await _while_the_clock_is(broker, client, slow_clock)
        assert 0 < len(questions(client)) < 200
        assert progress(broker)[0] == len(questions(client))


async def _while_the_clock_is(broker: FakeBroker, client: Client, now: object) -> None:
    turns = []

    async def count() -> None:
        while True:
            turns.append(len(questions(client)))
            await trio.lowlevel.checkpoint()

    real, broker.context.now_ms = broker.context.now_ms, now  # type: ignore[assignment]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await check_half_messages(broker.context)
        nursery.cancel_scope.cancel()
    broker.context.now_ms = real
    assert len(set(turns)) > 3, "other tasks ran in between"
