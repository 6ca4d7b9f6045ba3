"""The replication protocol: bytes of both directions, in every chunking, and hostile values."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from rmqcli.codec.errors import LocalProtocolError, RemoteProtocolError
from rmqcli.codec.ha.frames import (
    BLOCK_HEADER,
    MAX_OFFSET,
    REPORT,
    BlockPart,
    BlockReader,
    ReportReader,
    encode_block_header,
    encode_report,
)

BLOCKS = [(0, b""), (0, b"first"), (5, b""), (5, bytes(range(256))), (261, b"x")]
STREAM = b"".join(encode_block_header(offset, len(data)) + data for offset, data in BLOCKS)


def chunkings(data: bytes) -> list[list[bytes]]:
    """All cuts in two, pieces of each size, and random cuts."""
    rng = random.Random(4)
    found = [[data[:cut], data[cut:]] for cut in range(len(data) + 1)]
    found += [[data[at : at + size] for at in range(0, len(data), size)] for size in range(1, 40)]
    for _ in range(50):
        cuts = [0, *sorted(rng.sample(range(1, len(data)), 5)), len(data)]
        found.append([data[start:stop] for start, stop in pairwise(cuts)])
    return found


def joined(parts: list[BlockPart]) -> list[tuple[int, bytes]]:
    """Parts that continue each other as one; heartbeats stay."""
    whole: list[tuple[int, bytes]] = []
    for offset, data in parts:
        if data and whole and whole[-1][1] and whole[-1][0] + len(whole[-1][1]) == offset:
            whole[-1] = whole[-1][0], whole[-1][1] + data
        else:
            whole.append((offset, data))
    return whole


def test_bytes_of_both_directions() -> None:
    assert encode_report(1_073_741_824).hex() == "0000000040000000"
    assert encode_block_header(4096, 32768).hex() == "000000000000100000008000"


def test_the_declaration_says_the_same() -> None:
    assert REPORT.declaration.build({"max_offset": 77}) == encode_report(77)
    assert BLOCK_HEADER.declaration.build({"offset": 77, "size": 3}) == encode_block_header(77, 3)


def test_blocks_in_every_chunking() -> None:
    expected = [(0, b""), (0, b"first"), (5, b""), (5, bytes(range(256)) + b"x")]
    for chunks in chunkings(STREAM):
        reader = BlockReader()
        assert joined([part for chunk in chunks for part in reader.feed(chunk)]) == expected


def test_bytes_of_a_block_do_not_wait_for_its_end() -> None:
    reader = BlockReader()
    parts = reader.feed(encode_block_header(8, 2**31 - 1) + b"begin")
    assert parts == [(8, b"begin")]
    assert reader.feed(memoryview(b"more")) == [(13, b"more")]


def test_reports_in_every_chunking() -> None:
    stream = encode_report(1) + encode_report(2**40) + encode_report(7)
    for chunks in chunkings(stream):
        reader = ReportReader()
        found = [one for chunk in chunks if (one := reader.feed(chunk)) is not None]
        assert found[-1] == 7
        assert set(found) <= {1, 2**40, 7}


@pytest.mark.parametrize(("offset", "size"), [(-1, 0), (0, -1), (MAX_OFFSET, 1), (-(2**63), -(2**31))])
def test_hostile_blocks(offset: int, size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        BlockReader().feed(BLOCK_HEADER.pack(offset, size))
    with pytest.raises(LocalProtocolError):
        encode_block_header(offset, size if offset < MAX_OFFSET else 2**31)


def test_hostile_reports() -> None:
    with pytest.raises(RemoteProtocolError):
        ReportReader().feed(REPORT.pack(-1))
    for wrong in (-1, MAX_OFFSET + 1):
        with pytest.raises(LocalProtocolError):
            encode_report(wrong)


def test_random_bytes_raise_nothing_else() -> None:
    rng = random.Random(9)
    for _ in range(2000):
        data = rng.randbytes(rng.randrange(60))
        for reader in (BlockReader(), ReportReader()):
            try:
                reader.feed(data)
            except RemoteProtocolError:
                continue
