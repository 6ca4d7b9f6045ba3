"""Push consumers that pop, on the virtual clock."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
import trio

from rmqcli.broker.testing.in_memory import LOST
from rmqcli.client import (
    Admin,
    ClientInstance,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeResult,
    InvalidRequest,
    Message,
    MessageExt,
    MessageModel,
    MessageSelector,
    NotSupported,
    OrderlyContext,
    OrderlyResult,
    Producer,
    PushConsumer,
    PushSettings,
    ResetTarget,
)
from rmqcli.client.group.allocation import by_config
from rmqcli.client.pop.lent import change
from rmqcli.client.push import pops
from rmqcli.client.push.pop_queue import Loan, PopQueue
from rmqcli.codec.bodies.pop import SetMessageRequestModeRequestBody
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.receipt_handle import ReceiptHandle
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.push.consuming import DONE, GROUP, LATER, TOPIC, Taken, consumer
from tests.client.watched_cluster import NAMESRV, WatchedCluster, now_ms, open_cluster
from tests.codec.samples import make_record

ACK, BATCH_ACK = int(RequestCode.ACK_MESSAGE), int(RequestCode.BATCH_ACK_MESSAGE)
POP, CHANGE = int(RequestCode.POP_MESSAGE), int(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)


def popping(cluster: WatchedCluster, listener: Any, name: str = "c1", **settings: Any) -> PushConsumer:
    return consumer(cluster, listener, name, pop=True, **settings)


def share(cluster: WatchedCluster, number: int = 0) -> None:
    """Lets the group pop the queues of the topic together."""
    mode = SetMessageRequestModeRequestBody(
        topic=TOPIC, consumer_group=GROUP, mode="POP", pop_share_queue_num=number
    )
    for node in cluster.nodes.values():
        node.context.request_modes.set(mode)


def bodies(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def fill(cluster: WatchedCluster, count: int = 40) -> list[bytes]:
    """Stores messages in all four queues of each broker."""
    sent: list[bytes] = []
    for name in cluster.nodes:
        for number in range(4):
            some = bodies(len(sent), len(sent) + count // 4)
            cluster.put_many(MessageQueue(TOPIC, name, number), some)
            sent += some
    return sent


def of_topic(member: PushConsumer) -> list[MessageQueue]:
    return [queue for queue in member.queues if queue.topic == TOPIC]


def in_flight(cluster: WatchedCluster) -> int:
    return sum(len(node.context.pops.in_flight) for node in cluster.nodes.values())


def refuse(command: RemotingCommand) -> RemotingCommand:
    return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")


async def test_members_share_all_queues_of_all_brokers(autojump_clock: Any) -> None:
    async with open_cluster({TOPIC: 4}, ("a", "b")) as cluster:
        share(cluster)
        sent, taken = fill(cluster, 200), [Taken(), Taken(), Taken()]
        async with (
            popping(cluster, taken[0], "c1") as one,
            popping(cluster, taken[1], "c2") as two,
            popping(cluster, taken[2], "c3") as three,
        ):
            await trio.sleep(30)
            assert {tuple(of_topic(member)) for member in (one, two, three)} == {
                (MessageQueue(TOPIC, "a", -1), MessageQueue(TOPIC, "b", -1))
            }
            sent += fill(cluster, 200)
            await trio.sleep(200)
        assert Counter(taken[0].bodies + taken[1].bodies + taken[2].bodies) == Counter(sent)
        assert in_flight(cluster) == 0 and cluster.count(BATCH_ACK) > 0
        assert cluster.count(BATCH_ACK) + cluster.count(ACK) < len(sent) / 2


async def test_without_the_mode_each_queue_has_one_member(autojump_clock: Any) -> None:
    async with open_cluster({TOPIC: 4}) as cluster:
        sent, taken = fill(cluster), [Taken(), Taken()]
        async with popping(cluster, taken[0], "c1") as one, popping(cluster, taken[1], "c2") as two:
            await trio.sleep(30)
            assert [queue.queue_id for queue in of_topic(one)] == [0, 1]
            assert [queue.queue_id for queue in of_topic(two)] == [2, 3]
            sent += fill(cluster)
            await trio.sleep(100)
        assert Counter(taken[0].bodies + taken[1].bodies) == Counter(sent)
        assert cluster.count(RequestCode.PULL_MESSAGE) == len(
            [fields for fields in cluster.fields(RequestCode.PULL_MESSAGE) if fields["topic"] != TOPIC]
        )


async def test_a_failed_message_comes_again_after_its_delay(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    def longer(context: ConsumeContext) -> None:
        context.delay_level = 5 if len(taken.messages) == 3 else 0

    cluster.put_many(cluster.queue(TOPIC), [b"a"])
    taken = Taken(LATER, ValueError("no"), LATER)
    taken.context = longer
    async with popping(cluster, taken):
        await trio.sleep(300)
    times = [at for at, _ in taken.messages]
    assert [round(b - a) for a, b in pairwise(times)] == [10, 30, 60]
    assert [message.reconsume_times for _, message in taken.messages] == [0, 1, 2, 3]
    assert {message.topic for _, message in taken.messages} == {TOPIC}
    assert in_flight(cluster) == 0


@pytest.mark.parametrize("level", [0, -1])
async def test_dead_letters(level: int, cluster: WatchedCluster, autojump_clock: Any) -> None:
    def at_once(context: ConsumeContext) -> None:
        context.delay_level = level

    cluster.put_many(cluster.queue(TOPIC), [b"a"])
    taken = Taken(LATER, LATER, LATER)
    taken.context = at_once
    async with popping(cluster, taken, max_reconsume_times=1):
        await trio.sleep(300)
    assert len(taken.messages) == (1 if level else 2)
    assert cluster.bodies(f"%DLQ%{GROUP}") == [b"a"] and in_flight(cluster) == 0


async def test_a_batch_that_succeeds_in_part(cluster: WatchedCluster, autojump_clock: Any) -> None:
    def first(context: ConsumeContext) -> None:
        context.ack_index = 0

    cluster.put_many(cluster.queue(TOPIC), [b"a", b"b", b"c"])
    taken = Taken()
    taken.context = first
    async with popping(cluster, taken, batch_size=3):
        await trio.sleep(100)
    times = Counter(taken.bodies)
    assert times[b"a"] == 1 and times[b"b"] > 1 and times[b"c"] > 1 and in_flight(cluster) == 0


@pytest.mark.parametrize(("timeout", "calls"), [(900, 1), (100, 2)])
async def test_a_slow_listener_keeps_its_messages(
    timeout: int, calls: int, cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async def slow(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        begun.append((messages[0].body, messages[0].reconsume_times))
        await trio.sleep(400)
        return DONE

    begun: list[tuple[bytes, int]] = []
    cluster.put_many(cluster.queue(TOPIC), [b"a", b"b"])
    async with popping(cluster, slow, consumers=1, consume_timeout=timeout):
        await trio.sleep(350)
        # The second one waits in the client, and is not lent again meanwhile.
        assert begun == [(b"a", 0)] and in_flight(cluster) == 2
        await trio.sleep(1300)
    assert begun.count((b"a", 1)) == calls - 1 and (b"b", 0) in begun
    assert in_flight(cluster) == 0


async def test_lost_acknowledgements_are_sent_again(cluster: WatchedCluster, autojump_clock: Any) -> None:
    losses = [2]

    def lose(_command: RemotingCommand) -> Any:
        losses[0] -= 1
        return LOST if losses[0] >= 0 else None

    cluster.trouble[ACK] = cluster.trouble[BATCH_ACK] = lose
    sent, taken = fill(cluster), Taken()
    async with popping(cluster, taken):
        await trio.sleep(200)
    assert Counter(taken.bodies) == Counter(sent) and in_flight(cluster) == 0 and losses[0] < 0


async def test_a_broker_without_batches_of_acknowledgements(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.trouble[BATCH_ACK] = refuse
    sent, taken = fill(cluster), Taken()
    async with popping(cluster, taken):
        await trio.sleep(200)
    assert Counter(taken.bodies) == Counter(sent) and in_flight(cluster) == 0
    assert cluster.count(BATCH_ACK) == 1 and cluster.count(ACK) >= len(sent) - 1


async def test_no_more_in_flight_than_allowed(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async def slow(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        most.append(in_flight(cluster))
        await trio.sleep(5)
        return DONE

    most: list[int] = []
    share(cluster)
    fill(cluster)
    async with popping(cluster, slow, pop_messages=7, consumers=3) as one:
        await trio.sleep(22)
        assert one.metrics().waiting == 7 and one.metrics().lag >= 25
        await trio.sleep(200)
        assert (one.metrics().consumed, one.metrics().lag) == (40, 0)
    assert max(most) == 7


@pytest.mark.parametrize("grace", [3.0, 0.0])
async def test_what_was_not_consumed_is_returned_at_the_end(
    grace: float, cluster: WatchedCluster, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change_late(*arguments: Any, **options: Any) -> ReceiptHandle:
        await trio.sleep(0.1)  # longer than a consumer without grace takes to end its tasks
        return await change(*arguments, **options)

    async def slow(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        await trio.sleep(2 if messages[0].body == b"0" else 1000)
        finished.append(messages[0].body)
        return DONE

    finished: list[bytes] = []
    monkeypatch.setattr(pops, "change", change_late)
    share(cluster)
    cluster.put_many(cluster.queue(TOPIC), bodies(0, 20))
    async with popping(cluster, slow, consumers=2, grace=grace):
        await trio.sleep(1)
        assert in_flight(cluster) == 20
    assert finished == ([b"0"] if grace else []) and in_flight(cluster) == 0
    taken = Taken()
    async with popping(cluster, taken, "c2"):
        await trio.sleep(1)
        assert Counter(taken.bodies) == Counter(bodies(len(finished), 20))
        assert {message.reconsume_times for _, message in taken.messages} == {0}


async def test_a_pop_that_waits_at_the_end_takes_no_message_away(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    share(cluster)
    taken = Taken()
    async with ClientInstance(NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms) as instance:
        async with consumer(cluster, Taken(), pop=True, instance=instance):
            await trio.sleep(1)
            left = trio.current_time()
        assert trio.current_time() - left < 0.5  # the broker has ended the pop
        async with popping(cluster, taken, "c2"):
            await trio.sleep(1)
            for number in range(4):
                cluster.put_many(cluster.queue(TOPIC, number), [b"%d" % number])
                await trio.sleep(0.1)
            await trio.sleep(1)
            assert sorted(taken.bodies) == bodies(0, 4)


async def test_a_member_that_joins_gets_what_a_listener_has_not_begun(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async def slow(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        begun.append(messages[0].body)
        await trio.sleep(50)
        return DONE

    begun: list[bytes] = []
    sent, taken = fill(cluster), Taken()
    async with popping(cluster, slow, "c1", consumers=1, pop_messages=9, grace=100):
        await trio.sleep(1)
        async with popping(cluster, taken, "c2") as two:
            await trio.sleep(30)
            assert [queue.queue_id for queue in of_topic(two)] == [2, 3]
            assert len(begun) == 1 and len(taken.bodies) > 15
        await trio.sleep(2100)
    assert Counter(begun + taken.bodies) == Counter(sent)


async def test_a_pop_of_a_queue_that_was_released(cluster: WatchedCluster, autojump_clock: Any) -> None:
    one, two = Taken(), Taken()
    async with popping(cluster, one, "c1"):
        await trio.sleep(18)
        async with popping(cluster, two, "c2") as second:
            await trio.sleep(5)
            assert len(of_topic(second)) == 2
            for number in range(4):
                cluster.put_many(cluster.queue(TOPIC, number), bodies(0, 5))
            await trio.sleep(1)
            assert len(one.bodies + two.bodies) == 20


async def test_a_tag_with_the_hash_code_of_another(cluster: WatchedCluster, autojump_clock: Any) -> None:
    taken = Taken()
    async with Producer(namesrv=NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms) as producer:
        for tags in ("Aa", "BB", "Cc"):
            await producer.send(Message.of(TOPIC, tags, tags=tags))
    async with popping(cluster, taken, topics={TOPIC: "Aa"}):
        await trio.sleep(100)
    assert taken.bodies == [b"Aa"] and in_flight(cluster) == 0


async def test_a_condition(cluster: WatchedCluster, autojump_clock: Any) -> None:
    taken = Taken()
    async with Producer(namesrv=NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms) as producer:
        for price in range(6):
            await producer.send(Message.of(TOPIC, str(price), properties={"price": str(price)}))
    async with popping(cluster, taken, topics={TOPIC: MessageSelector.by_sql("price > 3")}) as one:
        await trio.sleep(100)
        assert sorted(taken.bodies) == [b"4", b"5"]
        await one.subscribe(TOPIC, "late")
        await trio.sleep(20)
        cluster.put_many(cluster.queue(TOPIC), [b"x"])
        await trio.sleep(100)
    assert sorted(taken.bodies) == [b"4", b"5"] and in_flight(cluster) == 0


async def test_what_was_lent_for_too_long_is_not_consumed(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async def slow(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        begun.append((messages[0].body, messages[0].reconsume_times))
        await trio.sleep(70 if len(begun) == 1 else 0)
        return DONE

    begun: list[tuple[bytes, int]] = []
    cluster.trouble[CHANGE] = lambda command: command.reply(ResponseCode.SYSTEM_ERROR, "not now")
    cluster.put_many(cluster.queue(TOPIC), [b"a", b"b"])
    async with popping(cluster, slow, consumers=1):
        await trio.sleep(200)
    # The second one waits for 70 s in the client, and is lent again after 60.
    assert sorted(begun) == [(b"a", 0), (b"a", 1), (b"b", 1)]


async def test_a_connection_that_breaks(cluster: WatchedCluster, autojump_clock: Any) -> None:
    share(cluster)
    sent, taken = fill(cluster), Taken()
    async with popping(cluster, taken):
        await trio.sleep(5)
        cluster.cut()
        await trio.sleep(5)
        sent += fill(cluster)
        await trio.sleep(100)
    assert Counter(taken.bodies) == Counter(sent) and in_flight(cluster) == 0


async def test_the_retry_topic_of_pulls_is_pulled(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"a"])
    async with consumer(cluster, Taken(LATER), "c1"):
        await trio.sleep(5)
    taken = Taken()
    async with popping(cluster, taken, "c2"):
        await trio.sleep(60)
    assert taken.bodies == [b"a"] and taken.messages[0][1].topic == TOPIC


async def test_members_that_pull_share_the_group(cluster: WatchedCluster, autojump_clock: Any) -> None:
    sent, taken = fill(cluster), [Taken(), Taken(LATER)]
    async with consumer(cluster, taken[0], "c1") as one, popping(cluster, taken[1], "c2") as two:
        await trio.sleep(30)
        assert len(of_topic(one)) == len(of_topic(two)) == 2
        sent += fill(cluster)
        await trio.sleep(100)
    counts = Counter(taken[0].bodies + taken[1].bodies)
    assert counts - Counter(sent) == Counter(taken[1].bodies[:1])


class InOrder:
    """An orderly listener that records; it fails the first `failures` times for the body b"3"."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.calls: list[tuple[int, int, int]] = []

    async def __call__(self, messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
        (message,) = messages
        assert context.queue.queue_id == message.queue_id
        self.calls.append((message.queue_id, int(message.body), message.reconsume_times))
        await trio.sleep(0.1)
        if message.body == b"3" and self.failures:
            self.failures -= 1
            return OrderlyResult.SUSPEND
        return OrderlyResult.SUCCESS

    def of(self, queue_id: int) -> list[tuple[int, int]]:
        return [call[1:] for call in self.calls if call[0] == queue_id]


async def test_orderly_members_share_queues_in_order(cluster: WatchedCluster, autojump_clock: Any) -> None:
    share(cluster)
    fill(cluster, 160)
    one, two = InOrder(), InOrder(failures=3)
    async with consumer(cluster, two, "c2", orderly=True, pop=True):
        await trio.sleep(2)
        async with consumer(cluster, one, "c1", orderly=True, pop=True):
            await trio.sleep(100)
    assert len(two.calls + one.calls) == 163 and in_flight(cluster) == 0
    for number in range(4):
        of_queue = [call[1] for call in two.calls + one.calls if call[0] == number]
        assert sorted(set(of_queue)) == list(range(number * 40, number * 40 + 40))
        for listener in (one, two):
            order = [body for body, _ in listener.of(number)]
            assert order == sorted(order)
    assert [times for body, times in two.of(0) if body == 3] == [0, 1, 2, 3]
    assert one.calls


async def test_an_orderly_member_that_ends_returns_its_queues(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    share(cluster)
    cluster.put_many(cluster.queue(TOPIC), bodies(0, 30))
    one, two = InOrder(), InOrder()
    async with consumer(cluster, one, "c1", orderly=True, pop=True):
        await trio.sleep(0.55)
    async with consumer(cluster, two, "c2", orderly=True, pop=True):
        await trio.sleep(5)
    bodies_of = [body for body, _ in one.of(0) + two.of(0)]
    assert bodies_of == list(range(30)) and 3 < len(one.calls) < 10
    assert {times for _, times in two.of(0)} == {0}


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_reset_moves_members_that_pop(
    orderly: bool, cluster: WatchedCluster, autojump_clock: Any
) -> None:
    share(cluster)
    sent, taken = fill(cluster, 20), Taken()
    listener: Any = InOrder() if orderly else taken
    options: Any = {"namesrv": NAMESRV, "open_stream": cluster.open_stream, "now_ms": now_ms}
    async with consumer(cluster, listener, orderly=orderly, pop=True), Admin(**options) as admin:
        await trio.sleep(30)
        await admin.offsets.reset(
            await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start")), settle=1
        )
        await trio.sleep(5)
    heard = [b"%d" % body for _, body, _ in listener.calls] if orderly else taken.bodies
    assert Counter(heard) == Counter(sent + sent) and in_flight(cluster) == 0


async def test_an_orderly_dead_letter(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.put_many(cluster.queue(TOPIC), bodies(0, 6))
    listener = InOrder(failures=9)
    async with consumer(cluster, listener, orderly=True, pop=True, max_reconsume_times=2):
        await trio.sleep(100)
    assert [body for body, _ in listener.of(0)] == [0, 1, 2, 3, 3, 3, 4, 5]
    assert cluster.bodies(f"%DLQ%{GROUP}") == [b"3"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"message_model": MessageModel.BROADCASTING}, "pop=True and broadcasting cannot be combined"),
        ({"consume_from": ConsumeFromWhere.CONSUME_FROM_TIMESTAMP}, "first or at the last offset"),
        ({"allocate": by_config([])}, "averagely, averagely_by_circle, consistent_hash"),
        ({"invisible_duration": 4}, "invisible_duration is 4, out of range"),
    ],
)
def test_what_cannot_be_combined(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        PushConsumer(GROUP, {TOPIC: "*"}, Taken(), pop=True, settings=PushSettings(**settings))


async def test_brokers_of_4x(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.trouble[int(RequestCode.QUERY_ASSIGNMENT)] = refuse
    with pytest.raises(NotSupported, match="with pop=True, PushConsumer needs brokers of 5"):
        async with popping(cluster, Taken()):
            pytest.fail("it was entered")


async def test_running_info_names_what_is_popped(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async def slow(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        await trio.sleep(5)
        return DONE

    share(cluster)
    fill(cluster, 12)
    async with popping(cluster, slow) as one:
        await trio.sleep(1)
        (queue,) = of_topic(one)
        info = one._processor._running_info(False)  # type: ignore[union-attr]
        assert info.mq_pop_table is not None and info.mq_pop_table[queue].wait_ack_count == 12


def message_of(handle: ReceiptHandle, body: bytes) -> MessageExt:
    (message,) = decode_records(make_record(topic=TOPIC.encode(), body=body))
    message.properties[PropertyName.POP_CK] = handle.encode()
    return message


async def test_an_inner_batch_is_acknowledged_as_a_whole(autojump_clock: Any) -> None:
    settled: list[Loan] = []
    held = PopQueue(MessageQueue(TOPIC, "a", 0), 0, settled.append)
    one = ReceiptHandle(7, 1, 60_000, 0, "0", "a", 0, 7)
    messages = [message_of(one, b"a"), message_of(one, b"b"), message_of(one._replace(offset=8), b"c")]
    held.add(messages, trio.current_time() + 60)
    held.remove(held.begin(messages[:1]))
    assert settled == [] and held.count == 2
    held.remove(messages[2:])
    held.fail(messages[1:2], 3)
    assert [(loan.handle.offset, loan.level) for loan in settled] == [(8, None), (7, 3)]
    assert held.count == held.size == 0
