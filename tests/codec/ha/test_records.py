"""From blocks to whole records, in every chunking."""

from __future__ import annotations

import random

import pytest

from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.ha.frames import MAX_RECORD_SIZE, RecordStream, Run
from rmqcli.codec.records.encoding import encode_filler
from rmqcli.codec.store.record_layout import HEAD, MAGIC_FILLER, MAGIC_V1
from tests.codec.samples import make_record

BEGIN = 4096
RECORDS = [make_record(body=b"b" * size) for size in (0, 5, 60)]
FILLER = encode_filler(50) + b"anything".ljust(42, b"z")
LOG = RECORDS[0] + RECORDS[1] + FILLER + RECORDS[2]


def streamed(chunks: list[bytes], begin: int = BEGIN) -> list[Run]:
    stream, runs, offset = RecordStream(begin), [], begin
    for chunk in chunks:
        assert stream.next_offset == offset
        runs += stream.feed(offset, chunk)
        offset += len(chunk)
    return runs


def expected() -> list[tuple[int, bytes, bool]]:
    first = BEGIN + len(RECORDS[0])
    filler = first + len(RECORDS[1])
    return [
        (BEGIN, RECORDS[0], False),
        (first, RECORDS[1], False),
        (filler, FILLER[:8], True),
        (filler + len(FILLER), RECORDS[2], False),
    ]


def split(runs: list[Run]) -> list[tuple[int, bytes, bool]]:
    """Runs cut into single records."""
    found = []
    for offset, data, is_filler in runs:
        position = 0
        while position < len(data):
            size = 8 if is_filler else HEAD.unpack_from(data, position)[0]
            found.append((offset + position, data[position : position + size], is_filler))
            position += size
    return found


def test_every_cut_in_two_and_every_chunk_size() -> None:
    for cut in range(len(LOG) + 1):
        assert split(streamed([LOG[:cut], LOG[cut:]])) == expected()
    for size in range(1, len(LOG)):
        assert split(streamed([LOG[at : at + size] for at in range(0, len(LOG), size)])) == expected()


def test_records_that_came_together_are_one_run() -> None:
    assert streamed([RECORDS[0] + RECORDS[1]]) == [Run(BEGIN, RECORDS[0] + RECORDS[1])]


def test_bytes_that_are_known_before() -> None:
    stream = RecordStream(0, RECORDS[0][:1])
    assert stream.next_offset == 1
    assert stream.feed(1, RECORDS[0][1:]) == [Run(0, RECORDS[0])]


@pytest.mark.parametrize("offset", [BEGIN - 1, BEGIN + 1, 0])
def test_bytes_from_elsewhere(offset: int) -> None:
    with pytest.raises(RemoteProtocolError, match=str(BEGIN)):
        RecordStream(BEGIN).feed(offset, RECORDS[0])


@pytest.mark.parametrize(
    ("size", "magic"),
    [
        (0, MAGIC_V1),
        (90, MAGIC_V1),
        (-1, MAGIC_V1),
        (MAX_RECORD_SIZE + 1, MAGIC_V1),
        (100, 0),
        (7, MAGIC_FILLER),
    ],
)
def test_no_record(size: int, magic: int) -> None:
    with pytest.raises(RemoteProtocolError, match="no record begins at offset 4096"):
        RecordStream(BEGIN).feed(BEGIN, HEAD.pack(size, magic))


def test_random_bytes_raise_nothing_else() -> None:
    rng = random.Random(11)
    for _ in range(2000):
        log = bytearray(LOG)
        log[rng.randrange(len(log))] = rng.randrange(256)
        try:
            RecordStream(0).feed(0, log)
        except RemoteProtocolError:
            continue
