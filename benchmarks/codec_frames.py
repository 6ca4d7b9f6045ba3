"""Time per frame of the codec: `python -m benchmarks.codec_frames [--json]`.

One SEND_MESSAGE_V2 request with a body of 1,000 bytes and its reply, with both kinds of header; construct on
the same binary header; and a connection that receives 64 requests in one chunk. Best of several rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from rmqcli.codec.codes import LanguageCode, RequestCode, SerializeType
from rmqcli.codec.remoting.binary_header import BINARY_HEADER
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import decode_frame, encode_frame, encode_frame_head

ROUNDS = 7
ROUND_SECONDS = 0.05
IN_ONE_CHUNK = 64

SEND_FIELDS = {
    "a": "producers",
    "b": "orders",
    "c": "TBW102",
    "d": "4",
    "e": "2",
    "f": "0",
    "g": "1795225474044",
    "h": "0",
    "i": "KEYS\x01k0\x02UNIQ_KEY\x01C000020218BC5FFD2B27675EEBFC002A\x02WAIT\x01true\x02TAGS\x01TagA",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}
REPLY_FIELDS = {
    "msgId": "C000020200002A9F0000000000012345",
    "queueId": "2",
    "queueOffset": "12345",
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
}


class Figure(NamedTuple):
    name: str
    nanoseconds: float


def best_time(action: Callable[[], object]) -> float:
    """Nanoseconds per call, loop included: best of `ROUNDS` rounds of about `ROUND_SECONDS` each."""
    calls = 1
    while _seconds(action, calls) < ROUND_SECONDS:
        calls *= 2
    return min(_seconds(action, calls) for _ in range(ROUNDS)) / calls * 1e9


def _seconds(action: Callable[[], object], calls: int) -> float:
    began = perf_counter()
    for _ in range(calls):
        action()
    return perf_counter() - began


def send_request(serialize_type: SerializeType) -> RemotingCommand:
    return RemotingCommand(
        RequestCode.SEND_MESSAGE_V2,
        dict(SEND_FIELDS),
        bytes(1000),
        38,
        language=LanguageCode.JAVA,
        serialize_type=serialize_type,
    )


def measure_kind(serialize_type: SerializeType) -> list[Figure]:
    request = send_request(serialize_type)
    reply = request.reply(0, None, dict(REPLY_FIELDS))
    request_frame, reply_frame = encode_frame(request)[4:], encode_frame(reply)[4:]
    chunk = encode_frame(request) * IN_ONE_CHUNK
    connection = Connection()
    kind = serialize_type.name
    return [
        Figure(f"{kind} decode send request", best_time(lambda: decode_frame(request_frame))),
        Figure(f"{kind} encode send reply", best_time(lambda: encode_frame(reply))),
        Figure(f"{kind} encode send request", best_time(lambda: encode_frame(request))),
        Figure(f"{kind} decode send reply", best_time(lambda: decode_frame(reply_frame))),
        Figure(
            f"{kind} receive, a frame of {IN_ONE_CHUNK}",
            best_time(lambda: connection.receive(chunk)) / IN_ONE_CHUNK,
        ),
    ]


def measure_declaration() -> Figure:
    header = encode_frame_head(send_request(SerializeType.ROCKETMQ), 0)[8:]
    return Figure("ROCKETMQ decode send request, construct", best_time(lambda: BINARY_HEADER.parse(header)))


def measure() -> list[Figure]:
    figures = [figure for serialize_type in SerializeType for figure in measure_kind(serialize_type)]
    return [*figures, measure_declaration()]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Time per frame of the codec.")
    parser.add_argument("--json", action="store_true", help="one JSON object: nanoseconds by name")
    options = parser.parse_args(arguments)
    figures = measure()
    if options.json:
        print(json.dumps({figure.name: round(figure.nanoseconds, 1) for figure in figures}))
        return
    for figure in figures:
        print(f"{figure.name:<44}{figure.nanoseconds:>10,.0f} ns")


if __name__ == "__main__":
    main(sys.argv[1:])
