"""Mutated real frames: only the codec's own errors, and no result bigger than its input.

Seeded, so that a failure is the same every time; the message of a failure has the input.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

import pytest

from codec.errors import CodecError
from codec.remoting.connection import Connection, ReceiveError
from codec.remoting.frame import RemotingCommand, decode_frame, encode_frame
from tests.codec.wire import KINDS, load_wire, raw_frame

FRAMES_PER_KIND: Final = 120_000
STREAMS_PER_KIND: Final = 1_000
LONGEST: Final = 4_096

Mutation = Callable[[random.Random, bytearray, bytes], None]


def flip_bits(rng: random.Random, frame: bytearray, _other: bytes) -> None:
    for _ in range(rng.randint(1, 4)):
        frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)


def flip_in_header(rng: random.Random, frame: bytearray, _: bytes) -> None:
    frame[rng.randrange(min(len(frame), 60))] = rng.choice(b'\0\1\x7f\x80\xff"{}[]:,\\0-e')


def truncate(rng: random.Random, frame: bytearray, _: bytes) -> None:
    del frame[rng.randrange(len(frame)) :]


def splice(rng: random.Random, frame: bytearray, other: bytes) -> None:
    frame[rng.randrange(len(frame)) :] = other[rng.randrange(len(other)) :]


def edit_length(rng: random.Random, frame: bytearray, _: bytes) -> None:
    at = rng.choice((1, 4, 17, 21, rng.randrange(len(frame))))
    frame[at : at + 4] = rng.choice((0, 1, 0x7F, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)).to_bytes(
        4, "big"
    )


def insert_garbage(rng: random.Random, frame: bytearray, _: bytes) -> None:
    at = rng.randrange(len(frame))
    frame[at:at] = rng.randbytes(rng.randint(1, 16))


def remove_some(rng: random.Random, frame: bytearray, _: bytes) -> None:
    at = rng.randrange(len(frame))
    del frame[at : at + rng.randint(1, 16)]


def repeat_some(rng: random.Random, frame: bytearray, _: bytes) -> None:
    at = rng.randrange(len(frame))
    frame[at:at] = frame[at : at + rng.randint(1, 30)] * rng.randint(1, 20)


MUTATIONS: Final[list[Mutation]] = [
    flip_bits,
    flip_in_header,
    truncate,
    splice,
    edit_length,
    insert_garbage,
    remove_some,
    repeat_some,
]


def sources(kind: str) -> list[bytes]:
    """Recorded frames without their length, one of each shape rather than the same pull a thousand times."""
    wire = load_wire(kind)
    shapes = {
        (row["code"], row["type"], row.get("reqcode"), row["headerLen"] // 8): frame[4:]
        for row, frame in zip(wire.index, wire.frames, strict=True)
        if len(frame) <= LONGEST
    }
    return list(shapes.values())


def mutated(rng: random.Random, frames: list[bytes]) -> bytes:
    """A frame with one to three mutations, of the whole or of a header whose length is then corrected."""
    frame = rng.choice(frames)
    if rng.random() < 0.5:
        return mutate(rng, frame, frames)
    header_end = 4 + int.from_bytes(frame[1:4], "big")
    header = mutate(rng, frame[4:header_end], frames)
    return raw_frame(header, frame[header_end:], kind=frame[0])


def mutate(rng: random.Random, data: bytes, frames: list[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(MUTATIONS)(rng, changed, rng.choice(frames))
        if not changed:
            break
    return bytes(changed)


def text_size(command: RemotingCommand) -> int:
    """The UTF-8 bytes of all texts; a replacement character stands for at least one byte and has three."""
    texts = [command.remark or "", *(command.ext_fields or {}).keys(), *(command.ext_fields or {}).values()]
    return sum(len(text.encode()) if text.isascii() else len(text) for text in texts)


def check(raw: bytes) -> bool:
    """True when the frame was accepted; fails on a foreign error or on a value bigger than its input."""
    try:
        command = decode_frame(raw)
    except CodecError:
        return False
    assert text_size(command) + len(command.body) <= len(raw), raw.hex()
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_frames(kind: str) -> None:
    rng = random.Random(f"frames {kind}")
    frames = sources(kind)
    accepted = 0
    for _ in range(FRAMES_PER_KIND):
        raw = mutated(rng, frames)
        try:
            accepted += check(raw)
        except Exception as error:
            pytest.fail(f"{type(error).__name__}: {error}\ninput: {raw.hex()}")
    # both outcomes are common, else the mutations are too tame or too wild to say anything
    assert 0.05 < accepted / FRAMES_PER_KIND < 0.95


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_accepted_can_be_sent_on(kind: str) -> None:
    rng = random.Random(f"send on {kind}")
    frames = sources(kind)
    for _ in range(5_000):
        raw = mutated(rng, frames)
        try:
            command = decode_frame(raw)
            sent = encode_frame(command)
        except CodecError:
            continue
        assert decode_frame(sent[4:]).code == command.code, raw.hex()


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_streams(kind: str) -> None:
    rng = random.Random(f"streams {kind}")
    frames = [len(frame).to_bytes(4, "big") + frame for frame in sources(kind)]
    broken = 0
    for _ in range(STREAMS_PER_KIND):
        stream = bytearray(b"".join(rng.choices(frames, k=20)))
        rng.choice(MUTATIONS)(rng, stream, rng.choice(frames))
        broken += not _survives(rng, bytes(stream))
    assert 0.05 < broken / STREAMS_PER_KIND < 0.98


def _survives(rng: random.Random, stream: bytes) -> bool:
    connection = Connection()
    fed = 0
    while fed < len(stream):
        chunk = stream[fed : fed + rng.randint(1, 1500)]
        fed += len(chunk)
        try:
            connection.receive(chunk)
        except ReceiveError:
            return False
        assert connection.buffered <= fed
    return True


HOSTILE: Final = {
    "deep objects": b'{"extFields":' * 200_000,
    "deep arrays": b'{"x":' + b"[" * 1_000_000,
    "many names": b'{"extFields":{' + b",".join(b'"%d":%d' % (n, n) for n in range(100_000)) + b"}}",
    "long number": b'{"code":' + b"1" * 1_000_000 + b"}",
    "long text number": b'{"code":"' + b"1" * 1_000_000 + b'"}',
    "long exponent": b'{"code":1e' + b"1" * 1_000_000 + b"}",
    "long fraction": b'{"code":0.' + b"1" * 1_000_000 + b"}",
    "long language": b'{"language":' + b"1" * 1_000_000 + b"}",
    "escapes": b'{"remark":"' + b"\\u0041" * 200_000 + b'"}',
    "blanks": b" " * 1_000_000,
    "not text": b'{"remark":"' + b"\xff" * 1_000_000 + b'"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_costs_no_more_than_its_size(name: str) -> None:
    header = HOSTILE[name]
    raw = b"\0" + len(header).to_bytes(3, "big") + header
    began = time.process_time()
    check(raw)
    # a megabyte takes some ten milliseconds; what grows with the square would take minutes
    assert time.process_time() - began < 2.0


def test_hostile_binary_header_costs_no_more_than_its_size() -> None:
    block = b"\0\0\0\0\0\0" * 1_000_000
    header = b"\0" * 17 + len(block).to_bytes(4, "big") + block
    began = time.process_time()
    assert check(b"\1" + len(header).to_bytes(3, "big") + header)
    assert time.process_time() - began < 10.0
