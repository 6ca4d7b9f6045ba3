"""Replies to clients that speak HTTP on a port of another protocol: one line that names the right one.

A gRPC client gets it as the status of each call, which it shows to its user. Headers are not read, because
the extra for gRPC may be missing. A connection lasts for SECONDS and MOST_BYTES at most, and for
SENDING_SECONDS more if the client does not read.
"""

from __future__ import annotations

import trio

from rmqcli.broker.net.transport import Buffer, Transport
from rmqcli.codec.proxy.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    GOAWAY,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
)
from rmqcli.codec.proxy.framing import REPLY_HEADERS, GrpcStatus, trailers

HTTP2 = PREFACE[:4]
HTTP1 = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN")
"""First bytes of requests. As the length of a frame, they would be more than 1 GB."""
OFFERS_HTTP2 = b"\x02h2"
"""The protocol in the first message of a TLS client."""
SECONDS = 5.0
SENDING_SECONDS = 1.0
MOST_BYTES = 16 * 1024
MOST_CALLS = 64


def speaks_http(data: bytes) -> bool:
    """Return True if these first bytes of a connection are those of HTTP."""
    return data[:4] == HTTP2 or data[:4] in HTTP1


async def refuse_http(transport: Transport, data: bytes, text: str) -> None:
    """Reply with `text`, which is ASCII, to a client whose first bytes are `data`."""
    with trio.move_on_after(SECONDS + SENDING_SECONDS):
        if data[:4] == HTTP2:
            await _refuse_calls(transport, bytearray(data), text)
            return
        body = f"{text}\n"
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        await _send(transport, f"{head}Connection: close\r\n\r\n{body}".encode())
        # Closing the socket before everything is read would discard the reply.
        size = len(data)
        while not data.endswith(b"\r\n\r\n") and size < MOST_BYTES and (data := await transport.receive()):
            size += len(data)


async def _refuse_calls(transport: Transport, received: bytearray, text: str) -> None:
    refusal = REPLY_HEADERS + trailers(GrpcStatus.FAILED_PRECONDITION, text)
    await _send(transport, frame(SETTINGS, 0, 0))
    position, calls = len(PREFACE), 0
    until = trio.current_time() + SECONDS
    while True:
        while position + FRAME_HEAD.size <= len(received) and calls < MOST_CALLS:
            high, low, kind, flags, stream = FRAME_HEAD.unpack_from(received, position)
            position += FRAME_HEAD.size + (high << 8 | low)
            if kind == HEADERS:
                calls += 1
                await _send(transport, frame(HEADERS, END_STREAM | END_HEADERS, stream, refusal))
            elif kind == SETTINGS and not flags & ACK:
                await _send(transport, frame(SETTINGS, ACK, 0))
        data = b""
        if calls < MOST_CALLS:
            with trio.move_on_at(until):
                data = await transport.receive()
        received += data
        if not data or len(received) > MOST_BYTES:
            break
    await _send(transport, frame(GOAWAY, 0, 0, bytes(8) + text.encode()))


async def _send(transport: Transport, data: bytes) -> None:
    buffers: list[Buffer] = [data]
    while buffers:
        await transport.send_some(buffers)
