"""Mutated real frames: only the codec's own errors, and no result bigger than its input.

Seeded, so that a failure is the same every time; the message of a failure has the input.
"""

from __future__ import annotations

import random
import time
from typing import Final

import pytest

from rmqcli.codec.errors import CodecError
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection, ReceiveError
from rmqcli.codec.remoting.frame import decode_frame, encode_frame
from tests.codec.mutants import MUTATIONS, mutated, sources
from tests.codec.wire import KINDS
from tests.seeds import times

FRAMES_PER_KIND: Final = times(30_000)
STREAMS_PER_KIND: Final = times(250)


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
    for _ in range(times(1_250)):
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
