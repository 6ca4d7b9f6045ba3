"""Mutated real bodies and ext fields, which raise only the codec's own errors or give values within bounds.

Seeded, so that a failure is the same every time; the message of a failure has the input.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import msgspec
import pytest

from rmqcli.codec.bodies.base import Body, decode_body, encode_body
from rmqcli.codec.bodies.config import decode_properties_text
from rmqcli.codec.bodies.registration import RegisterBrokerBody
from rmqcli.codec.errors import CodecError
from rmqcli.codec.fastjson import FASTJSON, loads
from rmqcli.codec.headers.base import Header, from_ext, to_ext
from rmqcli.codec.operations.operation import PROPERTIES
from rmqcli.codec.remoting.frame import decode_frame
from tests.codec.values import BODIES, HEADERS, body_form
from tests.codec.wire import load_wire
from tests.operations import OPERATIONS
from tests.seeds import times

BODY_INPUTS: Final = times(10_000)
HEADER_INPUTS: Final = times(7_500)
REGISTRATIONS: Final = times(1_250)
LONGEST: Final = 1_500
INT64: Final = range(-(2**63), 2**63)

TOKENS: Final = (
    b'{"$ref":"$"}',
    b'{"$ref":".."}',
    b'{"$ref":"$.offsetTable"}',
    b"{{",
    b"}}",
    b'{0:"x"}',
    b"[",
    b"]",
    b'"',
    b"'",
    b"\\",
    b"\\u",
    b"null",
    b"true",
    b"-",
    b"1e999",
    b"9223372036854775808",
    b"99999999999999999999999999999999999999999999999999999999999999999",
    b"2147483648",
    b"NaN",
    b"\xff",
    b"\0",
    b"{" * 200,
    b"[" * 200,
    b",",
    b":",
    b"''",
    b"{}",
    b"[]",
    b"[[1,2]]",
)
TEXTS: Final = (
    "",
    "-1",
    "x",
    "true",
    "1",
    "null",
    "9" * 30,
    "9" * 5000,
    "1e5",
    "0x10",
    "٣",
    "2147483648",
    "\0",
    "\ud800",
    " 1",
    "--1",
    "1.5",
)

Mutation = Callable[[random.Random, bytearray], None]


def flip_bits(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def insert_token(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(data) + 1)
        data[place:place] = rng.choice(TOKENS)


def replace_value(rng: random.Random, data: bytearray) -> None:
    """Replaces the text between a colon and the next mark."""
    colon = data.find(b":", rng.randrange(len(data)))
    end = min(
        (place for place in (data.find(mark, colon) for mark in (b",", b"}")) if place > 0), default=len(data)
    )
    data[colon + 1 : end] = rng.choice(TOKENS)


def truncate(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(1, len(data) + 1) :]


def drop_middle(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    del data[start : min(start + rng.randint(1, 30), len(data) - 1)]


def repeat_part(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    data[start:start] = data[start : start + rng.randint(1, 40)] * rng.randint(1, 20)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    flip_bits,
    insert_token,
    replace_value,
    truncate,
    drop_middle,
    repeat_part,
)


@cache
def recorded() -> tuple[list[tuple[Any, bytes]], list[tuple[type[Header], dict[str, str]]]]:
    """Bodies with their class, and ext fields with theirs, of the recorded run: a few of each shape."""
    bodies: dict[tuple[Any, int], bytes] = {}
    headers: dict[tuple[type[Header], int], dict[str, str]] = {}
    by_number = {int(code): operation for code, operation in OPERATIONS.items()}
    for kind in ("json", "rocketmq"):
        wire = load_wire(kind)
        for row, frame in zip(wire.index, wire.frames, strict=True):
            operation = by_number.get(row.get("reqcode", row["code"]))
            if operation is None:
                continue
            answers = row["type"] == "response"
            cls = body_form(operation, of_reply=answers)
            header = operation.reply if answers else operation.request
            command = decode_frame(frame[4:])
            if cls not in {None, bytes} and 0 < len(command.body) < LONGEST:
                bodies[cls, len(command.body)] = bytes(command.body)
            if header is not None and command.ext_fields:
                headers[header, len(command.ext_fields)] = command.ext_fields
    return [(cls, data) for (cls, _), data in bodies.items()], [
        (cls, ext) for (cls, _), ext in headers.items()
    ]


def body_inputs() -> Iterator[tuple[Any, bytes]]:
    rng = random.Random(20_261_121)
    seeds, _ = recorded()
    seeds = seeds + [(cls, encode_body(cls(), dialect=FASTJSON)) for cls in BODIES if not _required(cls)]
    for _ in range(BODY_INPUTS):
        cls, seed = rng.choice(seeds)
        data = bytearray(seed)
        for _ in range(rng.randint(1, 3)):
            rng.choice(MUTATIONS)(rng, data)
            data = data or bytearray(b"{")
        yield rng.choice([cls, cls, cls, rng.choice(BODIES)]), bytes(data)


def _required(cls: type[Body]) -> bool:
    return any(field.required for field in msgspec.structs.fields(cls))


def integers_in(value: Any) -> Iterator[int]:
    """Every integer of a body or its parts, walked as a reader walks it."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from integers_in(getattr(value, name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from integers_in(key)
            yield from integers_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from integers_in(item)


