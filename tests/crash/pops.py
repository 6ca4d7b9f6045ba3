"""One seed of the programme for POP: groups pop, acknowledge and change times until a power cut or kill, twice, and
then a broker lends whatever is left. What clients are lent is compared with what they know.

    .venv/bin/python -m tests.crash.pops SEED…

replays seeds and tells how each went.
"""

from __future__ import annotations

import base64
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.power_cut import Journal
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.pop import BatchAck, BatchAckMessageRequestBody
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.headers.base import Header
from rmqcli.codec.receipt_handle import ReceiptHandle
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.popping import BATCH_ACK, Lent, ack, change, popped
from tests.broker.support import Reply, send_header
from tests.crash.clients import Clients
from tests.crash.image import Image, Record
from tests.crash.model import dead_letter_topic, record_number
from tests.crash.plan import SAVE_S, TOPICS, Clock, Plan, image_of
from tests.crash.programme import ENDS, PAGES, run
from tests.crash.retention import Causes
from tests.crash.script import Session
from tests.crash.wire import Gone as Closed
from tests.crash.wire import Wire

PLAIN, FEW, FIFO = "plain", "few", "fifo"
GROUPS = {PLAIN: 1000, FEW: 2, FIFO: 1000}
"""Group → the number of its retries."""
WINDOW_S = SAVE_S + 1.0
"""What happened so long before an end may be forgotten: the interval of saves, and the time that two of them take."""
MARGIN_S = 0.05
TICK_S = 0.001
"""The broker rounds times to milliseconds: a message may be over half of one before its time."""
INVISIBLE_MS = (1000, 2500, 8000)
CHANGED_MS = (0, 500, 1500, 6000)
DRAINED_S = 20
"""Longer than any message is lent."""


@dataclass(eq=False)
class Sent:
    """A message that was sent. `offset` is that of its queue, if the reply came."""

    number: int
    topic: str
    queue_id: int
    offset: int | None = None
    lost: bool = False


@dataclass(eq=False)
class Known:
    """What a group knows of a message. Times are trio's.

    `due` is when the last delivery is over, None if a crash may have forgotten it; `dues` are all that there were.
    """

    lent: float = 0.0
    due: float | None = None
    dues: list[float] = field(default_factory=list)
    handle: ReceiptHandle | None = None
    is_sure: bool = False
    """The broker knows the handle."""
    acked: float | None = None
    """When the acknowledgement was answered that has to have an effect."""
    may_be_acked: bool = False
    """An acknowledgement was sent that may have had an effect."""
    is_doubled: bool = False
    """There may be two copies: one was stored just before a crash, and what it is a copy of left just then."""


