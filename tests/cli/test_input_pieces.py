from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.flows.outgoing import READ_SIZE, Piece, Splitter, count_pieces, read_pieces


def cut(data: bytes, delimiter: bytes, sizes: list[int], limit: int = 1000) -> list[bytes | None]:
    splitter = Splitter(delimiter, limit)
    found: list[Piece] = []
    for size in [*sizes, len(data)]:
        found += splitter.feed(data[:size])
        data = data[size:]
    found += splitter.end()
    assert [piece.number for piece in found] == list(range(1, len(found) + 1))
    return [piece.data for piece in found]


def expected(data: bytes, delimiter: bytes) -> list[bytes]:
    pieces = data.split(delimiter)
    return pieces if pieces[-1] else pieces[:-1]


@given(
    st.text("ab|\n", max_size=40).map(str.encode),
    st.sampled_from([b"\n", b"||", b"ab", b"aab", b"\0"]),
    st.lists(st.integers(0, 5), max_size=20),
)
def test_any_chunks_make_the_same_pieces(data: bytes, delimiter: bytes, sizes: list[int]) -> None:
    assert cut(data, delimiter, sizes) == expected(data, delimiter)


def test_a_piece_over_the_limit_is_dropped_and_the_next_is_not() -> None:
    assert cut(b"aaaaaa\nbb\nccccccc", b"\n", [1] * 20, limit=5) == [None, b"bb", None]


def test_a_piece_over_the_limit_takes_no_memory() -> None:
    splitter = Splitter(b"\n", 10)
    for _ in range(100):
        assert splitter.feed(b"x" * 10) == []
    assert sum(map(len, splitter._parts)) <= 10


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


async def test_reads_to_the_end_of_the_stream(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, b"one\ntwo\n\nthree")
    os.close(writer)
    pieces = [piece async for piece in read_pieces(reader, b"\n")]
    os.close(reader)
    assert pieces == [Piece(1, b"one"), Piece(2, b"two"), Piece(3, b""), Piece(4, b"three")]


async def test_the_whole_input_is_one_piece(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, b"one\ntwo\n")
    os.close(writer)
    assert [piece async for piece in read_pieces(reader, None)] == [Piece(1, b"one\ntwo\n")]
    os.close(reader)


async def test_a_whole_input_over_the_limit(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, b"abcd")
    os.close(writer)
    assert [piece async for piece in read_pieces(reader, None, limit=3)] == [Piece(1, None)]
    os.close(reader)


async def test_a_piece_comes_before_the_next_is_written(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    pieces = read_pieces(reader, b"\n")
    for number in range(1, 4):
        os.write(writer, b"x\n")
        assert await anext(pieces) == Piece(number, b"x")
    os.close(writer)
    assert [piece async for piece in pieces] == []
    os.close(reader)


@pytest.mark.parametrize(
    ("data", "delimiter", "count"),
    [
        (b"", b"\n", 0),
        (b"a\nb", b"\n", 2),
        (b"a\nb\n", b"\n", 2),
        (b"a" * (READ_SIZE - 1) + b"--b", b"--", 2),  # two reads cut the delimiter in two
        (b"a\nb", None, 1),
    ],
)
def test_pieces_of_a_file_are_counted(
    tmp_path: Path, data: bytes, delimiter: bytes | None, count: int
) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    assert count_pieces(path, delimiter) == count


def test_a_pipe_is_not_read_to_count_its_pieces(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert count_pieces(tmp_path / "pipe", b"\n") is None
