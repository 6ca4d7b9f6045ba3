"""The collector of a server scans little at a time, however many objects are freed meanwhile."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import trio

from rmqcli.commands.common.serving import TASKS, CollectAfterTasks


class Node:
    """An object that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def no_automatic_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def test_what_the_latest_tasks_have_left_is_freed(no_automatic_collections: None) -> None:
    left: list[weakref.ref[Node]] = []

    async def leave() -> None:
        left.append(weakref.ref(Node()))

    collect = CollectAfterTasks()
    trio.lowlevel.add_instrument(collect)
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(TASKS):
                nursery.start_soon(leave)
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
    finally:
        trio.lowlevel.remove_instrument(collect)
    assert [one for one in left[: TASKS - 2] if one() is not None] == []