class Model:
    """The knowledge of all clients. `life` counts the starts of the broker, `counts` what was met."""

    def __init__(self) -> None:
        self.life = 0
        self.saved_by = 0.0
        self.topics: dict[str, bool | None] = {}
        self.messages: dict[int, Sent] = {}
        self.counts: Counter[str] = Counter()
        self.started = 0.0
        self._known: dict[str, dict[int, Known]] = {group: defaultdict(Known) for group in GROUPS}

    def new(self, topic: str, queue_id: int) -> Sent:
        sent = Sent(len(self.messages) + 1, topic, queue_id)
        self.messages[sent.number] = sent
        return sent

    def known(self, group: str, number: int) -> Known:
        return self._known[group][number]

    def kill(self) -> None:
        """The broker ends without notice: forgets what it has not saved."""
        now = trio.current_time()
        for group, messages in self._known.items():
            for known in messages.values():
                if known.acked is not None and now <= known.acked + WINDOW_S:
                    known.acked, known.may_be_acked = None, True
                if now <= known.lent + WINDOW_S:
                    known.due, known.is_sure = None, False
                ends = [due for due in known.dues if known.acked is None or due <= known.acked]
                recent = any(due - TICK_S <= now <= max(due, self.started) + WINDOW_S for due in ends)
                known.is_doubled |= recent and group != FIFO

    def cut(self, _synced: Image) -> None:
        self.kill()

    def settle(self, image: Image) -> None:
        """Take over what a recovered store holds."""
        self.started = trio.current_time()
        there = originals(image)
        for sent in self.messages.values():
            sent.lost = sent.number not in there

    def pop_without_reply(self, group: str, due: float) -> None:
        """Note a pop whose reply was lost: it may have lent any message."""
        for number in self.messages:
            self.known(group, number).dues.append(due)

    def lend(self, group: str, lent: Sequence[Lent], asked: float, invisible_ms: int) -> None:
        """Check and note what a pop has lent."""
        numbers = [number_of(one) for one in lent]
        if group == FIFO:
            self._check_order(numbers)
        for number, one in zip(numbers, lent, strict=True):
            known = self.known(group, number)
            self._check(group, number, known, one, asked)
            self.counts["deliveries"] += 1
            self.counts["deliveries again"] += bool(known.handle)
            known.lent, known.due = trio.current_time(), asked + invisible_ms / 1000
            known.dues.append(known.due)
            known.handle, known.is_sure, known.acked, known.may_be_acked = one.handle, True, None, False

    def _check(self, group: str, number: int, known: Known, one: Lent, asked: float) -> None:
        now = trio.current_time()
        what = f"message {number} at {now:.3f} to {group}: {known}"
        assert number in self.messages, f"nobody sent {what}"
        assert one.times <= len(known.dues), f"attempts that never were of {what}"
        if known.is_doubled:
            return
        assert known.acked is None, f"{self.messages[number]} an acknowledged message is lent again: {what}"
        assert known.due is None or known.due <= now + MARGIN_S, f"two have the same message: {what}"
        self.counts["acknowledged shortly before an end, and lent again"] += known.may_be_acked

    def _check_order(self, numbers: list[int]) -> None:
        """Everything before a message in its queue is acknowledged, or in the same reply before it."""
        before: dict[tuple[str, int], int] = {}
        for number in numbers:
            sent = self.messages[number]
            place = sent.topic, sent.queue_id
            assert before.get(place, 0) < number or sent.offset is None, f"{numbers}: not in order"
            before[place] = number
            for other in self.messages.values():
                is_earlier = (other.topic, other.queue_id) == place and not other.lost
                if not is_earlier or None in (other.offset, sent.offset) or other.number in numbers:
                    continue
                known = self.known(FIFO, other.number)
                is_over = known.acked is not None or known.may_be_acked
                assert is_over or other.offset > sent.offset, (  # type: ignore[operator]
                    f"{sent} is lent before {other} is acknowledged: {known}"
                )

    def check_end(self, image: Image) -> None:
        """Everything there is was acknowledged, or is a dead letter of the group with few attempts."""
        dead = {record_number(record) for record in image.records if record.topic == dead_letter_topic(FEW)}
        self.counts["dead letters"] += len(dead)
        for group in GROUPS:
            for number in originals(image):
                known = self.known(group, number)
                is_over = known.acked is not None or known.may_be_acked or (group == FEW and number in dead)
                assert is_over, f"message {number} was never lent to {group} again: {known}"


def number_of(one: Lent) -> int:
    return int(one.body.split(b":")[0])


def originals(image: Image) -> dict[int, Record]:
    return {record_number(record): record for record in image.records if record.topic in TOPICS}


