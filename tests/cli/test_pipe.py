"""Pipes whose reader is known to have taken what was written."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from rmqcli.flows.pipe import PAGE, Pipe
from tests.support import PATIENCE


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """The ends for the reader and the writer."""
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            continue


@pytest.fixture(params=["alone", "shared"])
def pipe_of(request: pytest.FixtureRequest) -> Callable[[int], Pipe]:
    """A pipe of its own, or one that standard error goes to, too."""

    def make(descriptor: int) -> Pipe:
        found = Pipe.of(descriptor, descriptor if request.param == "shared" else None)
        assert found is not None
        return found

    return make


@pytest.mark.parametrize("size", [1, PAGE, PAGE + 1, 3 * PAGE])
async def test_what_was_put_was_read(
    ends: tuple[int, int], pipe_of: Callable[[int], Pipe], nursery: trio.Nursery, size: int
) -> None:
    reader, writer = ends
    pipe, done = pipe_of(writer), trio.Event()

    async def put() -> None:
        await pipe.put(b"x" * size)
        done.set()

    nursery.start_soon(put)
    left = size
    while left:
        await trio.lowlevel.wait_readable(reader)
        assert not done.is_set()
        left -= len(os.read(reader, 1000))
    with trio.fail_after(PATIENCE):
        await done.wait()


async def take_and_leave(reader: int, size: int) -> None:
    await trio.lowlevel.wait_readable(reader)
    assert len(os.read(reader, size)) == size
    os.close(reader)


async def test_a_reader_that_leaves_before_it_has_all(
    ends: tuple[int, int], pipe_of: Callable[[int], Pipe], nursery: trio.Nursery
) -> None:
    reader, writer = ends
    pipe = pipe_of(writer)
    nursery.start_soon(take_and_leave, reader, 3)
    with pytest.raises(BrokenPipeError), trio.fail_after(PATIENCE):
        await pipe.put(b"abcd")


async def test_a_reader_that_leaves_when_it_has_all(
    ends: tuple[int, int], pipe_of: Callable[[int], Pipe], nursery: trio.Nursery
) -> None:
    reader, writer = ends
    pipe = pipe_of(writer)
    nursery.start_soon(take_and_leave, reader, 4)
    with trio.fail_after(PATIENCE):
        await pipe.put(b"abcd")
        await pipe.reader_gone()
        with pytest.raises(BrokenPipeError):
            await pipe.put(b"x")


async def test_what_others_wrote_before_is_waited_for(
    ends: tuple[int, int], pipe_of: Callable[[int], Pipe], nursery: trio.Nursery
) -> None:
    reader, writer = ends
    os.write(writer, b"headline")
    nursery.start_soon(pipe_of(writer).put, b"first")
    await trio.lowlevel.wait_readable(reader)
    assert os.read(reader, 100) == b"headline"
    await trio.lowlevel.wait_readable(reader)
    assert os.read(reader, 100) == b"first"


def test_what_is_no_pipe(ends: tuple[int, int], tmp_path: Path) -> None:
    _, writer = ends
    with (tmp_path / "file").open("wb") as file:
        assert Pipe.of(file.fileno()) is None
        assert Pipe.of(writer, file.fileno()) is not None
    os.close(writer)
    assert Pipe.of(writer) is None


def test_a_pipe_of_others_keeps_its_size(ends: tuple[int, int]) -> None:
    _, writer = ends
    size = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    Pipe.of(writer, writer)
    assert fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) == size > PAGE
    Pipe.of(writer)
    assert fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) == PAGE


async def test_a_pipe_with_more_in_it_than_a_page(ends: tuple[int, int], nursery: trio.Nursery) -> None:
    reader, writer = ends
    os.write(writer, bytes(3 * PAGE))
    pipe = Pipe.of(writer)
    assert pipe is not None
    nursery.start_soon(pipe.put, b"first")
    await trio.lowlevel.wait_readable(reader)
    assert len(os.read(reader, 4 * PAGE)) == 3 * PAGE
    await trio.lowlevel.wait_readable(reader)
    assert os.read(reader, 100) == b"first"
