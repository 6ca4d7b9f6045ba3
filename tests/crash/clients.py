"""What the clients of a session do, by its seed: they send, end transactions, pull, commit, send back, create and
delete topics, have old files removed; the clock is set, and the disk filled.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import HeartbeatData, ProducerData
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.headers.base import Header, from_ext
from rmqcli.codec.headers.send import ConsumerSendMsgBackRequestHeader
from rmqcli.codec.headers.topics import CreateTopicRequestHeader, DeleteTopicRequestHeader
from rmqcli.codec.headers.transactions import CheckTransactionStateRequestHeader
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.records.reading import decode_record, decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.support import pull_header, send_header
from tests.crash.model import Commit, End, Gone, Kind, Model, Read, Sent, dead_letter_topic, retry_topic
from tests.crash.plan import (
    DELETED_TOPICS,
    EXPIRY_S,
    GROUPS,
    JUMPS_S,
    LEVELS,
    MOST_RETRIES,
    PAUSES_S,
    PRODUCER_GROUP,
    TOPICS,
    Clock,
)
from tests.crash.retention import USED, Causes
from tests.crash.wire import Gone as Closed

SIZES = (10, 10, 100, 300, 1500, 5000)
SMALL_BATCH = 6
TIMER_DELAYS_S = (1, 2, 7, 30)
FIRST_RETRY_LEVEL = 3
"""The delay level of what is sent back for the first time, if the consumer does not say one."""
LARGE_BATCH = 30
"""Of the smallest messages: more than a queue file of the smaller kind has entries."""


class Clients:
    """The clients of one broker. `ask` and `tell` raise Closed when the session has ended, `fill` has other
    programs use so many bytes of the disk.

    `shows_flushed`: what readers get is on the disk.
    """

    def __init__(
        self,
        model: Model,
        rng: random.Random,
        clock: Clock,
        causes: Causes,
        fill: Callable[[int], None],
        ask: Callable[..., Awaitable[RemotingCommand]],
        tell: Callable[[int, Header | Mapping[str, str]], Awaitable[None]],
        *,
        sync: bool,
        shows_flushed: bool,
    ) -> None:
        self._model = model
        self._rng = rng
        self._clock = clock
        self._causes = causes
        self._fill = fill
        self._ask = ask
        self._tell = tell
        self._sync = sync
        self._shows_flushed = shows_flushed
        self._checks = trio.open_memory_channel[RemotingCommand](1000)
        self.tasks = (self.produce, self.produce, self.consume, self.administrate)
        """What they do at the same time, again and again."""

    async def heartbeat(self) -> None:
        data = HeartbeatData(client_id="client", producer_data_set=[ProducerData(group_name=PRODUCER_GROUP)])
        await self._ask(RequestCode.HEART_BEAT, None, encode_body(data))

    async def produce(self) -> None:
        topic = self._rng.choice((*TOPICS, *(t for t in DELETED_TOPICS if self._model.topics.get(t))))
        queue_id = self._rng.randrange(TOPICS.get(topic, 1))
        kinds = (Kind.PLAIN, Kind.DELAYED, Kind.HALF, None)
        kind = self._rng.choice(kinds if self._model.has_timers else (Kind.PLAIN,) * 4 + kinds)
        if kind is None:
            await self._send_batch(topic, queue_id)
        elif topic in DELETED_TOPICS and kind is not Kind.PLAIN:
            await self._send(self._new("A", 0, kind))
        else:
            await self._send(self._new(topic, queue_id, kind))

    def _new(self, topic: str, queue_id: int, kind: Kind) -> Sent:
        sent = self._model.new(topic, queue_id, (), kind, trio.current_time())
        sent.keys = (f"k{sent.number}", "all") if self._rng.random() < 0.5 else (f"k{sent.number}",)
        if kind is Kind.DELAYED:
            if self._model.has_timers and self._rng.random() < 0.7:
                sent.delay_s = self._rng.choice(TIMER_DELAYS_S)
            else:
                sent.level = self._rng.randint(1, 3)
        if kind is Kind.HALF:
            sent.end = self._rng.choice(list(End))
        return sent

    def _body(self, sent: Sent, sizes: Sequence[int] = SIZES) -> bytes:
        return b"%d:" % sent.number + bytes(self._rng.choice(sizes)).replace(b"\0", b"x")

    async def _send(self, sent: Sent) -> None:
        waits = self._rng.random() < 0.9
        properties = properties_of(sent, waits=waits)
        header = send_header(
            sent.topic,
            properties,
            queue_id=sent.queue_id,
            producer_group=PRODUCER_GROUP,
            born_timestamp=self._clock(),
            sys_flag=4 if sent.kind is Kind.HALF else 0,
        )
        reply = await self._ask(RequestCode.SEND_MESSAGE_V2, header, self._body(sent))
        self._note(reply, [sent], is_flushed=self._sync and waits)
        if sent.kind is Kind.HALF and sent.place and sent.end is not End.NEVER and self._rng.random() < 0.6:
            await trio.sleep(self._rng.choice(PAUSES_S))
            if sent.ended_in != self._model.life:
                await self._end_transaction(sent, *sent.place, is_check=False)

    async def _send_batch(self, topic: str, queue_id: int) -> None:
        is_large = self._rng.random() < 0.2
        count = LARGE_BATCH if is_large else self._rng.randint(1, SMALL_BATCH)
        batch = [self._new(topic, queue_id, Kind.PLAIN) for _ in range(count)]
        sizes = SIZES[:1] if is_large else SIZES
        body = encode_batch(
            Message(topic=topic, body=self._body(sent, sizes), properties=properties_of(sent, waits=True))
            for sent in batch
        )
        header = send_header(
            topic, {"WAIT": "true"}, queue_id=queue_id, born_timestamp=self._clock(), batch=True
        )
        reply = await self._ask(RequestCode.SEND_BATCH_MESSAGE, header, body)
        self._note(reply, batch, is_flushed=self._sync)

    def _note(self, reply: RemotingCommand, batch: list[Sent], *, is_flushed: bool) -> None:
        if reply.code != ResponseCode.SUCCESS:
            return
        ext = reply.ext_fields or {}
        for number, (sent, msg_id) in enumerate(zip(batch, ext["msgId"].split(","), strict=True)):
            offset = parse_offset_msg_id(msg_id)[2]
            self._model.acknowledge(sent, int(ext["queueOffset"]) + number, offset, is_flushed=is_flushed)

    def asked(self, command: RemotingCommand) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._checks[0].send_nowait(command)

    async def answer(self) -> None:
        """Answers the checks of half messages."""
        async for command in self._checks[1]:
            header = from_ext(CheckTransactionStateRequestHeader, command.ext_fields or {})
            sent = self._model.messages[_number(decode_record(command.body))]
            if sent.ended_in == self._model.life or (sent.end is End.NEVER and self._rng.random() < 0.5):
                continue
            place = header.tran_state_table_offset, header.commit_log_offset
            try:
                await self._end_transaction(sent, *place, is_check=True)
            except Closed:
                return

    async def _end_transaction(self, sent: Sent, queue_offset: int, offset: int, *, is_check: bool) -> None:
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
            sent.ended_in = self._model.life
        if sent.end is End.NEVER or self._rng.random() < 0.3:
            await self._tell(RequestCode.END_TRANSACTION, header)
            return
        reply = await self._ask(RequestCode.END_TRANSACTION, header)
        if reply.code != ResponseCode.SUCCESS:
            sent.ended_in = -1

    async def consume(self) -> None:
        """Pulls from where a group is, and commits what it got or what it got before; sends messages back."""
        group = self._rng.choice(GROUPS)
        topic = self._rng.choice((*TOPICS, retry_topic(group)))
        queue_id = self._rng.randrange(TOPICS.get(topic, 1))
        commits = self._model.commits.setdefault((topic, group, queue_id), [])
        position = commits[-1].offset if commits else 0
        header = pull_header(
            topic,
            queue_id,
            position,
            group=group,
            count=self._rng.choice((1, 4, 32)),
            sys_flag=6 if self._rng.random() < 0.3 else 4,
            suspend_ms=1000,
        )
        reply = await self._ask(RequestCode.PULL_MESSAGE, header)
        found = decode_records(reply.body) if reply.code == ResponseCode.SUCCESS else []
        if reply.code == ResponseCode.PULL_OFFSET_MOVED:  # what was there is removed
            position = int((reply.ext_fields or {})["nextBeginOffset"])
        elif not found:
            return
        for message in found:
            read = Read(_number(message), message.commit_log_offset, self._shows_flushed)
            self._model.read[topic, queue_id, message.queue_offset] = read
            position = message.queue_offset + 1
        if found and self._rng.random() < 0.3:
            await self._send_back(group, self._rng.choice(found))
        await self._commit(commits, topic, group, queue_id, position)

    async def _commit(
        self, commits: list[Commit], topic: str, group: str, queue_id: int, position: int
    ) -> None:
        commit = Commit(trio.current_time(), position)
        commits.append(commit)
        header = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "commitOffset": str(position),
        }
        await self._ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        commit.acknowledged = True

    async def _send_back(self, group: str, message: MessageExt) -> None:
        """Has a message delivered to the group again later, or put to the dead letters."""
        level = self._rng.choice((0, 0, 1, 2, 3, -1))
        is_dead = level < 0 or message.reconsume_times >= MOST_RETRIES
        topic = dead_letter_topic(group) if is_dead else retry_topic(group)
        chosen = min(level or FIRST_RETRY_LEVEL + message.reconsume_times, LEVELS)
        copies = self._model.ask_back(_number(message), topic, message.reconsume_times + 1, chosen)
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.commit_log_offset,
            group=group,
            delay_level=level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            max_reconsume_times=MOST_RETRIES,
        )
        reply = await self._ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        if reply.code == ResponseCode.SUCCESS:
            copies.acknowledged += 1
            self._model.topics[topic] = True

    async def administrate(self) -> None:
        topic = self._rng.choice(DELETED_TOPICS)
        if self._rng.random() < 0.2:
            self._clock.jump(self._rng.choice(JUMPS_S))
        elif self._rng.random() < 0.2:
            await self._expire()
        elif "disk" in self._causes.kinds and self._rng.random() < 0.3:
            self._fill(self._rng.choice(USED))
        elif self._model.topics.get(topic) is not True:
            await self.create(topic, 1)
        elif self._rng.random() < 0.4:
            await self._delete(topic)

    async def _expire(self) -> None:
        """Messages get old, and have their files removed on request, in sessions that have such requests."""
        if self._rng.random() < 0.5:
            self._clock.jump(EXPIRY_S)
        if "request" in self._causes.kinds:
            self._causes.requested = True
            await self._ask(RequestCode.DELETE_EXPIRED_COMMITLOG, None)

    async def create(self, topic: str, queues: int) -> None:
        self._model.topics[topic] = None
        header = CreateTopicRequestHeader(
            topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6
        )
        reply = await self._ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        if reply.code == ResponseCode.SUCCESS:
            self._model.topics[topic] = True

    async def _delete(self, topic: str) -> None:
        self._model.deletion(topic, Gone.MAYBE)
        reply = await self._ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=topic))
        if reply.code == ResponseCode.SUCCESS:
            self._model.deletion(topic, Gone.YES)


def _number(message: MessageExt) -> int:
    return int(message.body.split(b":")[0])


def properties_of(sent: Sent, *, waits: bool) -> dict[str, str]:
    properties = {
        "UNIQ_KEY": f"{sent.number:032X}",
        "KEYS": " ".join(sent.keys),
        "TAGS": f"T{sent.number % 3}",
        "WAIT": str(waits).lower(),
    }
    if sent.delay_s:
        properties["TIMER_DELAY_SEC"] = str(sent.delay_s)
    if sent.level:
        properties["DELAY"] = str(sent.level)
    if sent.kind is Kind.HALF:
        properties |= {"TRAN_MSG": "true", "PGROUP": PRODUCER_GROUP}
    return properties
