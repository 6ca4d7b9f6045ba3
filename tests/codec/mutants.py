"""Mutants of the frames that were recorded between Java's clients and servers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.codec.wire import load_wire, raw_frame

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
