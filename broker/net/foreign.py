"""Replies to clients that speak HTTP on a port of another protocol: one line that names the right one.

A gRPC client gets it as the status of each call, because it shows that to its user. The frames of HTTP/2 are
written here, as the extra for gRPC may be missing. A connection lasts for SECONDS and MOST_BYTES at most,
and for SENDING_SECONDS more if the client does not read.
"""

from __future__ import annotations

import struct

import trio

from rmqcli.broker.net.transport import Buffer, Transport

HTTP2 = b"PRI "
HTTP1 = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN")
"""First bytes of requests. As the length of a frame, they would be more than 1 GB."""
OFFERS_HTTP2 = b"\x02h2"
"""The protocol in the first message of a TLS client."""
SECONDS = 5.0
SENDING_SECONDS = 1.0
MOST_BYTES = 16 * 1024
MOST_CALLS = 64

_PREFACE_SIZE = 24
_HEAD = struct.Struct(">HBBBI")
_HEADERS, _SETTINGS, _GOAWAY = 1, 4, 7
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_FAILED_PRECONDITION = "9"
_STATUS_200 = b"\x88"  # of the static table


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
    await _send(transport, _frame(_SETTINGS, 0, 0))
    position, calls = _PREFACE_SIZE, 0
    until = trio.current_time() + SECONDS
    while True:
        while position + _HEAD.size <= len(received) and calls < MOST_CALLS:
            high, low, kind, flags, stream = _HEAD.unpack_from(received, position)
            position += _HEAD.size + (high << 8 | low)
            if kind == _HEADERS:
                calls += 1
                await _send(transport, _frame(_HEADERS, _END_STREAM | _END_HEADERS, stream, _trailers(text)))
            elif kind == _SETTINGS and not flags & _ACK:
                await _send(transport, _frame(_SETTINGS, _ACK, 0))
        data = b""
        if calls < MOST_CALLS:
            with trio.move_on_at(until):
                data = await transport.receive()
        received += data
        if not data or len(received) > MOST_BYTES:
            break
    await _send(transport, _frame(_GOAWAY, 0, 0, bytes(8) + text.encode()))


def _trailers(text: str) -> bytes:
    fields = {"content-type": "application/grpc", "grpc-status": _FAILED_PRECONDITION, "grpc-message": text}
    return _STATUS_200 + b"".join(b"\0" + _string(name) + _string(value) for name, value in fields.items())


def _string(text: str) -> bytes:
    """Return a string of at most 254 characters in HPACK, without Huffman coding."""
    size = len(text)
    return (bytes([size]) if size < 127 else bytes([127, size - 127])) + text.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(len(payload) >> 8, len(payload) & 255, kind, flags, stream) + payload


async def _send(transport: Transport, data: bytes) -> None:
    buffers: list[Buffer] = [data]
    while buffers:
        await transport.send_some(buffers)
