"""Mutated real records, seeded so that a failure can be repeated. Readers raise only the codec's own
errors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from rmqcli.codec.core.walk import Walk
from rmqcli.codec.errors import CodecError, CorruptionError
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.reading import decode_record, decode_records, scan_record
from rmqcli.codec.scan.arrow import scan_batches
from rmqcli.codec.store.record_layout import PREFIXES
from tests.seeds import times
from tests.support import JavaStore

SEED = 20261121
MUTATIONS = times(30_000)
LARGEST = 2_000
PREFIX = 88


def real_records(store: JavaStore) -> list[bytes]:
    log = store.commit_log
    lines = store.of_kind("msg")
    return [log[line["phy"] : line["phy"] + line["size"]] for line in lines if line["size"] <= LARGEST]


def flip_bit(data: bytearray, chance: random.Random, start: int, end: int) -> None:
    data[chance.randrange(start, end)] ^= 1 << chance.randrange(8)


def set_byte(data: bytearray, chance: random.Random, start: int, end: int) -> None:
    data[chance.randrange(start, end)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))


def set_word(data: bytearray, chance: random.Random, start: int, end: int) -> None:
    place = chance.randrange(start, end)
    data[place : place + 4] = chance.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1)).to_bytes(4, "big")


def cut(data: bytearray, chance: random.Random, start: int, end: int) -> None:
    del data[chance.randrange(start, end) :]


def insert(data: bytearray, chance: random.Random, start: int, end: int) -> None:
    place = chance.randrange(start, end)
    data[place:place] = chance.randbytes(chance.randrange(1, 5))


CHANGES: tuple[Callable[[bytearray, random.Random, int, int], None], ...] = (
    flip_bit,
    set_byte,
    set_word,
    cut,
    insert,
)


def mutations(records: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Half of the changes hit the fixed fields, the others anything."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(records))
        for _ in range(chance.randrange(1, 4)):
            end = len(data) if chance.random() < 0.5 else min(len(data), PREFIX)
            if end:
                chance.choice(CHANGES)(data, chance, 0, end)
        yield bytes(data)


def test_mutated_records(store_clean: JavaStore) -> None:
    refused = 0
    for data in mutations(real_records(store_clean), MUTATIONS, SEED):
        try:
            message = decode_record(data, check_crc=True, decompress=True)
        except CodecError:
            refused += 1
            continue
        assert message.store_size == scan_record(data).total_size <= len(data)
        assert isinstance(message.msg_id, str)
        assert message.keys == [key for key in message.properties.get("KEYS", "").split(" ") if key]
    assert MUTATIONS * 0.5 < refused < MUTATIONS


def placed(record: bytes, offset: int) -> bytes:
    """The record with its commit-log offset, as far as it goes."""
    at = PREFIXES[0].offsets["physical_offset"]
    return (record[:at] + offset.to_bytes(8, "big") + record[at + 8 :])[: len(record)]


def end_of(log: bytes) -> int:
    walk = Walk(log, 0)
    walk.skip()
    return walk.position


def test_mutated_logs(store_clean: JavaStore) -> None:
    records = real_records(store_clean)
    chance = random.Random(SEED + 2)
    for data in mutations(records, 500, SEED + 2):
        log = b""
        for record in (*chance.choices(records, k=2), data, chance.choice(records)):
            log += placed(record, len(log))
        rows = 0
        damage = None
        try:
            for batch in scan_batches(log, check_crc=True, batch_rows=3, decompress=False):
                batch.validate(full=True)
                rows += batch.num_rows
        except CorruptionError as error:
            damage = error
        assert rows >= 2
        good = decode_records(log[: damage.position if damage else end_of(log)], check_crc=True)
        assert rows == len(good)


def test_crc_finds_every_flipped_bit_of_a_body(store_clean: JavaStore) -> None:
    record = min(real_records(store_clean), key=len)
    body_length = int.from_bytes(record[84:88], "big")
    assert body_length > 0
    for place in range(88, 88 + body_length):
        for bit in range(8):
            data = bytearray(record)
            data[place] ^= 1 << bit
            with pytest.raises(CorruptionError, match="CRC"):
                decode_record(data, check_crc=True)


def test_records_cut_at_every_byte(store_clean: JavaStore) -> None:
    for record in real_records(store_clean)[::200]:
        for length in range(len(record)):
            with pytest.raises(CorruptionError):
                decode_record(record[:length])
            with pytest.raises(CorruptionError):
                scan_record(record, 0, length)


def test_random_bytes() -> None:
    chance = random.Random(SEED + 3)
    for _ in range(times(5_000)):
        data = chance.randbytes(chance.randrange(200))
        decode_properties(data)
        with pytest.raises(CorruptionError):
            decode_record(data)
