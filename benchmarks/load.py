"""A cheap load: frames are built in advance, replies only counted, on one connection."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from typing import NamedTuple

from rmqcli.codec.codes import LanguageCode, RequestCode, SerializeType
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame

BODY = b"x" * 1024


class Rate(NamedTuple):
    """Replies per second, and the median seconds of one (meaningful only with one in flight)."""

    per_second: float
    median_seconds: float


def send_frames(
    topic: str,
    count: int = 64,
    body: bytes = BODY,
    kind: SerializeType = SerializeType.JSON,
    queues: int = 4,
) -> list[bytes]:
    """Build SEND_MESSAGE_V2 requests as a Java producer does, with an opaque and a UNIQ_KEY each, to so many
    queues in turn."""
    frames = []
    for n in range(count):
        properties = encode_properties(
            {"UNIQ_KEY": f"7F00000113C018B4AAC2{n:012X}", "WAIT": "true", "KEYS": f"k{n}", "TAGS": "TagA"}
        )
        frames.append(_frame(RequestCode.SEND_MESSAGE_V2, topic, n, n % queues, kind, properties, body))
    return frames


def batch_frames(
    topic: str,
    bodies: Sequence[Sequence[bytes]],
    kind: SerializeType = SerializeType.ROCKETMQ,
    queues: int = 4,
    keyed: bool = False,
) -> list[bytes]:
    """Build SEND_BATCH_MESSAGE requests with these bodies as a Java producer does, whose unique keys begin
    with the same 28 characters for a millisecond; `keyed`: with a key, and one of ten tags."""
    frames, counter = [], 0
    for n, batch in enumerate(bodies):
        messages = []
        for one in batch:
            key = f"7F00000113C018B4AAC2{n:08X}{counter % 65536:04X}"
            own = {"UNIQ_KEY": key, "WAIT": "true", "TAGS": "TagA"}
            if keyed:
                own = {"KEYS": f"{counter // 4096:010}", **own, "TAGS": f"tag{counter * 7 % 10}"}
            messages.append(Message(topic=topic, body=one, properties=own))
            counter += 1
        properties = encode_properties({"WAIT": "true"})
        body = encode_batch(messages)
        frames.append(_frame(RequestCode.SEND_BATCH_MESSAGE, topic, n, n % queues, kind, properties, body))
    return frames


def _frame(
    code: RequestCode,
    topic: str,
    opaque: int,
    queue_id: int,
    kind: SerializeType,
    properties: bytes,
    body: bytes,
) -> bytes:
    header = SendMessageRequestHeaderV2(
        producer_group="bench",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),
        flag=0,
        properties=properties.decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=code == RequestCode.SEND_BATCH_MESSAGE,
    )
    ext = to_ext(header)
    command = RemotingCommand(code, ext, body, opaque, language=LanguageCode.JAVA, serialize_type=kind)
    return encode_frame(command)


def connect(address: tuple[str, int], tls: ssl.SSLContext | None = None) -> socket.socket:
    """Return a connection; with a context a TLS one."""
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection if tls is None else tls.wrap_socket(connection, server_hostname=address[0])


def drive(
    address: tuple[str, int],
    frames: Sequence[bytes],
    in_flight: int,
    seconds: float,
    tls: ssl.SSLContext | None = None,
) -> Rate:
    """Keep `in_flight` frames outstanding for `seconds`. AssertionError if a reply is not a success."""
    with connect(address, tls) as connection:
        cycle = list(frames)
        position, replies, times = in_flight % len(cycle), 0, []
        waiting = b""
        started = last = time.perf_counter()
        connection.sendall(b"".join(cycle[:in_flight]))
        while (now := time.perf_counter()) - started < seconds:
            waiting += connection.recv(1 << 18)
            count, waiting = _count(waiting)
            replies += count
            times.append((now - last) / max(1, count))
            last = now
            if count:
                batch = [cycle[(position + k) % len(cycle)] for k in range(count)]
                position = (position + count) % len(cycle)
                connection.sendall(b"".join(batch))
        times.sort()
        return Rate(replies / (time.perf_counter() - started), times[len(times) // 2])


def seconds_of_all(address: tuple[str, int], frames: Sequence[bytes], in_flight: int) -> float:
    """Seconds until each frame has its reply, with at most `in_flight` of them outstanding."""
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent, replies, waiting = 0, 0, b""
        started = time.perf_counter()
        while replies < len(frames):
            last = min(replies + in_flight, len(frames))
            connection.sendall(b"".join(frames[sent:last]))
            sent = last
            waiting += connection.recv(1 << 18)
            count, waiting = _count(waiting)
            replies += count
        return time.perf_counter() - started


def _count(waiting: bytes) -> tuple[int, bytes]:
    position, count, size = 0, 0, len(waiting)
    while size - position >= 4:
        end = position + 4 + int.from_bytes(waiting[position : position + 4], "big")
        if end > size:
            break
        position, count = end, count + 1
    return count, waiting[position:]


def first_reply(address: tuple[str, int], frame: bytes) -> bytes:
    """Return the whole first reply, to check before measuring that the load is accepted."""
    with socket.create_connection(address) as connection:
        connection.sendall(frame)
        head = connection.recv(4, socket.MSG_WAITALL)
        return connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
