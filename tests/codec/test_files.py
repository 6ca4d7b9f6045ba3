"""Queue, queue extension, index and checkpoint layouts, and the names of files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec.errors import CodecError, CorruptionError, LocalProtocolError
from rmqcli.codec.layout import FixedLayout
from rmqcli.codec.store.checkpoint import (
    CHECKPOINT,
    SAFE_POINT,
    SAFE_POINT_AT,
    Checkpoint,
    SafePoint,
    decode_checkpoint,
    decode_safe_point,
    encode_checkpoint,
)
from rmqcli.codec.store.consume_queue import (
    ENTRY,
    EXTENSION_ENTRY,
    FILLER,
    ExtensionEntry,
    address_of,
    decode_extension_entry,
    encode_extension_entry,
    is_address,
    offset_of,
)
from rmqcli.codec.store.file_names import file_name, index_file_name, is_file_name, is_index_file_name
from rmqcli.codec.store.index_file import (
    HEADER,
    ITEM,
    SLOT,
    IndexHeader,
    IndexItem,
    decode_header,
    decode_item,
    index_file_size,
    item_position,
    time_difference,
)
from tests.codec.samples import INT32, INT64

LAYOUTS = [ENTRY, HEADER, SLOT, ITEM, CHECKPOINT]


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
@given(st.binary(min_size=120, max_size=120))
def test_the_three_readers_of_a_layout_agree(layout: FixedLayout, data: bytes) -> None:
    data = data[: layout.size]
    parsed = layout.declaration.parse(data)
    fused = dict(zip(layout.names, layout.unpack(data), strict=True))
    row = np.frombuffer(data, dtype=layout.dtype())[0]
    assert {name: parsed[name] for name in layout.names} == fused
    assert {name: row[name].item() for name in layout.names} == fused
    assert layout.declaration.build(fused) == layout.pack(*fused.values()) == data


@pytest.mark.parametrize(("layout", "size"), [(ENTRY, 20), (HEADER, 40), (ITEM, 20), (SLOT, 4)])
def test_sizes(layout: FixedLayout, size: int) -> None:
    assert layout.size == size


def test_a_filler_and_the_zeros_behind_entries() -> None:
    entries = list(ENTRY.iter_unpack(FILLER + ENTRY.pack(722, 966, -5) + bytes(20)))
    assert entries == [(0, 0x7FFFFFFF, 0), (722, 966, -5), (0, 0, 0)]


class TestExtension:
    @given(st.lists(st.builds(ExtensionEntry, INT64, INT64, st.binary(max_size=40))))
    def test_round_trip(self, entries: list[ExtensionEntry]) -> None:
        data = b"".join(map(encode_extension_entry, entries))
        position = 0
        for entry in entries:
            assert decode_extension_entry(data, position) == entry
            parsed = EXTENSION_ENTRY.parse(data[position:])
            position += entry.size
            assert ExtensionEntry(parsed.tags_code, parsed.store_timestamp, parsed.bit_map) == entry

    def test_damage(self) -> None:
        data = encode_extension_entry(ExtensionEntry(1, 2, b"abc"))
        for length in range(len(data)):
            with pytest.raises(CorruptionError):
                decode_extension_entry(data[:length])
        for changed in (b"\x00\x13" + data[2:], data[:18] + b"\xff\xff" + data[20:], b"\xff\xfe" + data[2:]):
            with pytest.raises(CorruptionError):
                decode_extension_entry(changed)

    def test_too_large(self) -> None:
        with pytest.raises(LocalProtocolError):
            encode_extension_entry(ExtensionEntry(0, 0, bytes(32768)))

    @given(st.integers(0, 2**62))
    def test_addresses(self, offset: int) -> None:
        assert is_address(address_of(offset))
        assert offset_of(address_of(offset)) == offset

    def test_the_ends_of_the_addresses(self) -> None:
        assert address_of(0) == -(2**63)
        assert is_address(-(2**31) - 1)
        assert not is_address(-(2**31))

    @given(INT32)
    def test_a_hash_is_no_address(self, code: int) -> None:
        assert not is_address(code)


class TestIndex:
    def test_default_size(self) -> None:
        assert index_file_size() == 420_000_040

    def test_empty_header(self) -> None:
        assert decode_header(HEADER.pack(*IndexHeader())) == IndexHeader()
        with pytest.raises(CorruptionError):
            decode_header(bytes(39))

    def test_an_item_of_a_file_that_is_cut(self) -> None:
        item = IndexItem(5, 100, 0, 0)
        data = bytearray(index_file_size(4, 2))
        ITEM.pack_into(data, item_position(4, 1), *item)
        assert decode_item(data, 4, 1) == item
        for length in range(len(data)):
            with pytest.raises(CorruptionError):
                decode_item(data[:length], 4, 1)

    @pytest.mark.parametrize(
        ("begin", "stored", "seconds"),
        [(0, 5000, 0), (1000, 5999, 4), (5000, 1000, 0), (1, 2**62, 2**31 - 1)],
    )
    def test_times(self, begin: int, stored: int, seconds: int) -> None:
        assert time_difference(begin, stored) == seconds


class TestCheckpoint:
    def test_round_trip(self) -> None:
        checkpoint = Checkpoint(10_000, 9_000, 5_000)
        data = encode_checkpoint(checkpoint)
        assert len(data) == 4096
        assert decode_checkpoint(data) == checkpoint
        assert (checkpoint.min_timestamp, checkpoint.min_timestamp_index) == (6_000, 5_000)
        assert Checkpoint(1000, 5000).min_timestamp == 0

    def test_too_short(self) -> None:
        with pytest.raises(CorruptionError):
            decode_checkpoint(bytes(39))

    def test_a_safe_point_stands_behind_what_java_reads(self) -> None:
        checkpoint, safe_point = Checkpoint(10_000, 9_000, 5_000), SafePoint(1 << 40, 77, 0xFFFFFFFF)
        data = encode_checkpoint(checkpoint, safe_point)
        assert data[:SAFE_POINT_AT] == encode_checkpoint(checkpoint)[:SAFE_POINT_AT]
        assert (len(data), decode_checkpoint(data)) == (4096, checkpoint)
        assert decode_safe_point(data) == safe_point._replace(times=(10_000, 9_000, 5_000))
        assert decode_safe_point(encode_checkpoint(checkpoint)) is None

    def test_a_safe_point_with_any_flipped_bit_is_refused(self) -> None:
        data = encode_checkpoint(Checkpoint(1, 2, 3), SafePoint(1 << 40))
        for bit in range(SAFE_POINT.size * 8):
            flipped = bytearray(data)
            flipped[SAFE_POINT_AT + bit // 8] ^= 1 << bit % 8
            with pytest.raises(CorruptionError):
                decode_safe_point(bytes(flipped))
        with pytest.raises(CorruptionError):
            decode_safe_point(data[: SAFE_POINT_AT + 9])


class TestNames:
    @given(st.integers(0, 2**63 - 1))
    def test_round_trip(self, offset: int) -> None:
        assert is_file_name(file_name(offset))
        assert int(file_name(offset)) == offset

    def test_java_names(self) -> None:
        assert file_name(1 << 30) == "00000000001073741824"
        assert index_file_name(1795224776048, timezone(timedelta(hours=8))) == "20261121093256048"

    @pytest.mark.parametrize("name", ["", "abort", "0" * 19, "0" * 21, "9" * 20, "٠" * 20, "0" * 19 + "x"])
    def test_other_names(self, name: str) -> None:
        assert not is_file_name(name)

    @given(st.integers(0, 4_000_000_000_000))
    def test_index_names(self, moment: int) -> None:
        name = index_file_name(moment, UTC)
        assert is_index_file_name(name)
        assert datetime.strptime(f"{name}000", "%Y%m%d%H%M%S%f").replace(
            tzinfo=UTC
        ) == datetime.fromtimestamp(moment // 1000, UTC) + timedelta(milliseconds=moment % 1000)

    @pytest.mark.parametrize("name", ["", "2026112101325604", "x" * 17, "٠" * 17])
    def test_other_index_names(self, name: str) -> None:
        assert not is_index_file_name(name)


@given(st.binary(max_size=200))
def test_hostile_bytes_raise_only_codec_errors(data: bytes) -> None:
    readers: list[Any] = [
        decode_checkpoint,
        decode_header,
        decode_extension_entry,
        lambda buffer: decode_item(buffer, 4, 1),
    ]
    for reader in readers:
        try:
            reader(data)
        except CodecError:
            continue
