"""Messages that a concurrent listener consumes, refuses, fails on, or never returns."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
import trio

from rmqcli.client import ConsumeContext, ConsumeResult
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.message import MessageExt
from rmqcli.codec.properties import decode_properties
from tests.client.push.consuming import DONE, GROUP, LATER, TOPIC, Taken, consumer
from tests.client.watched_cluster import WatchedCluster
from tests.support import PATIENCE


async def test_each_message_once_and_offsets_at_the_end(cluster: WatchedCluster, autojump_clock: Any) -> None:
    for number in range(100):
        cluster.put(cluster.queue(TOPIC, number % 4), b"%d" % number)
    taken = Taken()
    async with consumer(cluster, taken):
        await trio.sleep(1)
        assert sorted(map(int, taken.bodies)) == list(range(100))
        cluster.put(cluster.queue(TOPIC, 2), b"100")
        await trio.sleep(0.1)
        assert taken.bodies[-1] == b"100"
    assert cluster.committed(GROUP, TOPIC) == {0: 25, 1: 25, 2: 26, 3: 25}
    assert not cluster.members(GROUP)


@pytest.mark.parametrize("answer", [LATER, None, RuntimeError("no")])
async def test_refused_messages_come_again_by_the_retry_topic(
    cluster: WatchedCluster, autojump_clock: Any, answer: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    taken = Taken(answer, answer)
    async with consumer(cluster, taken):
        await trio.sleep(300)
    assert [(m.topic, m.reconsume_times) for _, m in taken.messages] == [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)]
    gaps = [
        later - earlier for (earlier, _), (later, _) in zip(taken.messages, taken.messages[1:], strict=False)
    ]
    # levels 3 and 4; the first one also waits until the retry topic's route is read
    assert gaps[0] >= 10
    assert gaps[1] == pytest.approx(30, abs=0.5)
    assert cluster.committed(GROUP, TOPIC)[0] == 1


async def test_dead_letters_after_the_limit(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    taken = Taken(*[LATER] * 10)
    async with consumer(cluster, taken, max_reconsume_times=2):
        await trio.sleep(300)
    assert len(taken.messages) == 3
    assert cluster.bodies(f"%DLQ%{GROUP}") == [b"x"]


@pytest.mark.parametrize("unit_mode", [False, True])
async def test_a_message_sent_back_has_the_unit_mode(
    cluster: WatchedCluster, autojump_clock: Any, unit_mode: bool
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    member = consumer(cluster, Taken(LATER))
    member.instance.unit_mode = unit_mode
    async with member:
        await trio.sleep(100)
    told = [fields["unitMode"] for fields in cluster.fields(RequestCode.CONSUMER_SEND_MSG_BACK)]
    assert told == [str(unit_mode).lower()]


async def test_the_context_chooses_the_delay_and_how_many_are_done(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"0", b"1", b"2", b"3"])
    taken = Taken()

    def context(given: ConsumeContext) -> None:
        if len(taken.messages) == 4:
            given.ack_index, given.delay_level = 1, 2

    taken.context = context
    async with consumer(cluster, taken, batch_size=4):
        await trio.sleep(100)
    assert taken.bodies[:4] == [b"0", b"1", b"2", b"3"]
    assert sorted(taken.bodies[4:]) == [b"2", b"3"]
    assert [fields["delayLevel"] for fields in cluster.fields(RequestCode.CONSUMER_SEND_MSG_BACK)] == [
        "2",
        "2",
    ]


@pytest.mark.parametrize("result", [None, True])
async def test_a_listener_without_a_result_is_told(
    cluster: WatchedCluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture, result: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    taken = Taken(result)
    async with consumer(cluster, taken):
        await trio.sleep(100)
    assert taken.bodies == [b"x", b"x"]
    assert "the listener returned no ConsumeResult for " in caplog.text


def refuse(code: int = 1) -> Any:
    return lambda command: command.reply(code, "no")


async def test_a_message_that_no_broker_takes_back_is_sent_to_the_retry_topic(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.trouble[RequestCode.CONSUMER_SEND_MSG_BACK] = refuse()
    cluster.put(cluster.queue(TOPIC), b"x", {"own": "1", "TRAN_MSG": "true"})
    taken = Taken(LATER, LATER)
    async with consumer(cluster, taken):
        await trio.sleep(200)
    sent = [
        from_ext(SendMessageRequestHeaderV2, fields) for fields in cluster.fields(RequestCode.SEND_MESSAGE_V2)
    ]
    assert [header.sys_flag for header in sent] == [0, 0], "no half messages"
    levels = [decode_properties(header.properties or "")["DELAY"] for header in sent]
    assert levels == ["3", "4"]
    assert [(m.topic, m.reconsume_times, m.properties["own"]) for _, m in taken.messages] == [
        (TOPIC, 0, "1"),
        (TOPIC, 1, "1"),
        (TOPIC, 2, "1"),
    ]
    assert cluster.committed(GROUP, TOPIC)[0] == 1


async def test_a_message_that_cannot_leave_is_consumed_again_here_after_5_s(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    for code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2):
        cluster.trouble[code] = refuse()
    cluster.put_many(cluster.queue(TOPIC), [b"x", b"y"])
    taken = Taken(LATER)
    async with consumer(cluster, taken, persist_interval=1.0):
        await trio.sleep(4.5)
        assert taken.bodies == [b"x", b"y"]
        assert cluster.committed(GROUP, TOPIC) == {}
        await trio.sleep(3)
        assert cluster.committed(GROUP, TOPIC)[0] == 2
    (first, _), _, (again, message) = taken.messages
    assert again - first == pytest.approx(5)
    assert (message.body, message.reconsume_times) == (b"x", 1)


async def test_the_lowest_message_at_work_is_the_offset(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"%d" % number for number in range(10)])
    gate = trio.Event()

    async def listener(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        if messages[0].body == b"4":
            await gate.wait()
        return DONE

    async with consumer(cluster, listener):
        await trio.sleep(11)
        assert cluster.committed(GROUP, TOPIC)[0] == 4
        gate.set()
        await trio.sleep(6)
        assert cluster.committed(GROUP, TOPIC)[0] == 10


async def test_a_message_that_takes_too_long_is_sent_back_with_level_3(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    calls: list[int] = []

    async def listener(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        calls.append(messages[0].reconsume_times)
        if len(calls) == 1:
            await trio.sleep_forever()
        return DONE

    async with consumer(cluster, listener):
        await trio.sleep(31 * 60)
        assert [f["delayLevel"] for f in cluster.fields(RequestCode.CONSUMER_SEND_MSG_BACK)] == ["3"]
        await trio.sleep(60)
        assert calls == [0, 1]
        assert cluster.committed(GROUP, TOPIC)[0] == 1


async def test_broadcasting_drops_failed_messages(
    cluster: WatchedCluster, autojump_clock: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"x", b"y"])
    taken = Taken(LATER)
    settings = {"message_model": MessageModel.BROADCASTING, "offsets_folder": tmp_path}
    async with consumer(cluster, taken, **settings):
        await trio.sleep(100)
    assert taken.bodies == [b"x", b"y"]
    assert "is dropped" in caplog.text
    assert not cluster.count(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert not cluster.commits
    again = Taken()
    cluster.put(cluster.queue(TOPIC), b"z")
    async with consumer(cluster, again, **settings):
        await trio.sleep(10)
    assert again.bodies == [b"z"]


async def test_a_plain_function_runs_in_other_threads_at_most_so_many_at_once(
    cluster: WatchedCluster,
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"%d" % number for number in range(60)])
    running, most, seen, lock = 0, 0, Counter[int](), threading.Lock()
    meet = threading.Barrier(3, timeout=PATIENCE)
    all_seen, token = trio.Event(), trio.lowlevel.current_trio_token()

    def listener(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            seen[threading.get_ident()] += 1
        meet.wait()
        with lock:
            running -= 1
            if seen.total() == 60 and not running:
                token.run_sync_soon(all_seen.set)
        return DONE

    async with consumer(cluster, listener, consumers=3):
        with trio.fail_after(PATIENCE):
            await all_seen.wait()
    assert most == 3
    assert threading.get_ident() not in seen
    assert cluster.committed(GROUP, TOPIC)[0] == 60


async def test_leaving_waits_for_a_running_listener_but_begins_no_other(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"0", b"1", b"2"])
    begun = trio.Event()
    bodies: list[bytes] = []

    async def slow(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        bodies.append(messages[0].body)
        begun.set()
        await trio.sleep(2)
        return DONE

    async with consumer(cluster, slow, consumers=1):
        await begun.wait()
    assert bodies == [b"0"]
    assert cluster.committed(GROUP, TOPIC)[0] == 1


async def test_of_each_queue_sixteen_stuck_messages_a_round_go_back(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    """Java `ProcessQueue.cleanExpiredMsg`: removes the first message while it is a stuck one."""

    async def stuck(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        await trio.sleep_forever()

    cluster.put_many(cluster.queue(TOPIC), [b"x"] * 40)
    async with consumer(cluster, stuck, consumers=20, consume_timeout=60.0, grace=0.0):
        went_back = []
        for moment in (100, 130, 190):  # two rounds in between
            await trio.sleep_until(moment)
            went_back.append(cluster.count(RequestCode.CONSUMER_SEND_MSG_BACK))
    assert went_back == [0, 16, 20]
    assert {fields["delayLevel"] for fields in cluster.fields(RequestCode.CONSUMER_SEND_MSG_BACK)} == {"3"}
