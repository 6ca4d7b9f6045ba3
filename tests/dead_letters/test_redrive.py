"""Dead letters of a cluster in memory, sent back; on the virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import LOST, Lost, MemoryCluster, embedded_in_memory
from rmqcli.client import UNREACHED, Admin, GroupNotFound, Producer, PullConsumer
from rmqcli.codec.codes import Perm, RequestCode, ResponseCode
from rmqcli.codec.headers.send import ConsumerSendMsgBackRequestHeader
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.messages import CONSUMER_SEND_MSG_BACK
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.dead_letters.access import opened
from rmqcli.dead_letters.journal import Journal, State
from rmqcli.dead_letters.letter import REDRIVEN_FROM, NoDeadLetters, NotReadable, Selection, selection
from rmqcli.dead_letters.redrive import Letters, Tally
from rmqcli.grammar.offset_range import OffsetRange

DLQ = "%DLQ%g"
LIMIT = 3.0


class Post:
    """A cluster with 3 dead letters of group `g` from topic `orders`, and one from `bills`."""

    def __init__(self, cluster: MemoryCluster, admin: Admin, lost: list[str]) -> None:
        self.cluster, self.admin, self.lost = cluster, admin, lost

    async def kill(self, topic: str, body: bytes, key: str, broker: str = "broker-a") -> None:
        """Send a message and let it become a dead letter, as a consumer does."""
        async with Producer("p", **self.cluster.client()) as producer:
            message = Message.of(topic, body, keys=key, tags="paid", properties={"shop": "berlin"}, flag=7)
            sent = await producer.send(message, queue=MessageQueue(topic, broker, 0))
        header = ConsumerSendMsgBackRequestHeader(
            offset=parse_offset_msg_id(sent.offset_msg_id)[2], group="g", delay_level=-1
        )
        address = (await self.admin.brokers.masters(brokers=[broker]))[broker]
        await self.admin.instance.ask(address, CONSUMER_SEND_MSG_BACK, header, None)

    async def read(self, topic: str) -> list[MessageExt]:
        async with PullConsumer(**self.cluster.client()) as consumer:
            return (await consumer.pull(MessageQueue(topic, "broker-a", 0), 0)).messages

    async def run(
        self,
        journal: Journal,
        chosen: Selection = Selection(),  # noqa: B008 - frozen
        *,
        again: bool = False,
        to: str | None = None,
        rate: float | None = None,
        grant: bool = False,
    ) -> Tally:
        async with opened(self.admin, "g", grant=grant) as topic:
            letters = Letters(self.admin, topic, chosen, journal, again=again, to=to)
            found, tally = await letters.counted(), Tally()
            await letters.redrive(found, tally, rate=rate, advance=lambda count: None)
        return tally


@pytest.fixture
async def post(autojump_clock: MockClock) -> AsyncIterator[Post]:
    lost: list[str] = []

    async def lose(address: str, request: RemotingCommand) -> RemotingCommand | Lost | None:
        is_send = request.code == RequestCode.SEND_MESSAGE_V2
        if "refused" in lost and is_send:
            return request.reply(ResponseCode.NO_PERMISSION, "no")
        return LOST if address in lost or ("sends" in lost and is_send) else None

    async with (
        embedded_in_memory(on_request=lose) as cluster,
        Admin(**cluster.client() | {"timeout": LIMIT}) as admin,
    ):
        for topic in ("orders", "bills"):
            await admin.topics.create(topic, read_queues=1, write_queues=1)
        made = Post(cluster, admin, lost)
        for number in range(3):
            await made.kill("orders", f"{number}".encode(), f"k{number}")
        await made.kill("bills", b"bill", "k9")
        yield made


@pytest.fixture
def journal(tmp_path: Path) -> Callable[[], Journal]:
    return lambda: Journal(tmp_path / "g.jsonl")


async def test_letters_go_back_once(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    with journal() as own:
        assert (await post.run(own)).done == 4
    first, *_, last = await post.read("orders")
    assert (last.body, last.keys, last.tags, last.flag) == (b"2", ["k2"], "paid", 7)
    assert (last.properties["shop"], last.reconsume_times) == ("berlin", 0)
    assert last.properties[REDRIVEN_FROM] == f"{DLQ} broker-a 0 2"
    assert not {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY"} & last.properties.keys()
    assert first.msg_id == (await post.read("orders"))[3].msg_id, "it keeps its message id"
    assert [message.body for message in await post.read("bills")] == [b"bill", b"bill"]
    with journal() as own:
        assert (await post.run(own)).done == 0
        assert (await post.run(own, again=True, to="bills")).done == 4


async def test_a_selection_and_a_rate(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    chosen = selection(["k1", "k2"], [], OffsetRange(), None)
    with journal() as own:
        began = trio.current_time()
        assert (await post.run(own, chosen, rate=0.5)).done == 2
        assert 2 <= trio.current_time() - began < 3
        left = selection([], [], OffsetRange(begin=0, end=2), None)
        assert (await post.run(own, left)).done == 1
    assert [message.body for message in await post.read("orders")][3:] == [b"1", b"2", b"0"]


async def test_what_was_not_answered_is_left_out(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    chosen = selection(["k1"], [], OffsetRange(), None)
    with journal() as own:
        post.lost.append("sends")
        tally = await post.run(own, chosen)
        assert (tally.done, len(tally.unknown), tally.failed) == (0, 1, {})
        post.lost.clear()
        async with opened(post.admin, "g", grant=False) as topic:
            found = await Letters(post.admin, topic, chosen, own).counted()
        assert (found.count, found.excluded) == (0, {State.SENDING: 1})
        assert (await post.run(own, chosen)).done == 0
        assert (await post.run(own, chosen, again=True)).done == 1


async def test_a_topic_that_is_gone_is_not_made_again(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    await post.admin.topics.delete("bills")
    with journal() as own:
        async with opened(post.admin, "g", grant=False) as topic:
            found = await Letters(post.admin, topic, Selection(), own).counted()
        assert (found.targets, found.gone, found.count) == (
            ["orders"],
            {"bills": "topic bills does not exist"},
            3,
        )
        assert (await post.run(own)).done == 3
        assert "bills" not in await post.admin.topics.names()
        assert (await post.run(own, to="orders")).done == 1


async def test_a_topic_that_takes_nothing(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    await post.admin.topics.update("bills", perm=Perm.READ)
    with journal() as own:
        async with opened(post.admin, "g", grant=False) as topic:
            found = await Letters(post.admin, topic, Selection(), own).counted()
        assert found.gone == {"bills": "topic bills has no writable queue"}
        assert (await post.run(own)).done == 3


async def test_a_letter_that_is_refused_stays_open(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    chosen = selection(["k1"], [], OffsetRange(), None)
    with journal() as own:
        post.lost.append("refused")
        tally = await post.run(own, chosen)
        assert (tally.done, len(tally.failed), tally.unknown) == (0, 1, {})
        post.lost.clear()
        assert (await post.run(own, chosen)).done == 1


async def test_marked_letters_are_left_out(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    with journal() as own:
        async with opened(post.admin, "g", grant=False) as topic:
            letters = Letters(post.admin, topic, selection(["k0"], [], OffsetRange(), None), own)
            tally = Tally()
            await letters.drop(await letters.counted(), tally)
        assert tally.done == 1
        assert (await post.run(own)).done == 3


async def test_a_write_only_topic(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    await post.admin.topics.update(DLQ, perm=Perm.WRITE)
    with journal() as own:
        with pytest.raises(NotReadable, match="--grant-read"):
            await post.run(own)
        assert (await post.run(own, grant=True)).done == 4
    assert {config.perm for config in (await post.admin.topics.settings(DLQ)).values()} == {Perm.WRITE}
    with trio.move_on_after(1):
        async with opened(post.admin, "g", grant=True) as topic:
            assert topic.granted == ("broker-a",)
            await trio.sleep_forever()
    assert {config.perm for config in (await post.admin.topics.settings(DLQ)).values()} == {Perm.WRITE}


async def test_one_of_two_brokers_is_silent(
    autojump_clock: MockClock, post: Post, journal: Callable[[], Journal]
) -> None:
    async with post.cluster.broker(broker_name="broker-b") as other:
        await post.admin.topics.create("orders", brokers=["broker-b"], read_queues=1, write_queues=1)
        await post.kill("orders", b"there", "k7", "broker-b")
        post.lost.append(other.broker_address)
        began = trio.current_time()
        async with opened(post.admin, "g", grant=False) as topic:
            assert isinstance(topic.failures["broker-b"], UNREACHED)
            found = await Letters(post.admin, topic, Selection(), journal()).counted()
        assert trio.current_time() - began <= LIMIT + 1
        assert (found.count, list(found.failures)) == (4, ["broker-b"])


async def test_groups_without_dead_letters(autojump_clock: MockClock, post: Post) -> None:
    async with PullConsumer("quiet", **post.cluster.client()) as consumer:
        await consumer.commit(MessageQueue("orders", "broker-a", 0), 1)
    with pytest.raises(NoDeadLetters, match="group quiet has no dead letters"):
        async with opened(post.admin, "quiet", grant=False):
            pass
    with pytest.raises(GroupNotFound):
        async with opened(post.admin, "nobody", grant=False):
            pass
