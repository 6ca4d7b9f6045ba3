"""A model of a name server and brokers: as much as a push consumer sees, in memory, on the virtual clock.

Real frames travel over streams in memory. It knows topics and their records, groups and their members, offsets, locks,
long polls, and messages sent back. It serves the tests that are too long for a broker with its periodic services.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from heapq import heappop, heappush
from typing import Any

import trio

from codec.bodies.base import decode_body, encode_body
from codec.bodies.connections import GetConsumerListByGroupResponseBody
from codec.bodies.heartbeat import HeartbeatData
from codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from codec.bodies.route import BrokerData, QueueData, TopicRouteData
from codec.codes import PullSysFlag, RequestCode, ResponseCode
from codec.message import PropertyName, dlq_topic, retry_topic
from codec.message_queue import MessageQueue
from codec.properties import decode_properties, encode_properties
from codec.remoting.connection import Connection
from codec.remoting.frame import RemotingCommand, encode_frame
from codec.store.record_encoder import encode_record
from tests.client.push.model_stream import ModelStream

EPOCH = 1_700_000_000_000
NAMESRV = "ns:9876"
LOCK_EXPIRY = 60.0
DELAYS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
HOST = bytes((10, 0, 0, 1, 0, 0, 0x2A, 0x9F))


def now_ms() -> int:
    return EPOCH + round(trio.current_time() * 1000)


@dataclass
class Stored:
    """One message of a queue."""

    record: bytes
    body: bytes
    properties: dict[str, str]
    reconsume_times: int
    topic: str


@dataclass
class Peer:
    """One connection of a client."""

    address: str
    stream: ModelStream
    protocol: Connection = field(default_factory=Connection)
    clients: dict[str, str] = field(default_factory=dict)  # group → client id

    def send(self, command: RemotingCommand) -> None:
        self.stream.put_data(encode_frame(command))


@dataclass(eq=False)
class Hold:
    """A pull that waits."""

    until: float
    peer: Peer
    command: RemotingCommand


@cache
def _route_body(count: int, brokers: tuple[tuple[str, str], ...]) -> bytes:
    """Of a topic with `count` queues on each of these brokers (name, address)."""
    data = TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=count, write_queue_nums=count, perm=6)
            for name, _ in brokers
        ],
        broker_datas=[
            BrokerData(cluster="C", broker_name=name, broker_addrs={0: address}) for name, address in brokers
        ],
    )
    return encode_body(data)


class ModelCluster:
    """One name server, and brokers `{name: address}` that all have the same topics `{topic: queues}`."""

    def __init__(
        self, nursery: trio.Nursery, topics: dict[str, int], brokers: dict[str, str] | None = None
    ) -> None:
        self._nursery = nursery
        self.brokers = brokers or {"a": "a:1"}
        self.topics = dict(topics)
        self.queues: dict[MessageQueue, list[Stored]] = {}
        self.offsets: dict[tuple[str, MessageQueue], int] = {}
        self.commits: list[tuple[str, MessageQueue, int]] = []
        self.members: dict[str, dict[str, dict[str, Peer]]] = {name: {} for name in self.brokers}
        self.versions: dict[tuple[str, str, str], int] = {}
        self.locks: dict[tuple[str, MessageQueue], tuple[str, float]] = {}
        self.asked: list[tuple[float, RemotingCommand]] = []
        self.record = True
        self.holds: dict[MessageQueue, list[Hold]] = {}
        self._ends: list[tuple[float, int, MessageQueue, Hold]] = []
        self._numbers = itertools.count()
        self._waker: trio.CancelScope | None = None
        self._physical = 0
        self._by_physical: dict[int, Stored] = {}
        self.peers: list[Peer] = []
        self._handlers: dict[int, Callable[[Peer, RemotingCommand], RemotingCommand | None]] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._list,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.GET_MAX_OFFSET: self._max_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
            RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back,
            RequestCode.SEND_MESSAGE_V2: self._send,
        }

    def queue(self, topic: str, number: int = 0, broker: str = "a") -> MessageQueue:
        return MessageQueue(topic, broker, number)

    def put(
        self,
        queue: MessageQueue,
        body: bytes,
        properties: dict[str, str] | None = None,
        reconsume_times: int = 0,
    ) -> None:
        """Stores a message and wakes whoever waits for it."""
        self.put_many(queue, [body], properties, reconsume_times)

    def put_many(
        self,
        queue: MessageQueue,
        bodies: list[bytes],
        properties: dict[str, str] | None = None,
        reconsume_times: int = 0,
    ) -> None:
        stored = self.queues.setdefault(queue, [])
        for body in bodies:
            named = dict(properties or {})
            named.setdefault(PropertyName.UNIQ_KEY, f"{queue}/{len(stored)}")
            record = encode_record(
                topic=queue.topic.encode(),
                queue_id=queue.queue_id,
                flag=0,
                queue_offset=len(stored),
                physical_offset=self._physical,
                sys_flag=0,
                born_timestamp=now_ms(),
                born_host=HOST,
                store_timestamp=now_ms(),
                store_host=HOST,
                reconsume_times=reconsume_times,
                prepared_transaction_offset=0,
                body=body,
                properties=encode_properties(named),
            )
            item = Stored(record, body, named, reconsume_times, queue.topic)
            self._by_physical[self._physical] = item
            self._physical += len(record)
            stored.append(item)
        for hold in self.holds.pop(queue, ()):
            self._release(queue, hold)

    def count(self, code: int) -> int:
        return sum(command.code == code for _, command in self.asked)

    def push(self, group: str, command: RemotingCommand, broker: str = "a") -> None:
        """Sends a request to every member of a group."""
        for peer in list(self.members[broker].get(group, {}).values()):
            peer.send(command)

    async def open_stream(self, host: str, port: int) -> Any:
        stream = ModelStream()
        peer = Peer(f"{host}:{port}", stream)
        stream.heard, stream.gone = partial(self._heard, peer), partial(self._gone, peer)
        self.peers.append(peer)
        return stream

    def _broker(self, peer: Peer) -> str:
        return next((name for name, address in self.brokers.items() if address == peer.address), "")

    def _heard(self, peer: Peer, data: bytes) -> None:
        for command in peer.protocol.receive(data):
            self._answer(peer, command)

    def _answer(self, peer: Peer, command: RemotingCommand) -> None:
        if command.is_response:
            self.asked.append((trio.current_time(), command))
            return
        if self.record:
            self.asked.append((trio.current_time(), command))
        reply = self._handlers[command.code](peer, command)
        if reply is not None and not command.is_oneway:
            peer.send(reply)

    def _gone(self, peer: Peer) -> None:
        broker = self._broker(peer)
        for group, client in peer.clients.items():
            if self.members[broker].get(group, {}).get(client) is peer:
                del self.members[broker][group][client]
                self._notify(broker, group)

    def _notify(self, broker: str, group: str) -> None:
        command = RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}, flag=2)
        self.push(group, command, broker)

    def _route(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        topic = (command.ext_fields or {})["topic"]
        if topic not in self.topics:
            return command.reply(ResponseCode.TOPIC_NOT_EXIST, "no route")
        body = _route_body(self.topics[topic], tuple(self.brokers.items()))
        return command.reply(0, None, None, body)

    def _heartbeat(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        data = decode_body(HeartbeatData, command.body)
        broker = self._broker(peer)
        for consumer in data.consumer_data_set:
            group = consumer.group_name
            self.topics.setdefault(retry_topic(group), 1)
            for wanted in consumer.subscription_data_set:
                key = (broker, group, wanted.topic)
                self.versions[key] = max(self.versions.get(key, 0), wanted.sub_version)
            members = self.members[broker].setdefault(group, {})
            fresh = members.get(data.client_id) is not peer
            members[data.client_id] = peer
            peer.clients[group] = data.client_id
            if fresh:
                self._notify(broker, group)
        return command.reply(0)

    def _unregister(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        fields, broker = command.ext_fields or {}, self._broker(peer)
        group = fields.get("consumerGroup", "")
        if self.members[broker].get(group, {}).pop(fields["clientID"], None):
            self._notify(broker, group)
        return command.reply(0)

    def _list(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        group = (command.ext_fields or {})["consumerGroup"]
        members = list(self.members[self._broker(peer)].get(group, {}))
        if not members:
            return command.reply(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        body = GetConsumerListByGroupResponseBody(consumer_id_list=members)
        return command.reply(0, None, None, encode_body(body))

    def _queue_of(self, peer: Peer, command: RemotingCommand) -> tuple[str, MessageQueue]:
        fields = command.ext_fields or {}
        queue = MessageQueue(fields["topic"], self._broker(peer), int(fields["queueId"]))
        return fields.get("consumerGroup", ""), queue

    def _query_offset(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        offset = self.offsets.get(self._queue_of(peer, command))
        if offset is None:
            return command.reply(ResponseCode.QUERY_NOT_FOUND, "Not found")
        return command.reply(0, None, {"offset": str(offset)})

    def _update_offset(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        self._commit(peer, command)
        return command.reply(0)

    def _commit(self, peer: Peer, command: RemotingCommand) -> None:
        group, queue = self._queue_of(peer, command)
        offset = int((command.ext_fields or {})["commitOffset"])
        self.offsets[group, queue] = offset
        self.commits.append((group, queue, offset))

    def _max_offset(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        _, queue = self._queue_of(peer, command)
        return command.reply(0, None, {"offset": str(len(self.queues.get(queue, ())))})

    def _search(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        """The middle of the queue, so that a test can tell it from both ends."""
        _, queue = self._queue_of(peer, command)
        return command.reply(0, None, {"offset": str(len(self.queues.get(queue, ())) // 2)})

    def _pull(self, peer: Peer, command: RemotingCommand) -> RemotingCommand | None:
        fields = command.ext_fields or {}
        group, queue = self._queue_of(peer, command)
        known = self.versions.get((queue.broker_name, group, queue.topic), 0)
        if known < int(fields["subVersion"]):
            return command.reply(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        if int(fields["sysFlag"]) & PullSysFlag.COMMIT_OFFSET:
            self._commit(peer, command)
        offset, end = int(fields["queueOffset"]), len(self.queues.get(queue, ()))
        if offset == end and int(fields["sysFlag"]) & PullSysFlag.SUSPEND:
            self._hold(peer, command, queue)
            return None
        return self._pulled(command, queue)

    def _hold(self, peer: Peer, command: RemotingCommand, queue: MessageQueue) -> None:
        """Answers when something arrives, or at its time: one task for all that wait."""
        until = trio.current_time() + int((command.ext_fields or {})["suspendTimeoutMillis"]) / 1000
        hold = Hold(until, peer, command)
        self.holds.setdefault(queue, []).append(hold)
        heappush(self._ends, (until, next(self._numbers), queue, hold))
        if self._waker is None:
            self._waker = trio.CancelScope(deadline=until)
            self._nursery.start_soon(self._end_holds, self._waker)
        else:
            self._waker.deadline = min(self._waker.deadline, until)

    async def _end_holds(self, scope: trio.CancelScope) -> None:
        while True:
            with scope:
                await trio.sleep_forever()
            while self._ends and self._ends[0][0] <= trio.current_time():
                _, _, queue, hold = heappop(self._ends)
                waiting = self.holds.get(queue, [])
                if hold in waiting:
                    waiting.remove(hold)
                    self._release(queue, hold)
            scope = self._waker = trio.CancelScope(deadline=self._ends[0][0] if self._ends else math.inf)

    def _release(self, queue: MessageQueue, hold: Hold) -> None:
        hold.peer.send(self._pulled(hold.command, queue))

    def _pulled(self, command: RemotingCommand, queue: MessageQueue) -> RemotingCommand:
        fields = command.ext_fields or {}
        offset, count = int(fields["queueOffset"]), int(fields["maxMsgNums"])
        stored = self.queues.get(queue, [])
        code, following, body = ResponseCode.PULL_NOT_FOUND, offset, b""
        if offset > len(stored):
            code, following = ResponseCode.PULL_OFFSET_MOVED, len(stored)
        elif offset < len(stored):
            chosen = stored[offset : offset + count]
            code, following = ResponseCode.SUCCESS, offset + len(chosen)
            body = b"".join([item.record for item in chosen])
        ext = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(following),
            "minOffset": "0",
            "maxOffset": str(len(stored)),
        }
        return command.reply(code, None, ext, body)

    def _lock(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        body = decode_body(LockBatchRequestBody, command.body)
        group, client, now = body.consumer_group or "", body.client_id or "", trio.current_time()
        granted = []
        for queue in body.mq_set:
            owner, since = self.locks.get((group, queue), (client, now))
            if owner == client or now - since > LOCK_EXPIRY:
                self.locks[group, queue] = (client, now)
                granted.append(queue)
        return command.reply(0, None, None, encode_body(LockBatchResponseBody(lock_ok_mq_set=granted)))

    def _unlock(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        body = decode_body(UnlockBatchRequestBody, command.body)
        for queue in body.mq_set:
            key = (body.consumer_group or "", queue)
            if self.locks.get(key, ("", 0.0))[0] == body.client_id:
                del self.locks[key]
        return command.reply(0)

    def _send_back(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        fields = command.ext_fields or {}
        item = self._by_physical[int(fields["offset"])]
        level, limit = int(fields["delayLevel"]), int(fields["maxReconsumeTimes"])
        named = {PropertyName.RETRY_TOPIC: item.topic, **item.properties}
        dead = item.reconsume_times >= limit or level < 0
        self._retry(
            peer,
            fields["group"],
            item.body,
            named,
            item.reconsume_times,
            0 if dead else level or 3 + item.reconsume_times,
        )
        return command.reply(0)

    def _send(self, peer: Peer, command: RemotingCommand) -> RemotingCommand:
        """Only sends to a retry topic: what a consumer does when its messages are not taken back."""
        fields = command.ext_fields or {}
        group = fields["b"].removeprefix("%RETRY%")
        named = decode_properties(fields["i"])
        times, limit = int(fields["j"]), int(fields["l"])
        level = 0 if times >= limit else int(named.pop(PropertyName.DELAY, 0))
        self._retry(peer, group, bytes(command.body), named, times - 1, level)
        ext = {"msgId": "0A" * 16, "queueId": fields["e"], "queueOffset": "0"}
        return command.reply(0, None, ext)

    def _retry(
        self, peer: Peer, group: str, body: bytes, named: dict[str, str], times: int, level: int
    ) -> None:
        """Level 0: a dead letter."""
        broker = self._broker(peer)
        if level == 0:
            self.put(MessageQueue(dlq_topic(group), broker, 0), body, named, times + 1)
            return

        async def later() -> None:
            await trio.sleep(DELAYS[min(level, len(DELAYS)) - 1])
            self.put(MessageQueue(retry_topic(group), broker, 0), body, named, times + 1)

        self._nursery.start_soon(later)
