"""A broker that stops, or is killed, with open half messages."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import trio

from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper
from rmqcli.codec.codes import RequestCode
from tests.broker.support import fake_broker
from tests.broker.transactions.support import (
    COMMIT,
    HALF,
    OP,
    answer,
    bodies,
    end,
    of_topic,
    producer,
    progress,
    questions,
    send_half,
)

MINUTE = 60


def saved(root: Path) -> dict[str, dict[int, int]]:
    data = (root / "config" / "consumerOffset.json").read_bytes()
    return decode_body(ConsumerOffsetSerializeWrapper, data).offset_table


async def test_a_half_message_is_checked_after_a_restart(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await end(client, await send_half(client, b"ended"))
        await send_half(client, b"open")
    await trio.sleep(3600)
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await trio.sleep(MINUTE + 1)
        ((_, message),) = questions(client)
        assert message.body == b"open"
        assert (await answer(client, COMMIT)).code == 0
        assert bodies(broker) == [b"ended", b"open"]


async def test_progress_is_saved_as_java_names_it(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        for n in range(3):
            await end(client, await send_half(client, str(n).encode()))
        await send_half(client, b"open")
        await trio.sleep(MINUTE + 6)
    assert saved(tmp_path) == {f"{HALF}@CID_RMQ_SYS_TRANS": {0: 4}, f"{OP}@CID_RMQ_SYS_TRANS": {0: 3}}
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await trio.sleep(MINUTE + 1)
        ((_, message),) = questions(client)
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "2"
        await answer(client, COMMIT)
        await trio.sleep(MINUTE + 1)
        assert progress(broker) == (6, 4)
        assert bodies(broker) == [b"0", b"1", b"2", b"open"]


async def test_a_kill_repeats_a_check_only_before_the_scan_has_ended(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path / "a") as broker:
        client = await producer(broker)
        await send_half(client, b"open")
        await trio.sleep(MINUTE + 0.1)  # offsets are saved after 60 and 65 s
        assert len(questions(client)) == 1
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    async with fake_broker(tmp_path / "b") as broker:
        client = await producer(broker)
        await trio.sleep(MINUTE + 1)
        assert [message.properties["TRANSACTION_CHECK_TIMES"] for _, message in questions(client)] == ["2"]


async def test_a_kill_before_the_progress_is_saved_repeats_the_check(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_broker(tmp_path / "a", transaction_check_interval=62_000) as broker:
        client = await producer(broker)
        await end(client, await send_half(client, b"ended"))
        await send_half(client, b"open")

        async def killed() -> None:
            shutil.copytree(tmp_path / "a", tmp_path / "b")

        monkeypatch.setattr(broker.context.files, "save_offsets", killed)
        await trio.sleep(MINUTE + 3)
        assert len(questions(client)) == 1
    assert not (tmp_path / "b" / "config" / "consumerOffset.json").exists()
    async with fake_broker(tmp_path / "b") as broker:
        client = await producer(broker)
        await trio.sleep(MINUTE + 1)
        assert {message.body for _, message in questions(client)} == {b"open"}
        for number in range(len(questions(client))):
            await answer(client, COMMIT, number)
        await trio.sleep(MINUTE + 1)
        assert set(bodies(broker)) == {b"ended", b"open"}
        assert bodies(broker).count(b"ended") == 1
        assert progress(broker)[0] == len(of_topic(broker, HALF))


async def test_a_postponed_message_is_ended_by_its_first_offset_after_a_restart(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        sent = await send_half(await producer(broker), properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "90"})
        await trio.sleep(MINUTE + 6)
        assert progress(broker)[0] == 1
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        assert (await end(client, sent)).code == 0
        assert bodies(broker, OP) == [b"0"], "where the copy stands is not known any more"
        await trio.sleep(10 * MINUTE)
        assert questions(client) == []
        assert progress(broker) == (2, 1)


@pytest.mark.parametrize("offset", [-5, 500])
async def test_saved_progress_outside_the_queues_is_corrected(
    tmp_path: Path, autojump_clock: trio.abc.Clock, offset: int
) -> None:
    table = {f"{topic}@CID_RMQ_SYS_TRANS": {"0": offset} for topic in (HALF, OP)}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await trio.sleep(MINUTE + 1)
        assert {max(0, one) for one in progress(broker)} == {0}
        await send_half(client)
        await end(client, await send_half(client, b"ended"))
        await trio.sleep(MINUTE)
        assert [message.body for _, message in questions(client)] == [b"half"]
        assert progress(broker) == (2, 1)


async def test_removed_half_messages_are_skipped(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, mapped_file_size_commit_log=64 << 10) as broker:
        client = await producer(broker)
        await send_half(client, b"gone")
        for _ in range(4):
            await client.send("T", b"x" * 40_000)
        store = broker.context.store
        await send_half(client, b"kept")
        await trio.sleep(20)
        first = store.search.consume_queue_entries(HALF, 0, 0, 1)[0]
        os.utime(min((tmp_path / "commitlog").iterdir()), (0, 0))
        assert (await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
        assert store.search.record_at_size(first[0], first[1]) is None
        await trio.sleep(MINUTE)
        assert [message.body for _, message in questions(client)] == [b"kept"]
