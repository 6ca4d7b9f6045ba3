"""A cheap load of gRPC calls: as `load`, with the frames and header blocks of the official client for Python.

As that client does, it opens the windows again for each reply, and gives each call a request id of its own.
"""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Iterator

import hpack

from benchmarks.load import BODY, Rate, connect
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code, Encoding, MessageType
from rmqcli.codec.proxy.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    literal,
)
from rmqcli.codec.proxy.framing import prefixed

REPLY_BYTES = 100
PAUSE_SECONDS = 0.004
SEND = "/apache.rocketmq.v2.MessagingService/SendMessage"
_INDEXED = {
    ":authority": "127.0.0.1:8081",
    ":method": "POST",
    ":scheme": "http",
    "content-type": "application/grpc",
    "te": "trailers",
    "grpc-accept-encoding": "identity, deflate, gzip",
    "grpc-timeout": "20S",
    "user-agent": "grpc-python-asyncio/1.85.3 grpc-c/58.0.0 (linux; chttp2)",
}
_SIGNATURE = "b689f7b7d34be9d14ee627005205eeb3e593327d"
_LITERAL = {
    "x-mq-language": "PYTHON",
    "x-mq-protocol": "GRPC_V2",
    "x-mq-client-version": "5.1.2",
    "x-mq-date-time": "20261129T000018Z",
    "x-mq-client-id": "bench@21923@0@dn7940n9v4id",
    "x-mq-namespace": "",
    "authorization": f"MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature={_SIGNATURE}",
}

_OK = literal(b"grpc-status", b"0")
_STORED = messages.Status(code=Code.OK).SerializeToString()


def calls_of(path: str, request: bytes) -> Iterator[bytes]:
    """Yield the frames of one call after the other; the first adds header fields to the table of the server."""
    encoder = hpack.Encoder()
    indexed = [(":path", path), *_INDEXED.items()]
    literals = b"".join(literal(name.encode(), value.encode()) for name, value in _LITERAL.items())
    data, size = prefixed(request), REPLY_BYTES.to_bytes(4, "big")
    for number in itertools.count():
        stream = number * 2 + 1
        if number < 2:
            block = encoder.encode(indexed, huffman=False) + literals
        yield (
            frame(HEADERS, END_HEADERS, stream, block + literal(b"x-mq-request-id", b"%036d" % number))
            + frame(DATA, END_STREAM, stream, data)
            + frame(WINDOW_UPDATE, 0, stream, size)
            + frame(WINDOW_UPDATE, 0, 0, size)
        )


def sends(topic: str, body: bytes = BODY) -> Iterator[bytes]:
    """Yield the frames of SendMessage calls."""
    message = messages.Message(
        topic=messages.Resource(name=topic),
        body=body,
        system_properties=messages.SystemProperties(
            tag="TagA",
            keys=["k1"],
            message_id="01" + 32 * "7",
            message_type=MessageType.NORMAL,
            body_encoding=Encoding.IDENTITY,
            born_timestamp=messages.Timestamp(seconds=int(time.time())),
            born_host="bench",
        ),
    )
    return calls_of(SEND, messages.SendMessageRequest(messages=[message]).SerializeToString())


class GrpcConnection:
    """A connection; `ended` is the number of calls with trailers in the bytes received last."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = connect(address)
        settings = b"".join(key.to_bytes(2, "big") + (1 << 24).to_bytes(4, "big") for key in (4, 6))
        hello = frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, (1 << 24).to_bytes(4, "big"))
        self.socket.sendall(PREFACE + hello + frame(SETTINGS, ACK, 0))
        self._waiting = b""

    def __enter__(self) -> GrpcConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ended(self) -> int:
        """Receive, and return the number of calls that ended."""
        data = self._waiting + self.socket.recv(1 << 18)
        position, count, size = 0, 0, len(data)
        while size - position >= 9:
            end = position + 9 + int.from_bytes(data[position : position + 3], "big")
            if end > size:
                break
            # A call that fails is cheap, and would pass for a fast one.
            if data[position + 3] == HEADERS and data[position + 4] & END_STREAM:
                assert _OK in data[position:end], "a call failed"
                count += 1
            assert data[position + 3] != DATA or _STORED in data[position:end], "a message was refused"
            assert data[position + 3] != GOAWAY, "the server says goodbye"
            position = end
        assert size, "the server closed the connection"
        self._waiting = data[position:]
        return count


def round_trips(
    address: tuple[str, int], seconds: float, until: subprocess.Popen[bytes] | None = None
) -> list[float]:
    """Milliseconds of a send, one at a time, with short pauses; at most while `until` runs."""
    calls, times = sends("Quiet"), []
    deadline = time.monotonic() + seconds
    with GrpcConnection(address) as connection:
        connection.socket.settimeout(30)
        while time.monotonic() < deadline and (until is None or until.poll() is None):
            started = time.perf_counter()
            connection.socket.sendall(next(calls))
            while not connection.ended():
                pass
            times.append((time.perf_counter() - started) * 1000)
            time.sleep(PAUSE_SECONDS)
    return times


def drive(address: tuple[str, int], calls: Iterator[bytes], in_flight: int, seconds: float) -> Rate:
    """Keep `in_flight` calls outstanding for `seconds`."""
    with GrpcConnection(address) as connection:
        replies, times = 0, []
        started = last = time.perf_counter()
        connection.socket.sendall(b"".join(itertools.islice(calls, in_flight)))
        while (now := time.perf_counter()) - started < seconds:
            count = connection.ended()
            replies += count
            times.append((now - last) / max(1, count))
            last = now
            if count:
                connection.socket.sendall(b"".join(itertools.islice(calls, count)))
        times.sort()
        return Rate(replies / (time.perf_counter() - started), times[len(times) // 2])
