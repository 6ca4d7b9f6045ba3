"""A session: clients work on a broker whose disk is simulated, until a power cut or a kill ends it.

Everything follows from one seed: what the clients do and when, how long the disk takes, when the broker is
stopped and started again, how the clock is set, and at which call to the disk it all ends.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from broker.config import BrokerConfig
from broker.errors import StoreError
from broker.node import open_broker
from broker.store import MessageStore
from broker.testing.disk import SimulatedDisk
from broker.testing.memory_network import HOST, MemoryNetwork
from codec.bodies.base import encode_body
from codec.bodies.heartbeat import HeartbeatData, ProducerData
from codec.codes import RequestCode, ResponseCode
from codec.headers.base import from_ext
from codec.headers.topics import CreateTopicRequestHeader, DeleteTopicRequestHeader
from codec.headers.transactions import CheckTransactionStateRequestHeader
from codec.ids import parse_offset_msg_id
from codec.message import Message
from codec.message_batch import encode_batch
from codec.remoting.frame import RemotingCommand
from codec.store.record import decode_record, decode_records
from tests.broker.support import pull_header, send_header
from tests.crash.model import Commit, End, Gone, Kind, Model, Sent
from tests.crash.plan import (
    DELETED_TOPICS,
    GROUPS,
    JUMPS_S,
    PORT,
    PRODUCER_GROUP,
    SAVE_S,
    SETTINGS,
    TOPICS,
    Clock,
    Fault,
    Plan,
    image_of,
)
from tests.crash.wire import Gone as Closed
from tests.crash.wire import Wire

SIZES = (10, 10, 100, 300, 1500, 5000)
PAUSES_S = (0.0, 0.0, 0.0, 0.01, 0.3, 1.0)
DISK_S = (0.0, 0.0, 0.002, 0.02)


class Session:
    """The clients, and the broker in its lives, from one end to the next. `after` is the disk then."""

    def __init__(
        self,
        model: Model,
        disk: SimulatedDisk,
        clock: Clock,
        rng: random.Random,
        plan: Plan,
        fault: Fault | None = None,
    ) -> None:
        self.model = model
        self.disk = disk
        self.clock = clock
        self.rng = rng
        self.plan = plan
        self.fault = fault
        self.refused_starts = 0
        self.after: SimulatedDisk | None = None
        self.opened: Callable[[Session], None] = lambda _: None
        """Called when the store was recovered, before the broker changes anything: the first time, and after
        stops that a disk may have kept from being clean."""
        self._is_open = False
        self.calls = 0
        self.requests = self.replies = 0
        disk.on_call = self._count

    def _count(self, _name: str) -> None:
        self.calls += 1
        if self.calls == self.plan.last_call:
            self.end()
        if self.fault is not None and self.calls == self.fault.call:
            raise OSError(self.fault.errno, os.strerror(self.fault.errno))

    def end(self) -> None:
        """The power goes, or the process dies, now."""
        if self.after is not None:
            return
        if self.fault is None:
            self.model.saved_by = trio.current_time() - 2 * SAVE_S
        if self.plan.journal is None:
            self.model.kill()
            self.after = self.disk.killed()
        else:
            self.model.cut(image_of(self.disk.synced()))
            self.after = self.disk.power_cut(self.plan.journal)

    async def run(self) -> None:
        for _ in range(self.plan.lives):
            try:
                await self.live(self._work)
            except (OSError, StoreError):  # a start may be refused, by a disk that refuses
                if self.fault is None:
                    raise
                self.refused_starts += 1
            if self.after is not None:
                return
        self.end()

    async def live(self, work: Callable[[Wire], Any]) -> None:
        """Runs a broker, and `work` with a connection to it. Raises what ends the broker."""
        try:
            await self._live(work)
        except BaseExceptionGroup as group:
            alone: BaseException = group
            while isinstance(alone, BaseExceptionGroup) and len(alone.exceptions) == 1:
                alone = alone.exceptions[0]
            raise alone from None

    async def _live(self, work: Callable[[Wire], Any]) -> None:
        self.model.life += 1
        self.sync = self.rng.random() < 0.5 if self.plan.sync is None else self.plan.sync
        config = BrokerConfig(**SETTINGS, flush_disk_type="SYNC_FLUSH" if self.sync else "ASYNC_FLUSH")
        async with trio.open_nursery() as nursery:
            network = MemoryNetwork(nursery)
            async with open_broker(
                config,
                now_ms=self.clock,
                rng=random.Random(self.rng.random()),
                network=network,
                in_thread=self._in_place,
                disk=self.disk,
            ):
                if self.after is None:
                    wire = Wire(await network.open_stream(HOST, PORT), self._asked)
                    self._checks = trio.open_memory_channel[RemotingCommand](1000)
                    nursery.start_soon(wire.run)
                    nursery.start_soon(self._answer, wire)
                    await work(wire)
            nursery.cancel_scope.cancel()

    async def _in_place(self, function: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
        """Stands for a worker thread."""
        await trio.sleep(self.rng.choice(DISK_S))
        with self.disk.worker():
            result = function(*arguments)
        if getattr(function, "__func__", None) is MessageStore.load and self.after is None:
            self._note_open()
        return result

    def _note_open(self) -> None:
        if self._is_open and self.fault is None:
            return  # after a clean stop
        if self._is_open:
            self.model.kill()
        self._is_open = True
        self.opened(self)

    # --- the clients

    async def _work(self, wire: Wire) -> None:
        try:
            await self.heartbeat(wire)
            for topic, queues in TOPICS.items():
                if self.model.topics.get(topic) is not True:
                    await self._create(wire, topic, queues)
        except Closed:
            return
        async with trio.open_nursery() as nursery:
            for client in (self._produce, self._produce, self._consume, self._administrate):
                nursery.start_soon(self._repeat, partial(client, wire))

    async def _repeat(self, request: Callable[[], Any]) -> None:
        for _ in range(self.plan.requests):
            try:
                await request()
            except Closed:
                return
            if self.after is not None:
                return
            await trio.sleep(self.rng.choice(PAUSES_S))

    async def heartbeat(self, wire: Wire) -> None:
        data = HeartbeatData(client_id="client", producer_data_set=[ProducerData(group_name=PRODUCER_GROUP)])
        await self._ask(wire, RequestCode.HEART_BEAT, None, encode_body(data))

    async def _ask(self, wire: Wire, code: int, header: Any, body: bytes = b"") -> RemotingCommand:
        """Closed, too, if the session ended before the reply: nobody knows of it then."""
        if self.replies == self.plan.last_reply > 0:
            self.end()
            raise Closed
        self.requests += 1
        reply = await wire.ask(code, header, body)
        if self.after is not None:
            raise Closed
        self.replies += 1
        return reply

    async def _produce(self, wire: Wire) -> None:
        topic = self.rng.choice((*TOPICS, *(t for t in DELETED_TOPICS if self.model.topics.get(t))))
        queue_id = self.rng.randrange(TOPICS.get(topic, 1))
        kind = self.rng.choice((Kind.PLAIN,) * 5 + (Kind.DELAYED, Kind.HALF, None))
        if kind is None:
            await self._send_batch(wire, topic, queue_id)
        elif topic in DELETED_TOPICS and kind is not Kind.PLAIN:
            await self._send(wire, self._new("A", 0, kind))
        else:
            await self._send(wire, self._new(topic, queue_id, kind))

    def _new(self, topic: str, queue_id: int, kind: Kind) -> Sent:
        sent = self.model.new(topic, queue_id, (), kind)
        sent.keys = (f"k{sent.number}", "all") if self.rng.random() < 0.5 else (f"k{sent.number}",)
        if kind is Kind.DELAYED:
            sent.level = self.rng.randint(1, 3)
        if kind is Kind.HALF:
            sent.end = self.rng.choice(list(End))
        return sent

    def _body(self, sent: Sent) -> bytes:
        return b"%d:" % sent.number + bytes(self.rng.choice(SIZES)).replace(b"\0", b"x")

    async def _send(self, wire: Wire, sent: Sent) -> None:
        waits = self.rng.random() < 0.9
        properties = properties_of(sent, waits=waits)
        header = send_header(
            sent.topic,
            properties,
            queue_id=sent.queue_id,
            producer_group=PRODUCER_GROUP,
            born_timestamp=self.clock(),
            sys_flag=4 if sent.kind is Kind.HALF else 0,
        )
        reply = await self._ask(wire, RequestCode.SEND_MESSAGE_V2, header, self._body(sent))
        self._note(reply, [sent], is_flushed=self.sync and waits)
        if sent.kind is Kind.HALF and sent.place and sent.end is not End.NEVER and self.rng.random() < 0.6:
            await trio.sleep(self.rng.choice(PAUSES_S))
            if sent.ended_in != self.model.life:
                await self._end_transaction(wire, sent, *sent.place, is_check=False)

    async def _send_batch(self, wire: Wire, topic: str, queue_id: int) -> None:
        batch = [self._new(topic, queue_id, Kind.PLAIN) for _ in range(self.rng.randint(1, 6))]
        body = encode_batch(
            Message(topic=topic, body=self._body(sent), properties=properties_of(sent, waits=True))
            for sent in batch
        )
        header = send_header(
            topic, {"WAIT": "true"}, queue_id=queue_id, born_timestamp=self.clock(), batch=True
        )
        reply = await self._ask(wire, RequestCode.SEND_BATCH_MESSAGE, header, body)
        self._note(reply, batch, is_flushed=self.sync)

    def _note(self, reply: RemotingCommand, batch: list[Sent], *, is_flushed: bool) -> None:
        if reply.code != ResponseCode.SUCCESS:
            return
        ext = reply.ext_fields or {}
        for number, (sent, msg_id) in enumerate(zip(batch, ext["msgId"].split(","), strict=True)):
            offset = parse_offset_msg_id(msg_id)[2]
            self.model.acknowledge(sent, int(ext["queueOffset"]) + number, offset, is_flushed=is_flushed)

    def _asked(self, command: RemotingCommand) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._checks[0].send_nowait(command)

    async def _answer(self, wire: Wire) -> None:
        """Answers the checks of half messages."""
        async for command in self._checks[1]:
            header = from_ext(CheckTransactionStateRequestHeader, command.ext_fields or {})
            sent = self.model.messages[int(decode_record(command.body).body.split(b":")[0])]
            if sent.ended_in == self.model.life or (sent.end is End.NEVER and self.rng.random() < 0.5):
                continue
            place = header.tran_state_table_offset, header.commit_log_offset
            try:
                await self._end_transaction(wire, sent, *place, is_check=True)
            except Closed:
                return

    async def _end_transaction(
        self, wire: Wire, sent: Sent, queue_offset: int, offset: int, *, is_check: bool
    ) -> None:
        header = {
            "producerGroup": PRODUCER_GROUP,
            "tranStateTableOffset": str(queue_offset),
            "commitLogOffset": str(offset),
            "commitOrRollback": str(sent.end.value),
            "fromTransactionCheck": str(is_check).lower(),
            "msgId": "",
            "transactionId": "",
        }
        if sent.end is not End.NEVER:
            sent.ended_in = self.model.life
        if sent.end is End.NEVER or self.rng.random() < 0.3:
            await wire.tell(RequestCode.END_TRANSACTION, header)
            return
        reply = await self._ask(wire, RequestCode.END_TRANSACTION, header)
        if reply.code != ResponseCode.SUCCESS:
            sent.ended_in = -1

    async def _consume(self, wire: Wire) -> None:
        """Pulls from where a group is, and commits what it got or what it got before."""
        topic, group = self.rng.choice(list(TOPICS)), self.rng.choice(GROUPS)
        queue_id = self.rng.randrange(TOPICS[topic])
        commits = self.model.commits.setdefault((topic, group, queue_id), [])
        position = commits[-1].offset if commits else 0
        is_patient = self.rng.random() < 0.3
        header = pull_header(
            topic,
            queue_id,
            position,
            group=group,
            count=self.rng.choice((1, 4, 32)),
            sys_flag=6 if is_patient else 4,
            suspend_ms=1000,
        )
        reply = await self._ask(wire, RequestCode.PULL_MESSAGE, header)
        if reply.code != ResponseCode.SUCCESS:
            return
        for message in decode_records(reply.body):
            number = int(message.body.split(b":")[0])
            self.model.read[topic, queue_id, message.queue_offset] = number, self.sync and self.fault is None
            position = message.queue_offset + 1
        commit = Commit(trio.current_time(), position)
        commits.append(commit)
        header = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "commitOffset": str(position),
        }
        await self._ask(wire, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        commit.acknowledged = True

    async def _administrate(self, wire: Wire) -> None:
        topic = self.rng.choice(DELETED_TOPICS)
        if self.rng.random() < 0.2:
            self.clock.jump(self.rng.choice(JUMPS_S))
        elif self.model.topics.get(topic) is not True:
            await self._create(wire, topic, 1)
        elif self.rng.random() < 0.4:
            await self._delete(wire, topic)

    async def _create(self, wire: Wire, topic: str, queues: int) -> None:
        self.model.topics[topic] = None
        header = CreateTopicRequestHeader(
            topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6
        )
        reply = await self._ask(wire, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        if reply.code == ResponseCode.SUCCESS:
            self.model.topics[topic] = True

    async def _delete(self, wire: Wire, topic: str) -> None:
        self.model.deletion(topic, Gone.MAYBE)
        reply = await self._ask(
            wire, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=topic)
        )
        if reply.code == ResponseCode.SUCCESS:
            self.model.deletion(topic, Gone.YES)


def properties_of(sent: Sent, *, waits: bool) -> dict[str, str]:
    properties = {
        "UNIQ_KEY": f"{sent.number:032X}",
        "KEYS": " ".join(sent.keys),
        "TAGS": f"T{sent.number % 3}",
        "WAIT": str(waits).lower(),
    }
    if sent.level:
        properties["DELAY"] = str(sent.level)
    if sent.kind is Kind.HALF:
        properties |= {"TRAN_MSG": "true", "PGROUP": PRODUCER_GROUP}
    return properties
