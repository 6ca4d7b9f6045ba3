"""The order of each queue, with refusals, several members, lost locks, and manual commits."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
import trio

from rmqcli.client import ConsumeResult, OrderlyContext, OrderlyResult
from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.push.consuming import GROUP, TOPIC, consumer
from tests.client.watched_cluster import WatchedCluster

DONE, SUSPEND = OrderlyResult.SUCCESS, OrderlyResult.SUSPEND
COMMIT, ROLLBACK = OrderlyResult.COMMIT, OrderlyResult.ROLLBACK


class Taken:
    """A listener that records messages by queue and returns the results of its script."""

    def __init__(self, *script: Any, **context: Any) -> None:
        self.script = list(script)
        self.context = context
        self.calls: list[tuple[float, int, list[int]]] = []

    async def __call__(self, messages: list[MessageExt], context: OrderlyContext) -> Any:
        for name, value in self.context.items():
            setattr(context, name, value)
        numbers = [int(message.body) for message in messages]
        self.calls.append((trio.current_time(), context.queue.queue_id, numbers))
        answer = self.script.pop(0) if self.script else DONE
        if isinstance(answer, Exception):
            raise answer
        return answer

    def of(self, queue_id: int) -> list[int]:
        return [n for _, number, numbers in self.calls if number == queue_id for n in numbers]


def fill(cluster: WatchedCluster, count: int, queue_id: int = 0) -> None:
    cluster.put_many(cluster.queue(TOPIC, queue_id), [b"%d" % number for number in range(count)])


async def test_each_queue_in_its_order(cluster: WatchedCluster, autojump_clock: Any) -> None:
    for number in range(4):
        fill(cluster, 50, number)
    rng, running, seen = random.Random(1), set[MessageQueue](), dict[int, list[int]]()

    async def listener(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
        assert context.queue not in running
        running.add(context.queue)
        await trio.sleep(rng.random())
        running.remove(context.queue)
        seen.setdefault(context.queue.queue_id, []).extend(int(m.body) for m in messages)
        return DONE

    async with consumer(cluster, listener, orderly=True, batch_size=3):
        await trio.sleep(100)
    assert seen == {number: list(range(50)) for number in range(4)}
    assert cluster.committed(GROUP, TOPIC) == dict.fromkeys(range(4), 50)
    queues = [cluster.queue(TOPIC, number) for number in range(4)]
    assert cluster.lock(GROUP, "another", *queues) == queues


@pytest.mark.parametrize(
    "answer", [SUSPEND, None, RuntimeError("no"), ConsumeResult.RECONSUME_LATER, True], ids=repr
)
async def test_a_refused_message_holds_up_its_queue_only(
    cluster: WatchedCluster, autojump_clock: Any, answer: Any
) -> None:
    fill(cluster, 3)
    taken = Taken(DONE, answer, answer)
    async with consumer(cluster, taken, orderly=True):
        await trio.sleep(10)
    assert taken.of(0) == [0, 1, 1, 1, 2]
    times = [at for at, _, _ in taken.calls]
    assert times[2] - times[1] == pytest.approx(1.0)
    assert times[3] - times[2] == pytest.approx(1.0)


async def test_a_listener_without_a_result_is_told(
    cluster: WatchedCluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, 1)
    taken = Taken(None)
    async with consumer(cluster, taken, orderly=True):
        await trio.sleep(10)
    assert taken.of(0) == [0, 0]
    assert "the listener returned no OrderlyResult for " in caplog.text


@pytest.mark.parametrize(("wanted", "waits"), [(5.0, 5.0), (0.001, 0.01), (100.0, 30.0)])
async def test_the_context_sets_the_suspend_time(
    cluster: WatchedCluster, autojump_clock: Any, wanted: float, waits: float
) -> None:
    fill(cluster, 1)
    taken = Taken(SUSPEND, suspend_time=wanted)
    async with consumer(cluster, taken, orderly=True):
        await trio.sleep(50)
    (first, *_), (second, *_) = taken.calls
    assert second - first == pytest.approx(waits, rel=0.01)


async def test_consumed_too_often_it_becomes_a_dead_letter(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    fill(cluster, 2)
    taken = Taken(*[SUSPEND] * 3)
    async with consumer(cluster, taken, orderly=True, max_reconsume_times=2):
        await trio.sleep(20)
    assert taken.of(0) == [0, 0, 0, 1]
    assert cluster.bodies(f"%DLQ%{GROUP}") == [b"0"]
    assert cluster.committed(GROUP, TOPIC)[0] == 2


async def test_what_the_retry_topic_has_no_room_for_becomes_a_dead_letter(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"0"], {"k": "v" * 32_700})
    fill(cluster, 1)
    taken = Taken(*[SUSPEND] * 2)
    async with consumer(cluster, taken, orderly=True, max_reconsume_times=1):
        await trio.sleep(20)
    assert cluster.bodies(f"%DLQ%{GROUP}") == [b"0"]
    assert cluster.committed(GROUP, TOPIC)[0] == 2


async def test_without_a_limit_it_is_consumed_again_without_end(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    """Java: Integer.MAX_VALUE, not the 16 of a concurrent consumer."""
    fill(cluster, 1)
    taken = Taken(*[SUSPEND] * 40)
    async with consumer(cluster, taken, orderly=True):
        await trio.sleep(60)
    assert len(taken.calls) == 41
    assert not cluster.bodies(f"%DLQ%{GROUP}")
    assert cluster.committed(GROUP, TOPIC)[0] == 1


async def test_dead_letters_are_committed_manually_too(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, 3)
    taken = Taken(SUSPEND, DONE, COMMIT, auto_commit=False)
    seen: list[int | None] = []

    async def listener(messages: list[MessageExt], context: OrderlyContext) -> Any:
        seen.append(member._state.offsets.memory(cluster.queue(TOPIC)))
        return await taken(messages, context)

    async with consumer(cluster, listener, orderly=True, max_reconsume_times=0) as member:
        await trio.sleep(20)
    assert cluster.bodies(f"%DLQ%{GROUP}") == [b"0"]
    assert seen == [0, 0, 0]
    assert cluster.committed(GROUP, TOPIC)[0] == 3


async def test_commit_and_rollback_by_hand(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, 4)
    taken = Taken(DONE, COMMIT, DONE, ROLLBACK, DONE, DONE, auto_commit=False)
    async with consumer(cluster, taken, orderly=True) as member:
        await trio.sleep(20)
        assert taken.of(0) == [0, 1, 2, 3, 2, 3]
        assert cluster.committed(GROUP, TOPIC)[0] == 2
        counts = member._state.statistics[TOPIC]
        assert (counts.ok.value, counts.failed.value) == (4, 0), "as Java: neither commits nor rollbacks"
    again = Taken(COMMIT, COMMIT, auto_commit=False)
    async with consumer(cluster, again, orderly=True):
        await trio.sleep(20)
    assert again.of(0) == [2, 3]
    assert cluster.committed(GROUP, TOPIC)[0] == 4


async def test_no_lock_no_messages(cluster: WatchedCluster, autojump_clock: Any) -> None:
    """Another member has the lock until its 60 s have passed."""
    fill(cluster, 1)
    fill(cluster, 1, 1)
    cluster.lock(GROUP, "gone", cluster.queue(TOPIC))
    taken = Taken()
    async with consumer(cluster, taken, orderly=True):
        await trio.sleep(50)
        assert [number for _, number, _ in taken.calls] == [1]
        await trio.sleep(50)
        assert [number for _, number, _ in taken.calls] == [1, 0]
        assert taken.calls[1][0] > 60


async def test_a_lock_that_is_taken_away_stops_the_queue_until_it_comes_back(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    taken = Taken()
    async with consumer(cluster, taken, orderly=True):
        await trio.sleep(30)
        cluster.trouble[RequestCode.LOCK_BATCH_MQ] = lambda command: command.reply(
            0, None, None, encode_body(LockBatchResponseBody())
        )
        await trio.sleep(30)
        fill(cluster, 1)
        await trio.sleep(30)
        assert not taken.calls
        del cluster.trouble[RequestCode.LOCK_BATCH_MQ]
        await trio.sleep(25)
        assert taken.of(0) == [0]


def refused(command: RemotingCommand) -> RemotingCommand:
    return command.reply(1, "not now")


def granted_to_another(command: RemotingCommand) -> RemotingCommand:
    return command.reply(0, None, None, encode_body(LockBatchResponseBody()))


@pytest.mark.parametrize(
    ("answer", "still", "over"),
    [(refused, 25, 35), (granted_to_another, 15, 25)],
    ids=["nobody can say", "another has it"],
)
async def test_a_lock_counts_for_30_seconds_or_until_another_has_it(
    cluster: WatchedCluster, autojump_clock: Any, answer: Any, still: float, over: float
) -> None:
    """Renewed after 1 s, then every 20 s."""
    taken, queue = Taken(), cluster.queue(TOPIC)
    async with consumer(cluster, taken, orderly=True):
        await trio.sleep(2)
        cluster.trouble[RequestCode.LOCK_BATCH_MQ] = answer
        await trio.sleep_until(still)
        cluster.put(queue, b"1")
        await trio.sleep_until(over)
        assert [numbers for _, _, numbers in taken.calls] == [[1]]
        cluster.put(queue, b"2")
        await trio.sleep(10)
        assert len(taken.calls) == 1
        del cluster.trouble[RequestCode.LOCK_BATCH_MQ]
        await trio.sleep(30)
    assert [numbers for _, _, numbers in taken.calls] == [[1], [2]]


async def test_a_lock_that_is_refused_is_asked_for_every_3_seconds(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async def slowly(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
        await trio.sleep(25)
        return DONE

    fill(cluster, 2)
    async with consumer(cluster, slowly, orderly=True):
        await trio.sleep(2)
        cluster.trouble[RequestCode.LOCK_BATCH_MQ] = granted_to_another
        await trio.sleep_until(39)
        asked = [
            at
            for at, command in cluster.asked
            if command.code == RequestCode.LOCK_BATCH_MQ
            and at > 2
            and len(decode_body(LockBatchRequestBody, command.body).mq_set) == 1
        ]
    assert [round(later - earlier) for earlier, later in pairwise(asked)] == [3] * (len(asked) - 1)
    assert (round(asked[0]), len(asked)) == (25, 5)


async def test_locks_are_renewed_every_20_seconds(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with consumer(cluster, Taken(), orderly=True):
        await trio.sleep(102)
        whole = [
            at
            for at, command in cluster.asked
            if command.code == RequestCode.LOCK_BATCH_MQ
            and len(decode_body(LockBatchRequestBody, command.body).mq_set) == 5
        ]
    assert [round(at) for at in whole] == [1, 21, 41, 61, 81, 101]


async def test_order_is_kept_when_queues_move(
    cluster: WatchedCluster, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """Members join and leave during calls, with messages behind these: each is consumed once, in order."""
    seen: dict[int, list[int]] = {number: [] for number in range(4)}
    busy: set[int] = set()

    async def listener(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
        number = context.queue.queue_id
        assert number not in busy
        busy.add(number)
        await trio.sleep(0.6)
        busy.discard(number)
        seen[number].append(int(messages[0].body))
        return DONE

    async def produce() -> None:
        for sent in range(300):
            for number in range(4):
                cluster.put(cluster.queue(TOPIC, number), b"%d" % sent)
            await trio.sleep(0.5)

    async def member(name: str, start: float, end: float) -> None:
        await trio.sleep(start)
        async with consumer(cluster, listener, name, orderly=True):
            await trio.sleep(end - start)

    async with trio.open_nursery() as members:
        members.start_soon(produce)
        for name, start, end in (("a", 0, 230), ("b", 25, 100), ("c", 35, 60), ("d", 105, 230)):
            members.start_soon(member, name, start, end)
    for numbers in seen.values():
        assert numbers == list(range(300))


async def test_a_queue_has_a_turn_of_a_minute_when_others_wait(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    """One consumer, two queues that never end: each has 60 s of the listener, then the other."""
    fill(cluster, 300)
    fill(cluster, 300, 1)
    turns: list[tuple[int, float]] = []

    async def a_second(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
        if not turns or turns[-1][0] != context.queue.queue_id:
            turns.append((context.queue.queue_id, trio.current_time()))
        await trio.sleep(1)
        return DONE

    async with consumer(cluster, a_second, orderly=True, consumers=1):
        await trio.sleep(310)
    numbers = [number for number, _ in turns]
    assert numbers in ([0, 1] * 3, [1, 0] * 3)
    times = [at for _, at in turns]
    assert [later - at for at, later in pairwise(times)] == pytest.approx([61.0] * 5, abs=0.1)


async def test_a_turn_ends_when_the_queue_must_wait(cluster: WatchedCluster, autojump_clock: Any) -> None:
    fill(cluster, 5)
    fill(cluster, 5, 1)
    taken = Taken(DONE, DONE, SUSPEND)
    async with consumer(cluster, taken, orderly=True, consumers=1, suspend_time=5.0):
        await trio.sleep(20)
    first = taken.calls[0][1]
    assert [number for _, number, _ in taken.calls] == [first] * 3 + [1 - first] * 5 + [first] * 3
    assert taken.of(first) == [0, 1, 2, 2, 3, 4]
