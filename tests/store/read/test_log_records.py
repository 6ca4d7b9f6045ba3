"""Chosen records are those that decoding every record finds, whatever is damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rmqcli.codec.compression import compress
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records import reading
from rmqcli.codec.records.filter import RecordFilter, record_filter
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store import CommitLogFiles, DamagedFile
from rmqcli.store.read import commit_log, log_records
from tests.codec.samples import make_record
from tests.seeds import seeds
from tests.store.scalar import decoded
from tests.support import JavaStore

EVERYTHING = OffsetRange()
CONDITIONS = [
    "topic = 'SeedNormal'",
    "'SeedNormal' = topic AND 1 >= queue_id",
    "topic IN ('SeedNormal', 'SeedTags') AND queue_offset BETWEEN 10 AND 19",
    "3 > queue_id AND 0 < queue_id AND 60.5 <= store_size",
    "topic NOT IN ('SeedNormal')",
    "tags = 'tagA' OR tags IN ('tagB', 'x')",
    "queue_id = 3 OR DELAY > 3",
    "NOT (queue_id = 3)",
    "queue_id <> 3 AND store_size < 300",
    "queue_id = '3' AND store_size < 300.5",
    "store_size > 200 AND PGROUP IS NOT NULL",
    "body_size > 10 AND sys_flag = 0",
    "REAL_TOPIC = 'SeedDelay' OR TRAN_MSG = 'true'",
    "commit_log_offset < 99999999999 AND commit_log_offset >= 5000",
    "born_timestamp > store_timestamp",
    "body_crc > -1 AND flag = 0 AND reconsume_times = 0 AND prepared_transaction_offset = 0",
]
Copy = Callable[[str], JavaStore]
Said = list[tuple[int, MessageExt]] | str


def found(log: CommitLogFiles, wanted: OffsetRange, chosen: RecordFilter) -> Said:
    records: list[tuple[int, MessageExt]] = []
    try:
        for place, message in log_records.log_records(log, wanted, chosen):
            assert place.bytes()[:4] == place.size.to_bytes(4, "big")
            records.append((place.offset, message))
    except CorruptionError as error:
        return f"{len(records)} records, then {error}"
    return records


def all_of(log: CommitLogFiles) -> list[tuple[int, MessageExt]]:
    records = found(log, EVERYTHING, RecordFilter())
    assert isinstance(records, list)
    return records


def both(log: CommitLogFiles, wanted: OffsetRange, chosen: RecordFilter) -> tuple[Said, Said]:
    return found(log, wanted, chosen), one_by_one(log, wanted, chosen)


def one_by_one(log: CommitLogFiles, wanted: OffsetRange, chosen: RecordFilter) -> Said:
    if wanted.only_new:
        return []
    every = replace(wanted, last=None)
    records: list[tuple[int, MessageExt]] = []
    try:
        for place, message in decoded(log, every, chosen):
            records.append((place.offset, message))
    except CorruptionError as error:
        return f"{len(records)} records, then {error}"
    return records if wanted.last is None else records[len(records) - min(wanted.last, len(records)) :]


def filters(store: JavaStore) -> list[RecordFilter]:
    messages = [message for _, message in all_of(CommitLogFiles(store.root))]
    keys = {message.keys[0] for message in messages if message.keys}
    uniques = {message.properties["UNIQ_KEY"] for message in messages if "UNIQ_KEY" in message.properties}
    tags = sorted({message.tags for message in messages if message.tags})
    return [
        *(
            record_filter(key=key)
            for key in (*sorted(keys)[:3], *sorted(uniques)[:3], "", "no", "\ufffd", "\udc80")
        ),
        *(record_filter(tag=tag) for tag in (*tags[:3], f"{tags[0]} || {tags[-1]}", "no")),
        *(record_filter(topics=[topic], queue_id=0) for topic in ("SeedNormal", "no", "", "\ufffd")),
        *(record_filter(where=where) for where in CONDITIONS),
        record_filter(key=min(keys), tag=tags[0], topics=["SeedNormal", "SeedTags"]),
    ]


def test_the_same_ones(store_clean: JavaStore) -> None:
    log = CommitLogFiles(store_clean.root)
    counts = []
    for chosen in filters(store_clean):
        many, expected = both(log, EVERYTHING, chosen)
        assert many == expected
        counts.append(len(many))
    assert sum(map(bool, counts)) > len(CONDITIONS)


def test_ranges(store_clean: JavaStore) -> None:
    log = CommitLogFiles(store_clean.root)
    records = all_of(log)
    (begin, early), (end, late) = records[1000], records[2000]
    ranges = [
        OffsetRange(begin=begin, end=end),
        OffsetRange(begin=begin + 1),
        OffsetRange(end=end + 1),
        OffsetRange(begin_time=early.store_timestamp, end_time=late.store_timestamp),
        OffsetRange(last=7),
        OffsetRange(last=0),
        OffsetRange(only_new=True),
    ]
    for wanted in ranges:
        for chosen in (RecordFilter(), record_filter(queue_id=1), record_filter(topics=["SeedNormal"])):
            many, expected = both(log, wanted, chosen)
            assert many == expected
    assert both(log, ranges[0], RecordFilter())[0] == records[1000:2000]


def test_what_may_be_meant_is_little(store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CommitLogFiles(store_clean.root)
    calls: list[int] = []
    decode = reading.decode_record

    def counted(data: memoryview, position: int) -> MessageExt:
        calls.append(position)
        return decode(data, position)

    monkeypatch.setattr(commit_log, "decode_record", counted)
    sought = [
        record_filter(key=all_of(log)[1234][1].properties["UNIQ_KEY"]),
        record_filter(where="topic = 'SeedNormal' AND queue_id = 0 AND queue_offset < 10"),
        record_filter(where="commit_log_offset < 1000 AND (tags = 'x' OR queue_id >= 0)"),
    ]
    for chosen in sought:
        calls.clear()
        assert 0 < len(found(log, EVERYTHING, chosen)) == len(calls)
    for chosen in (RecordFilter(), record_filter(queue_id=3)):
        calls.clear()
        assert len(found(log, OffsetRange(last=9), chosen)) == 9
        assert len(calls) <= 18


@pytest.mark.parametrize("seed", seeds(5))
def test_damage(store_clean: JavaStore, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(store_clean.commit_logs[0].read_bytes().rstrip(b"\0"))
    used = len(data)
    for _ in range(chance.choice((1, 3))):
        at, noise = chance.randrange(used), chance.randbytes(chance.choice((1, 4, 300)))
        data[at : at + len(noise)] = noise
    log = log_of(tmp_path, bytes(data[: chance.choice((used, chance.randrange(used)))]) + bytes(999))
    asked = (record_filter(where=where) for where in chance.sample(CONDITIONS, 4))
    for chosen in (record_filter(tag="tagA"), *asked):
        many, expected = both(log, EVERYTHING, chosen)
        assert many == expected


def test_a_body_that_cannot_be_decompressed(tmp_path: Path) -> None:
    """It stays as stored, and so does its size."""
    whole, bits = compress(b"x" * 5000)
    bodies = {b"a": whole, b"b": whole[:-9], b"c": whole}
    data = b""
    for tag, body in bodies.items():
        made = {"body": body, "sys_flag": bits, "physical_offset": len(data)}
        data += make_record(**made, properties=b"TAGS\x01" + tag)
    log = log_of(tmp_path, data)
    for chosen, tags in (
        (RecordFilter(), "abc"),
        (record_filter(tag="b || c"), "bc"),
        (record_filter(where="body_size = 5000"), "ac"),
        (record_filter(where=f"body_size = {len(whole) - 9}"), "b"),
    ):
        many, expected = both(log, EVERYTHING, chosen)
        assert many == expected
        assert not isinstance(many, str)
        assert [message.tags for _, message in many] == list(tags)
    complaints: list[DamagedFile] = []
    records = log_records.log_records(log, EVERYTHING, RecordFilter())
    plain = [message.body for _, message in commit_log.plain_bodies(records, complaints.append)]
    assert plain == [b"x" * 5000, whole[:-9], b"x" * 5000]
    (complaint,) = complaints
    assert (complaint.path, complaint.position) == (log.files[0].path, len(data) // 3 + 3)


def test_the_last_ones(store_clean: JavaStore) -> None:
    log = CommitLogFiles(store_clean.root)
    for chosen in [RecordFilter(), *filters(store_clean)[::4]]:
        everything = found(log, EVERYTHING, chosen)
        assert isinstance(everything, list)
        for count in (1, 30, 5000):
            many, expected = both(log, OffsetRange(last=count), chosen)
            assert many == expected == everything[-count:]


def test_the_last_ones_of_a_renamed_file(store_clean: JavaStore, tmp_path: Path) -> None:
    renamed = tmp_path / "copy"
    renamed.write_bytes(store_clean.commit_logs[1].read_bytes())
    log = CommitLogFiles(renamed)
    many, expected = both(log, OffsetRange(last=5), RecordFilter())
    assert many == expected == all_of(log)[-5:]


def test_the_last_ones_before_damage(copy_java_store: Copy) -> None:
    """For them the log ends at the damage nearest to its end; older files are not read."""
    store = copy_java_store("store-clean")
    log = CommitLogFiles(store.root)
    everything = all_of(log)
    base = log.files[2].base or 0
    starts = [next(offset for offset, _ in everything if offset > at) for at in (100_000, base + 200_000)]
    for file, start in zip((log.files[0], log.files[2]), starts, strict=True):
        data = bytearray(file.path.read_bytes())
        place = start - (file.base or 0)
        data[place : place + 4] = b"\xff" * 4
        file.path.write_bytes(data)
    before = [one for one in everything if base <= one[0] < starts[1]]
    behind = [one for one in everything if one[0] >= base + log.files[2].size]
    assert found(log, OffsetRange(last=len(behind)), RecordFilter()) == behind
    count = len(behind) + 5
    records = log_records.log_records(log, OffsetRange(last=count), RecordFilter())
    given = [next(records)[1] for _ in range(count)]
    assert given == [message for _, message in [*before[-5:], *behind]]
    with pytest.raises(DamagedFile, match=f"{base:020d}: byte {starts[1] - base}: "):
        next(records)
    reached = f"{len(before) + len(behind)} records, then {log.files[2].path}: byte {starts[1] - base}: "
    assert str(found(log, OffsetRange(last=5000), RecordFilter())).startswith(reached)


def test_texts_that_are_no_utf8(tmp_path: Path) -> None:
    """They are read with U+FFFD, and found by that."""
    data = b""
    for broken in (b"\xff", b"\xc3", "\ufffd".encode(), b"x"):
        made = {"topic": b"T" + broken, "physical_offset": len(data)}
        data += make_record(
            **made, properties=b"TAGS\x01a%s\x02KEYS\x01k%s\x02p\x01%s" % (broken, broken, broken)
        )
    log = log_of(tmp_path, data)
    asked = [
        record_filter(key="k\ufffd"),
        record_filter(tag="a\ufffd"),
        record_filter(topics=["T\ufffd"]),
        record_filter(where="p = '\ufffd'"),
        record_filter(where="topic = 'T\ufffd' AND tags IN ('a\ufffd')"),
    ]
    for chosen in asked:
        many, expected = both(log, EVERYTHING, chosen)
        assert many == expected
        assert len(many) == 3


def log_of(folder: Path, data: bytes) -> CommitLogFiles:
    (folder / f"{0:020d}").write_bytes(data)
    return CommitLogFiles(folder)
