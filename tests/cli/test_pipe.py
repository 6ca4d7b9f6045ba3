"""Pipes whose reader is known to have taken what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rmqcli.render.pipe import PAGE, Pipe


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


def pipe_of(descriptor: int) -> Pipe:
    found = Pipe.of(descriptor)
    assert found is not None
    return found


@pytest.mark.parametrize("size", [1, PAGE, PAGE + 1, 3 * PAGE])
async def test_what_was_put_was_read(ends: tuple[int, int], nursery: trio.Nursery, size: int) -> None:
    reader, writer = ends
    pipe, done = pipe_of(writer), trio.Event()

    async def put() -> None:
        await pipe.put(b"x" * size)
        done.set()

    nursery.start_soon(put)
    left = size
    while left:
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert not done.is_set()
        left -= len(os.read(reader, 1000))
    with trio.fail_after(10):
        await done.wait()


async def test_a_reader_that_leaves_before_it_has_all(ends: tuple[int, int], nursery: trio.Nursery) -> None:
    reader, writer = ends
    pipe = pipe_of(writer)

    async def leave() -> None:
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert os.read(reader, 3) == b"abc"
        os.close(reader)

    nursery.start_soon(leave)
    with pytest.raises(BrokenPipeError), trio.fail_after(10):
        await pipe.put(b"abcd")


async def test_a_reader_that_leaves_when_it_has_all(ends: tuple[int, int], nursery: trio.Nursery) -> None:
    reader, writer = ends
    pipe = pipe_of(writer)

    async def leave() -> None:
        await trio.testing.wait_all_tasks_blocked(0.02)
        os.read(reader, 4)
        os.close(reader)

    nursery.start_soon(leave)
    with trio.fail_after(10):
        await pipe.put(b"abcd")
        await pipe.reader_gone()
        with pytest.raises(BrokenPipeError):
            await pipe.put(b"x")


async def test_what_others_wrote_before_is_waited_for(ends: tuple[int, int], nursery: trio.Nursery) -> None:
    reader, writer = ends
    os.write(writer, b"headline")
    nursery.start_soon(pipe_of(writer).put, b"first")
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert os.read(reader, 100) == b"headline"
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert os.read(reader, 100) == b"first"


def test_what_is_no_pipe_of_its_own(ends: tuple[int, int], tmp_path: Path) -> None:
    _, writer = ends
    with (tmp_path / "file").open("wb") as file:
        assert Pipe.of(file.fileno()) is None
        assert Pipe.of(writer, file.fileno()) is not None
    assert Pipe.of(writer, writer) is None
    os.close(writer)
    assert Pipe.of(writer) is None
