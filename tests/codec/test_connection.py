from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from rmqcli.codec.codes import RPC_ONEWAY, RPC_RESPONSE, SerializeType
from rmqcli.codec.errors import LocalProtocolError, RemoteProtocolError
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection, ReceiveError
from rmqcli.codec.remoting.frame import MAX_FRAME, decode_frame, encode_frame
from tests.codec.wire import Wire, raw_frame, with_length

FEW = [
    RemotingCommand(105, {"topic": "T"}, opaque=1),
    RemotingCommand(0, None, b"body" * 20, opaque=1, flag=RPC_RESPONSE),
    RemotingCommand(34, None, b"", opaque=2, serialize_type=SerializeType.ROCKETMQ),
    RemotingCommand(310, {"b": "T"}, b"\0" * 30, opaque=3, serialize_type=SerializeType.ROCKETMQ),
]
STREAM = b"".join(map(encode_frame, FEW))
BOUNDARIES = [sum(len(encode_frame(command)) for command in FEW[:count]) for count in range(len(FEW) + 1)]


def feed(connection: Connection, chunks: Iterator[bytes] | list[bytes]) -> list[RemotingCommand]:
    return [command for chunk in chunks for command in connection.receive(chunk)]


def random_chunks(data: bytes, rng: random.Random, longest: int) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        size = rng.randint(1, longest)
        yield data[position : position + size]
        position += size


# ----------------------------------------------------------------------------------------------------------- receiving


def test_every_split_in_two() -> None:
    for split in range(1, len(STREAM)):
        connection = Connection()
        first = connection.receive(STREAM[:split])
        assert len(first) == sum(boundary <= split for boundary in BOUNDARIES[1:]), split
        assert connection.buffered == split - BOUNDARIES[len(first)], split
        assert first + connection.receive(STREAM[split:]) == FEW, split
        assert connection.buffered == 0, split
        assert connection.receive(b"") == [], split


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 64, len(STREAM)])
def test_chunks_of_one_size(size: int) -> None:
    chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert feed(Connection(), chunks) == FEW


@pytest.mark.parametrize(("seed", "longest"), [(3, 5_000), (1, 10), (2, 300), (4, 65_536), (5, 2_000_000)])
def test_recorded_streams_in_random_chunks(wire: Wire, seed: int, longest: int) -> None:
    connection = Connection()
    received = feed(connection, random_chunks(wire.data, random.Random(seed), longest))
    assert received == [decode_frame(frame[4:]) for frame in wire.frames]
    assert connection.buffered == 0


@pytest.mark.parametrize("chunk", [1024, 65_536])
def test_the_longest_frame_in_pieces(chunk: int) -> None:
    body_room = MAX_FRAME - len(encode_frame(RemotingCommand(10, opaque=5)))
    frame = encode_frame(RemotingCommand(10, None, bytes(body_room), opaque=5))
    assert len(frame) == MAX_FRAME
    received = feed(Connection(), [frame[at : at + chunk] for at in range(0, len(frame), chunk)])
    assert [len(command.body) for command in received] == [body_room]


def test_bodies_do_not_share_the_buffer() -> None:
    connection = Connection()
    (first,) = feed(
        connection, [STREAM[BOUNDARIES[1] : BOUNDARIES[2] - 1], STREAM[BOUNDARIES[2] - 1 : BOUNDARIES[2]]]
    )
    feed(connection, [b"\0\0", b"\0\x06\0\0", b"\0\x02{}"])
    assert type(first.body) is bytes
    assert first.body == b"body" * 20


# (bytes that cannot begin a frame, what the error says)
BROKEN = [
    ((0).to_bytes(4, "big"), "a frame of 0 bytes"),
    ((3).to_bytes(4, "big"), "a frame of 3 bytes"),
    ((-1).to_bytes(4, "big", signed=True), "a frame of -1 bytes"),
    ((-(2**31)).to_bytes(4, "big", signed=True), "a frame of -2147483648 bytes"),
    ((2**31 - 1).to_bytes(4, "big"), "a frame of 2147483647 bytes"),
    ((MAX_FRAME - 3).to_bytes(4, "big"), "a frame of 16777213 bytes: 4 to 16777212 are allowed"),
    (b"GET / HTTP/1.1\r\n", "a frame of 1195725856 bytes"),
    (b"\x16\x03\x01\x02\x00\x01", "a frame of 369295618 bytes"),
    (with_length(b"\0\0\0\3{}"), "header of 3 bytes"),
    (with_length(b"\2\0\0\2{}"), "unknown serialize type 2"),
    (with_length(raw_frame(b"{")), "unreadable JSON header"),
    (with_length(raw_frame(b"\0" * 20, kind=1)), "ends too early"),
]


