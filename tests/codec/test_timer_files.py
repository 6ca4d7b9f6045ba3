"""The files of timer messages: bytes that Java wrote, and damaged ones."""

from __future__ import annotations

import pytest

from rmqcli.codec.core.hashing import java_string_hash
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.store.timer_files import (
    CHECK_POINT,
    DEFAULT,
    FILE_SIZE,
    FILLER_UNIT,
    PRECISION_MS,
    ROLL,
    SAFE_POINT_AT,
    SLOT,
    UNIT,
    WHEEL_SIZE,
    TimerCheckPoint,
    TimerUnit,
    decode_check_point,
    decode_safe_point,
    decode_unit,
    encode_check_point,
    encode_filler,
    encode_unit,
    slot_index,
)
from tests.support import JavaStore


def units(log: bytes) -> list[TimerUnit]:
    found: list[TimerUnit] = []
    while (unit := decode_unit(log, len(found) * UNIT.size, len(found) * UNIT.size)) is not None:
        found.append(unit)
    return found


def test_units_of_java(store_five: JavaStore) -> None:
    log = (store_five.root / "timerlog" / f"{0:020d}").read_bytes()
    known = decode_check_point((store_five.root / "config" / "timercheck").read_bytes())
    found = units(log)
    assert len(found) == 95 == known.queue_offset
    assert len(found) * UNIT.size == known.log_flush_position
    assert b"".join(map(encode_unit, found)) == log[: known.log_flush_position]
    assert UNIT.declaration.parse(log).size == UNIT.size
    waiting = {
        line["phy"]: line for line in store_five.of_kind("msg") if line["topic"] == "rmq_sys_wheel_timer"
    }
    for unit in found:
        line = waiting[unit.offset]
        assert unit.size == line["size"]
        assert unit.topic_hash == java_string_hash(line["properties"]["REAL_TOPIC"])
        if not unit.magic & ROLL:
            assert unit.slot == int(line["properties"]["TIMER_OUT_MS"])


def test_slots_of_java(store_five: JavaStore) -> None:
    wheel = (store_five.root / "timerwheel").read_bytes()
    assert len(wheel) == WHEEL_SIZE
    last = {
        unit.slot: unit.position for unit in units((store_five.root / "timerlog" / f"{0:020d}").read_bytes())
    }
    used = [(index, slot) for index, slot in enumerate(SLOT.iter_unpack(wheel)) if slot[0] and slot[0] != -1]
    assert len(used) == 18
    for index, (time, first, position, _, _) in used:
        assert index == slot_index(time * PRECISION_MS)
        assert last[time * PRECISION_MS] == position >= first


def test_a_check_point_of_java_has_no_safe_point(store_five: JavaStore) -> None:
    data = (store_five.root / "config" / "timercheck").read_bytes()
    known = decode_check_point(data)
    assert known.last_read_time == 1795345104000
    assert decode_safe_point(data) is None
    assert CHECK_POINT.pack(*known) == data[: CHECK_POINT.size]


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_safe_point(is_closed: bool) -> None:
    known = TimerCheckPoint(1000, 52, 1, 1, 0, 5, 2)
    data = encode_check_point(known, is_closed=is_closed)
    assert (len(data), decode_check_point(data), decode_safe_point(data)) == (FILE_SIZE, known, is_closed)
    by_java = CHECK_POINT.pack(*known._replace(queue_offset=2)) + data[CHECK_POINT.size :]
    assert decode_safe_point(by_java) is None
    for at in range(SAFE_POINT_AT, SAFE_POINT_AT + 44):
        damaged = bytearray(data)
        damaged[at] ^= 1
        assert decode_safe_point(bytes(damaged)) is None
    assert decode_safe_point(data[: CHECK_POINT.size]) is None


def test_a_short_check_point() -> None:
    with pytest.raises(CorruptionError, match="55 bytes"):
        decode_check_point(bytes(55))


def test_what_is_no_unit() -> None:
    unit = TimerUnit(52, -1, DEFAULT, 1000, 5000, 77, 300, -5)
    data = bytes(UNIT.size) + encode_unit(unit)
    assert decode_unit(data, 52, 52) == unit
    assert decode_unit(data, 0, 0) is None
    assert decode_unit(data, 53, 53) is None
    assert decode_unit(encode_filler(100).ljust(UNIT.size, b"\0"), 0, 0) is None
    assert decode_unit(encode_unit(unit._replace(magic=8)), 0, 0) is None
    assert FILLER_UNIT.unpack(encode_filler(100)) == (100, 0, -875286124)