def test_mutated_bodies_give_values_or_our_errors() -> None:
    read, started = 0, time.process_time()
    for cls, data in body_inputs():
        try:
            value = decode_properties_text(data) if cls == PROPERTIES else decode_body(cls, data)
        except CodecError:
            continue
        except Exception as error:
            pytest.fail(f"{cls} of {data!r}: {error!r}")
        read += 1
        assert all(number in INT64 for number in integers_in(value)), (cls, data)
        if cls is not dict:
            encode_body(value, dialect=FASTJSON)
    assert read > BODY_INPUTS // 20
    assert time.process_time() - started < times(15)


def test_mutated_texts_are_read_or_refused() -> None:
    rng = random.Random(7)
    seeds, _ = recorded()
    read = 0
    for _ in range(times(1_250)):
        data = bytearray(rng.choice(seeds)[1])
        rng.choice(MUTATIONS)(rng, data)
        try:
            loads(bytes(data))
        except CodecError:
            continue
        except Exception as error:
            pytest.fail(f"{data!r}: {error!r}")
        read += 1
    assert read > times(125)


def test_mutated_ext_fields_give_headers_or_our_errors() -> None:
    rng = random.Random(42)
    _, seeds = recorded()
    read = 0
    for _ in range(HEADER_INPUTS):
        cls, seed = rng.choice(seeds)
        ext = dict(seed)
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(list(ext) or ["topic"])
            if rng.random() < 0.3:
                ext.pop(name, None)
            else:
                ext[name] = rng.choice(TEXTS)
        cls = cls if rng.random() < 0.8 else rng.choice(HEADERS)
        try:
            header = from_ext(cls, ext)
        except CodecError:
            continue
        except Exception as error:
            pytest.fail(f"{cls} of {ext!r}: {error!r}")
        read += 1
        assert all(number in INT64 for number in integers_in(header)), (cls, ext)
        assert from_ext(cls, to_ext(header)) == header
    assert read > HEADER_INPUTS // 4


def test_mutated_registrations_give_values_or_our_errors() -> None:
    rng = random.Random(3)
    seeds = [RegisterBrokerBody.decode(data) for cls, data in recorded()[0] if cls is RegisterBrokerBody]
    inflated = [zlib.decompress(body.encode(compressed=True)) for body in seeds]
    read = 0
    for _ in range(REGISTRATIONS):
        data = bytearray(rng.choice(inflated))
        rng.choice(MUTATIONS)(rng, data)
        packed = bytearray(zlib.compress(data, 1))
        if rng.random() < 0.2:
            flip_bits(rng, packed)
        try:
            body = RegisterBrokerBody.decode(bytes(packed), compressed=True)
        except CodecError:
            continue
        except Exception as error:
            pytest.fail(f"{bytes(data)!r}: {error!r}")
        read += 1
        assert all(number in INT64 for number in integers_in(body))
    assert read > REGISTRATIONS // 50
