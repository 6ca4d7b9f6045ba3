"""Wherever a store is cut, its parts together yield each record once, and no damage is skipped."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.encoding import encode_filler
from rmqcli.codec.store.record_layout import MAGIC_V1, MAGIC_V2
from rmqcli.export.errors import ExportError
from rmqcli.export.from_store.parts import parts_of
from rmqcli.export.from_store.row_filter import RowFilter
from tests.codec.samples import make_record
from tests.export.support import scanned, write_log
from tests.seeds import seeds, times
from tests.support import JavaStore

MAGICS = b"".join(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))
BODIES = st.lists(st.binary(max_size=300) | st.sampled_from([b"", MAGICS * 20, bytes(400)]), max_size=12)
TAILS = st.sampled_from([b"", bytes(7), bytes(900), encode_filler(50) + b"\xaa" * 42, encode_filler(8)])


@settings(max_examples=times(38), deadline=None)
@given(bodies=BODIES, tail=TAILS, part_size=st.integers(1, 2500))
def test_parts_of_any_size_give_each_record_once(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes], tail: bytes, part_size: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "parts"
    starts = write_log(folder, bodies, tail)
    assert list(scanned(folder, part_size)) == starts


@pytest.mark.parametrize("seed", seeds(2))
def test_parts_of_the_java_stores(java_store: JavaStore, seed: int) -> None:
    part_size = random.Random(seed).randrange(5_000, 700_000)
    assert list(scanned(java_store.root, part_size)) == [line["phy"] for line in java_store.of_kind("msg")]


def test_a_record_larger_than_many_parts(tmp_path: Path) -> None:
    starts = write_log(tmp_path, [b"a", b"b" * 9_000_000, b"c"])
    assert list(scanned(tmp_path, 1_000_000)) == starts


@settings(max_examples=times(38), deadline=None)
@given(victim=st.integers(0, 9), part_size=st.integers(1, 3000), change=st.data())
def test_damage_is_found_wherever_the_cuts_are(
    tmp_path_factory: pytest.TempPathFactory, victim: int, part_size: int, change: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    starts = write_log(folder, [bytes([number]) * 150 for number in range(10)])
    path = folder / f"{0:020d}"
    data = bytearray(path.read_bytes())
    begin = starts[victim]
    end = [*starts, len(data)][victim + 1]
    if change.draw(st.booleans(), "zeros"):
        data[begin:end] = bytes(end - begin)
        data += b"" if victim < 9 else b"\1"
    else:
        covered = [*range(8), *range(28, 36), *range(84, 88 + 150)]
        data[begin + change.draw(st.sampled_from(covered))] ^= 1 << change.draw(st.integers(0, 7))
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match=f"{path}: byte {begin}: "):
        list(scanned(folder, part_size))


def test_a_body_that_holds_the_record_that_would_be_there(tmp_path: Path) -> None:
    """Such a body takes knowledge of where a record will lie: it is refused, not exported twice."""
    inside = 88 + 100
    body = bytes(100) + make_record(physical_offset=inside) + bytes(100)
    starts = write_log(tmp_path, [body, b"next"])
    with pytest.raises(ExportError, match=f"byte {inside}: a body looks like a record"):
        list(scanned(tmp_path, 150))
    assert list(scanned(tmp_path, 1 << 20)) == starts


def test_a_body_that_cannot_be_decompressed_is_named(tmp_path: Path) -> None:
    good = make_record(physical_offset=0)
    bad = make_record(physical_offset=len(good), body=b"no zlib", sys_flag=1)
    path = tmp_path / f"{0:020d}"
    path.write_bytes(good + bad)
    with pytest.raises(CorruptionError, match=f"{path}: byte {len(good)}: "):
        list(scanned(tmp_path, 1 << 20))


def test_a_renamed_file_is_one_part(tmp_path: Path, store_clean: JavaStore) -> None:
    copy = tmp_path / "copy.bin"
    copy.write_bytes(store_clean.commit_logs[2].read_bytes())
    expected = [line["phy"] for line in store_clean.of_kind("msg") if 1048576 <= line["phy"] < 1572864]
    assert list(scanned(copy, 1000)) == expected
    assert len(parts_of(copy, RowFilter(), 1000)) == 1


def test_a_crc_is_only_checked_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}").write_bytes(make_record(physical_offset=0, body_crc=1))
    assert list(scanned(tmp_path, 1 << 20, RowFilter(check_crc=False))) == [0]
    with pytest.raises(CorruptionError, match="CRC"):
        list(scanned(tmp_path, 1 << 20))


def test_files_without_a_wanted_record_are_not_opened(store_clean: JavaStore) -> None:
    assert parts_of(store_clean.root, RowFilter(begin=5, end=5)) == []
    bases = [part.base for part in parts_of(store_clean.root, RowFilter(begin_commit_log=1048576))]
    assert bases == [1048576, 1572864]


def test_holes_are_no_parts(tmp_path: Path) -> None:
    """A preallocated file of a gigabyte with three records."""
    starts = write_log(tmp_path, [b"a", b"b", b"c"])
    with (tmp_path / f"{0:020d}").open("r+b") as file:
        file.truncate(1 << 30)
    assert list(scanned(tmp_path, 1 << 16)) == starts
    assert len(parts_of(tmp_path, RowFilter(), 1 << 16)) in (1, 1 << 14)


@pytest.mark.parametrize("part_size", [300, 1000, 1 << 20])
def test_without_verification_what_is_sound_is_there(
    tmp_path: Path, part_size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records with a wrong size or magic, and a log that ends inside a record."""
    starts = write_log(tmp_path, [b"body %d" % number * 9 for number in range(20)])
    path = tmp_path / f"{0:020d}"
    data = bytearray(path.read_bytes())
    for number, place in ((3, 0), (4, 4), (9, 3)):
        data[starts[number] + place] ^= 0x55
    path.write_bytes(data[:-10])
    with pytest.raises(CorruptionError):
        list(scanned(tmp_path, part_size))
    lost = {3, 4, 9, 19}
    wanted = [start for number, start in enumerate(starts) if number not in lost]
    assert list(scanned(tmp_path, part_size, RowFilter(check_crc=False))) == wanted
    said = capsys.readouterr().err
    assert "damaged bytes" in said and "left out" in said
    if part_size == 1 << 20:
        size = sum(starts[number + 1] - starts[number] for number in (3, 4, 9)) + len(data) - 10 - starts[19]
        assert f"{path}: {size} damaged bytes in 3 places, from byte {starts[3]} on, left out" in said