class Poppers:
    """The clients of one broker. `ask` raises Closed when the session has ended."""

    def __init__(
        self, model: Model, rng: random.Random, ask: Callable[..., Awaitable[RemotingCommand]]
    ) -> None:
        self._model = model
        self._rng = rng
        self._ask = ask
        self.create = partial(Clients.create, self)  # type: ignore[arg-type]
        self.tasks = (self.produce, self.pop, self.pop, self.finish, self.change)

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Reply:
        """Stand for a client of `tests.broker.popping`."""
        reply = await self._ask(code, header, body)
        return Reply(reply.code, reply.remark, reply.ext_fields or {}, bytes(reply.body), reply.opaque)

    async def heartbeat(self) -> None:
        """Make the groups."""
        for name, retries in GROUPS.items():
            group = SubscriptionGroupConfig(
                group_name=name, retry_max_times=retries, consume_message_orderly=name == FIFO
            )
            reply = await self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(group))
            assert reply.code == 0, reply.remark

    def asked(self, command: RemotingCommand) -> None:
        """Nothing is asked of those that pop."""

    async def answer(self) -> None:
        """The same."""

    async def produce(self) -> None:
        topic = self._rng.choice(tuple(TOPICS))
        queue_id = self._rng.randrange(TOPICS[topic])
        for _ in range(self._rng.choice((1, 2, 5))):
            sent = self._model.new(topic, queue_id)
            body = b"%d:" % sent.number + b"x" * self._rng.choice((1, 100, 2000))
            header = send_header(topic, {"UNIQ_KEY": f"{sent.number:032X}"}, queue_id=queue_id)
            reply = await self.ask(RequestCode.SEND_MESSAGE_V2, header, body)
            if reply.code == ResponseCode.SUCCESS:
                sent.offset = int(reply.ext["queueOffset"])

    async def pop(self) -> None:
        await self._pop(
            self._rng.choice(tuple(GROUPS)), self._rng.choice(tuple(TOPICS)), self._rng.choice(INVISIBLE_MS)
        )

    async def _pop(self, group: str, topic: str, invisible_ms: int) -> list[Lent]:
        asked = trio.current_time()
        fields = {"consumer_group": group, "topic": topic, "invisible_time": invisible_ms}
        fields |= {"order": group == FIFO, "init_mode": self._rng.randrange(2)}
        fields["max_msg_nums"] = self._rng.choice((1, 3, 32))
        try:
            lent = await popped(self, **fields)  # type: ignore[arg-type]
        except Closed:
            self._model.pop_without_reply(group, asked + invisible_ms / 1000)
            raise
        self._model.lend(group, lent, asked, invisible_ms)
        return lent

    def _some(self, most: int) -> tuple[str, list[int]]:
        """Some messages that a group was lent and has not acknowledged."""
        group = self._rng.choice(tuple(GROUPS))
        numbers = [n for n in self._model.messages if self._model.known(group, n).handle is not None]
        open_ones = [
            n
            for n in numbers
            if self._model.known(group, n).acked is None and not self._model.messages[n].lost
        ]
        if group == FIFO and self._rng.random() < 0.7:
            return group, open_ones[:most]
        return group, self._rng.sample(open_ones, min(len(open_ones), most))

    async def finish(self) -> None:
        """Acknowledge messages, one by one or together."""
        group, numbers = self._some(6)
        await self._finish(group, numbers, together=self._rng.random() < 0.5)

    async def _finish(self, group: str, numbers: Sequence[int], *, together: bool) -> None:
        for part in [numbers] if together and numbers else [[number] for number in numbers]:
            known = [(self._model.known(group, number), number) for number in part]
            handles = [one.handle for one, _ in known]
            sure = [one.is_sure for one, _ in known]
            for one, _ in known:
                one.may_be_acked = True
            if together:
                await self._ack_batch(group, part)
            else:
                number = part[0]
                await ack(self, handles[0], group=group, topic=self._model.messages[number].topic)  # type: ignore[arg-type]
            now = trio.current_time()
            for (one, _), handle, was_sure in zip(known, handles, sure, strict=True):
                is_last = one.handle == handle and one.due is not None
                if was_sure and is_last and now < one.due - MARGIN_S:  # type: ignore[operator]
                    one.acked, one.may_be_acked = now, False
                    self._model.counts["acknowledgements"] += 1

    async def _ack_batch(self, group: str, numbers: Sequence[int]) -> None:
        acks = []
        for number in numbers:
            handle = self._model.known(group, number).handle
            assert handle is not None
            bits = 1 << handle.offset - handle.start_offset
            text = base64.b64encode(bits.to_bytes(bits.bit_length() // 8 + 1, "little")).decode()
            acks.append(
                BatchAck(
                    consumer_group=group,
                    topic=handle.topic(group, self._model.messages[number].topic),
                    retry=handle.retry,
                    start_offset=handle.start_offset,
                    queue_id=handle.queue_id,
                    revive_queue_id=handle.revive_queue,
                    pop_time=handle.pop_time,
                    invisible_time=handle.invisible_time,
                    bit_set=text,
                )
            )
        body = encode_body(BatchAckMessageRequestBody(broker_name="broker-a", acks=acks))
        reply = await self.ask(BATCH_ACK, None, body)
        assert reply.code == ResponseCode.SUCCESS, reply.remark

    async def change(self) -> None:
        """Give messages another time from now on."""
        group, numbers = self._some(3)
        for number in numbers:
            known, milliseconds = self._model.known(group, number), self._rng.choice(CHANGED_MS)
            handle, was_sure, before = known.handle, known.is_sure, known.due
            assert handle is not None
            due = trio.current_time() + milliseconds / 1000
            known.dues.append(due)
            known.due = None
            topic = self._model.messages[number].topic
            try:
                changed = await change(self, handle, milliseconds, group=group, topic=topic)  # type: ignore[arg-type]
            except AssertionError:
                if was_sure:
                    raise
                continue  # a power cut has taken the message
            if known.handle != handle:
                continue  # another pop got it meanwhile
            now = trio.current_time()
            known.handle = changed
            known.is_sure = was_sure and before is not None and now < before - MARGIN_S
            if known.is_sure:
                known.lent, known.due = now, due

    async def drain(self) -> None:
        """Get and acknowledge whatever is left."""
        await self.heartbeat()
        for topic, queues in TOPICS.items():
            await self.create(topic, queues)
        until = trio.current_time() + DRAINED_S
        while trio.current_time() < until:
            for group in GROUPS:
                for topic in TOPICS:
                    while lent := await self._pop(group, topic, 10_000):
                        await self._finish(group, [number_of(one) for one in lent], together=False)
            await trio.sleep(0.5)


class PopSession(Session):
    """A session of those that pop."""

    def _clients(self, wire: Wire) -> Any:
        return Poppers(self.model, self.rng, partial(self._ask, wire))  # type: ignore[arg-type]


class Pops:
    """The course of one seed. `counts` are what it has met."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._rng = random.Random(seed)
        self._clock = Clock()
        self.model = Model()
        self.counts = self.model.counts

    async def run(self) -> None:
        disk = SimulatedDisk(self._rng.getrandbits(32), now_ms=self._clock)
        for _ in range(ENDS):
            session = self._session(disk, self._plan())
            await session.run()
            assert session.after is not None
            disk = session.after
            lose = self._rng.choice(PAGES)
            if lose is not None:
                lose(disk)
            journal = session.plan.journal
            self.counts["kills" if journal is None else "cuts"] += 1
            self.counts["ends before the first request"] += session.requests == 0
        await self._session(disk, Plan(1, 0, 0, None)).live(Poppers.drain)  # type: ignore[arg-type]
        self.model.check_end(image_of(disk.contents()))
        self.counts["messages"] += len(self.model.messages)

    def _plan(self) -> Plan:
        rng = self._rng
        last_call = int(rng.choice((100, 400, 1000)) * rng.random()) + 1
        last_reply = rng.randint(1, 250) if rng.random() < 0.5 else 0
        lives, requests = rng.choice((1, 1, 2)), rng.randint(10, 50)
        journal = rng.choice((None, *Journal))
        return Plan(lives, requests, 0 if last_reply else last_call, journal, last_reply=last_reply)

    def _session(self, disk: SimulatedDisk, plan: Plan) -> Session:
        causes = Causes(self._clock, frozenset(), {})
        session = PopSession(self.model, disk, self._clock, self._rng, plan, causes)  # type: ignore[arg-type]
        session.opened = lambda one: self.model.settle(image_of(one.disk.contents()))
        return session


def main() -> None:
    for text in sys.argv[1:]:
        print(text, dict(run(Pops(int(text)))))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