@pytest.mark.parametrize(("broken", "complaint"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_stream(broken: bytes, complaint: str) -> None:
    for before, step in product((0, 1, 3), (1, 3, 1000)):
        data = b"".join(map(encode_frame, FEW[:before])) + broken
        connection = Connection()
        received: list[RemotingCommand] = []
        with pytest.raises(RemoteProtocolError, match=complaint) as caught:
            for at in range(0, len(data), step):
                received += connection.receive(data[at : at + step])
        assert isinstance(caught.value, ReceiveError), (before, step)
        assert received + caught.value.commands == FEW[:before], (before, step)
        assert connection.buffered == 0, (before, step)
        for more in (b"", STREAM):
            with pytest.raises(LocalProtocolError, match="no more"):
                connection.receive(more)


def test_a_frame_is_refused_by_its_length_alone() -> None:
    connection = Connection(max_frame=100)
    assert connection.receive((96).to_bytes(4, "big")) == []
    connection = Connection(max_frame=100)
    with pytest.raises(RemoteProtocolError, match="4 to 96 are allowed"):
        connection.receive((97).to_bytes(4, "big"))


def test_only_what_came_is_held() -> None:
    connection = Connection()
    connection.receive((MAX_FRAME - 4).to_bytes(4, "big") + b"abc")
    assert connection.buffered == 7


def test_the_end_between_frames_and_inside_one() -> None:
    connection = Connection()
    connection.receive(STREAM)
    assert connection.receive(b"") == connection.receive(b"") == []
    with pytest.raises(LocalProtocolError, match="no more"):
        connection.receive(STREAM)
    connection = Connection()
    connection.receive(STREAM[:-1])
    with pytest.raises(RemoteProtocolError, match="bytes into a frame"):
        connection.receive(b"")


# ------------------------------------------------------------------------------------------------- requests and replies


def answer(frame: bytes, code: int = 0) -> RemotingCommand:
    return decode_frame(frame[4:]).reply(code)


def test_replies_find_their_requests_in_any_order() -> None:
    connection = Connection()
    frames = [connection.request(RemotingCommand(11), f"token {number}") for number in range(3)]
    assert [decode_frame(frame[4:]).opaque for frame in frames] == [0, 1, 2]
    assert len(connection.waiting) == 3
    assert [connection.match(answer(frames[number])) for number in (2, 0, 1)] == [
        "token 2",
        "token 0",
        "token 1",
    ]
    assert len(connection.waiting) == 0
    assert connection.match(answer(frames[0])) is None


def test_both_ends_may_use_the_same_number() -> None:
    near, far = Connection(), Connection()
    (at_far,) = far.receive(near.request(RemotingCommand(11), "near"))
    (at_near,) = near.receive(far.request(RemotingCommand(40), "far"))
    assert at_far.opaque == at_near.opaque == 0
    assert (far.match(at_far), near.match(at_near)) == (None, None)
    (reply,) = near.receive(encode_frame(at_far.reply(0)))
    assert near.match(reply) == "near"
    (reply,) = far.receive(encode_frame(at_near.reply(0)))
    assert far.match(reply) == "far"


def test_a_forgotten_request_matches_nothing() -> None:
    connection = Connection(first_opaque=7)
    frame = connection.request(RemotingCommand(11), "token")
    connection.forget(7)
    connection.forget(8)
    assert connection.match(answer(frame)) is None


def test_oneway_waits_for_nothing() -> None:
    connection = Connection()
    sent = decode_frame(connection.oneway(RemotingCommand(15))[4:])
    assert sent.is_oneway
    assert sent.flag == RPC_ONEWAY
    assert len(connection.waiting) == 0
    assert decode_frame(connection.request(RemotingCommand(11), "token")[4:]).opaque == sent.opaque + 1


def test_opaque_numbers_start_again_and_pass_by_those_in_use() -> None:
    connection = Connection(first_opaque=2**31 - 2)
    sent: list[int] = []

    def send() -> None:
        sent.append(decode_frame(connection.request(RemotingCommand(11), "token")[4:]).opaque)

    for _ in range(4):
        send()
    connection._next_opaque = 2**31 - 2
    send()
    assert sent == [2**31 - 2, 2**31 - 1, 0, 1, 2]


def test_abandon_gives_all_tokens_once() -> None:
    connection = Connection()
    for number in range(3):
        connection.request(RemotingCommand(11), number)
    assert connection.abandon() == [0, 1, 2]
    assert connection.abandon() == []


@pytest.mark.parametrize(
    "send", [lambda c, command: c.request(command, "token"), lambda c, command: c.oneway(command)]
)
def test_what_cannot_be_sent_is_not_waited_for(send: Any) -> None:
    connection = Connection()
    with pytest.raises(LocalProtocolError):
        send(connection, RemotingCommand(200050, serialize_type=SerializeType.ROCKETMQ))
    assert len(connection.waiting) == 0


def test_a_long_header_is_refused_and_a_long_body_is_not() -> None:
    """Whether the frame comes at once or in parts."""
    accepted = encode_frame(RemotingCommand(34, None, bytes(9000), opaque=1))
    refused = encode_frame(RemotingCommand(34, {"a": "x" * 5000}, b"", opaque=2))
    for chunks in ([accepted + refused], [accepted[:50], accepted[50:] + refused[:70], refused[70:]]):
        connection, received = Connection(max_header=4096), []
        with pytest.raises(ReceiveError, match="4096 are allowed") as error:
            for chunk in chunks:
                received += connection.receive(chunk)
        assert [command.opaque for command in received + error.value.commands] == [1]


# --- long frames, whose bodies grow in place


@pytest.mark.parametrize("kind", SerializeType)
@pytest.mark.parametrize("header", [1, 70_000])
@pytest.mark.parametrize("size", [0, 65_000, 65_536, 200_000])
def test_long_frames_in_any_pieces(kind: SerializeType, header: int, size: int) -> None:
    body = random.Random(size).randbytes(size)
    commands = [
        RemotingCommand(10, {"name": "x" * min(header, 30_000)}, body, opaque=number, serialize_type=kind)
        for number in range(3)
    ]
    if kind is SerializeType.JSON and header > 30_000:
        commands = [RemotingCommand(10, {"name": "x" * header}, body, opaque=number) for number in range(3)]
    stream = b"".join(map(encode_frame, commands))
    for longest in (7, 1000, 100_000):
        rng, connection = random.Random(longest), Connection()
        pieces = random_chunks(stream, rng, longest) if longest > 7 else beginning_in_bytes(stream)
        assert feed(connection, pieces) == commands
        assert connection.buffered == 0


def beginning_in_bytes(data: bytes) -> Iterator[bytes]:
    yield from (data[at : at + 1] for at in range(300))
    yield data[300:]


def test_what_is_held_of_a_long_frame_is_counted() -> None:
    frame = encode_frame(RemotingCommand(10, None, bytes(1 << 20)))
    connection = Connection()
    for at in range(0, len(frame) - 50_000, 50_000):
        connection.receive(frame[at : at + 50_000])
        assert connection.buffered == at + 50_000
        assert connection.buffered <= connection.held < 1.3 * connection.buffered + 1000


def test_a_long_frame_that_comes_byte_by_byte_takes_little_more_memory_than_its_bytes() -> None:
    frame = encode_frame(RemotingCommand(10, None, bytes(300_000)))
    connection = Connection()
    for at in range(len(frame) - 1):
        connection.receive(frame[at : at + 1])
    assert connection.held < 1.3 * len(frame)
    (command,) = connection.receive(frame[-1:])
    assert command.body == bytes(300_000)


def test_a_long_frame_with_a_header_beyond_its_end_is_refused() -> None:
    frame = bytearray(encode_frame(RemotingCommand(10, None, bytes(100_000))))
    frame[4:8] = (200_000).to_bytes(4, "big")
    with pytest.raises(ReceiveError, match="header of 200000 bytes in a frame of"):
        Connection().receive(bytes(frame[:50_000]))


@pytest.mark.parametrize(
    ("remark", "sizes"), [(0, [3, 3, 1]), (600, [2, 2, 2, 2]), (5000, [1] * 9)], ids=["short", "600", "5000"]
)
def test_so_many_commands_are_decoded_at_a_time_and_more_gives_the_next(
    remark: int, sizes: list[int]
) -> None:
    """A long header counts for several."""
    commands = [RemotingCommand(10, opaque=number, remark="r" * remark or None) for number in range(10)]
    stream = b"".join(map(encode_frame, commands))
    connection = Connection(most=3)
    found, later = connection.receive(stream + b"\0\0"), []
    while some := connection.more():
        later.append(len(some))
        found += some
    assert (found, later) == (commands, sizes)
    assert connection.buffered == 2
